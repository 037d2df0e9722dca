# SPDX-License-Identifier: GPL-2.0-only
"""``blklab check inventory``: a topology on QEMU's controllers, compared with what the kernel shows of it."""

import argparse
import tempfile
from pathlib import Path

from harness.commands.common.boots import kernel_of, lab_of_host
from harness.commands.common.options import add_kernel, add_topology
from lab.base.errors import EXIT_FAIL, EXIT_PASS, BlklabError, CannotJudge, KernelFailed, LabBroken
from lab.base.record import INVENTORY, BootRecord, Outcome
from lab.kernels.model import Kernel
from lab.realise.in_qemu.inventory import Inventory, mismatches, read_inventory
from lab.session import Job, Lab, accelerator_for, prepare_job, run_job, unmet
from lab.topology.emulated import differences, emulated
from lab.topology.limits import refusals
from lab.topology.load import load_topology
from lab.topology.model import Topology

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
    seen = look(lab, kernel, topology)
    wrong = mismatches(topology, seen)
    facts = {"kernel": kernel.release, "runs on": str(accelerator_for(lab, kernel)), **seen}
    width = max(map(len, facts))
    print("\n".join(f"{key:{width}}  {text}" for key, text in facts.items()))
    for name, lines in (("note", differences(asked, topology)), ("WRONG", wrong)):
        print("".join(f"{name:{width}}  {line}\n" for line in lines), end="")
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
