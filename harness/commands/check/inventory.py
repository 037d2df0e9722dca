# SPDX-License-Identifier: GPL-2.0-only
"""``blklab check inventory``: a topology on QEMU's controllers, compared with what the kernel shows of it."""

import argparse
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console

from harness.commands.common.boots import kernel_of, lab_of_host
from harness.commands.common.options import add_kernel, add_topology
from lab.base.errors import EXIT_FAIL, EXIT_PASS, BlklabError, CannotJudge, KernelFailed, LabBroken
from lab.base.record import INVENTORY, BootRecord, Outcome
from lab.kernels.model import Kernel
from lab.realise.in_qemu.inventory import Inventory, disk_rows, host_rows, mismatches, read_inventory
from lab.session import Job, Lab, accelerator_for, prepare_job, run_job, unmet
from lab.topology.emulated import differences, emulated
from lab.topology.limits import refusals
from lab.topology.load import load_topology
from lab.topology.model import Topology


def print_inventory(
    console: Console, topology: Topology, seen: Inventory, notes: Sequence[str], wrong: Sequence[str]
) -> None:
    """Controllers and disks as seen; ``notes`` say what the topology lost on QEMU, ``wrong`` what is not as it says."""
    hosts = ((r.hba, r.driver, r.pci, r.can_queue, r.node, r.slot) for r in host_rows(topology, seen))
    _print(console, ("HBA", "driver", "PCI", "can_queue", "node", "slot"), hosts)
    disks = ((r.lun, r.name, r.address, r.wwid, r.depth) for r in disk_rows(topology, seen))
    _print(console, ("LUN", "device", "address", "WWN", "depth"), disks)
    for stack in topology.stacks.values():
        _line(console, f"{stack.kind} {stack.name} over {len(stack.over)}: {', '.join(stack.over)}")
    for note in notes:
        _line(console, f"note      {note}")
    for reason in wrong:
        _line(console, f"WRONG     {reason}")
    names = f"{len(topology.hbas)} controllers, {len(topology.luns)} disks and paths, {len(topology.stacks)} stacks"
    _line(console, f"{topology.name}: {names}: {f'{len(wrong)} are not as they should be' if wrong else 'all there'}")


def _print(console: Console, titles: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    table = [titles, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(titles))]
    for row in table:
        _line(console, "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


def _line(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)


_FAILURES: dict[Outcome, type[BlklabError]] = {
    Outcome.NOT_READY: CannotJudge,
    Outcome.LATE: CannotJudge,
    Outcome.DOUBTFUL: CannotJudge,
    Outcome.OOPS: KernelFailed,
    Outcome.HANG: KernelFailed,
}


def configure(parser: argparse.ArgumentParser) -> None:
    add_topology(parser)
    add_kernel(parser)
    parser.epilog = "Exit status: 1 when disks, tags, paths or nodes differ from the topology."


def execute(options: argparse.Namespace) -> int:
    asked = load_topology(options.topology, near=Path())
    topology = emulated(asked)
    if reasons := list(map(str, refusals(topology))):
        raise CannotJudge(f"QEMU's controllers cannot provide {asked.name}:\n  " + "\n  ".join(reasons))
    kernel, lab = kernel_of(options.kernel), lab_of_host()
    console = Console()
    for line in (f"kernel    {kernel.release}", f"runs on   {accelerator_for(lab, kernel)}"):
        console.print(line, highlight=False)
    seen = look(lab, kernel, topology)
    wrong = mismatches(topology, seen)
    print_inventory(console, topology, seen, differences(asked, topology), wrong)
    return EXIT_FAIL if wrong else EXIT_PASS


def look(lab: Lab, kernel: Kernel, topology: Topology) -> Inventory:
    """The inventory that a guest reads from sysfs.

    Raises CannotJudge with all reasons when the kernel or QEMU lacks something, BlklabError when the boot fails.
    """
    if reasons := unmet(lab, kernel, topology):
        raise CannotJudge("; ".join(reasons))
    prepared = prepare_job(lab, kernel, topology, Job({}, (), 0, 0, {"inventory": topology.name}))
    with tempfile.TemporaryDirectory(prefix="blklab-inventory-") as folder:
        record = run_job(lab, prepared, Path(folder))
    if record.outcome is not Outcome.BYE:
        raise _failure(record)
    return read_inventory(record.files.get(INVENTORY, b""))


def _failure(record: BootRecord) -> BlklabError:
    kind = _FAILURES.get(record.outcome, LabBroken)
    return kind(f"boot ended as {record.outcome}: {record.detail}", remedy="blklab doctor shows what this host lacks")
