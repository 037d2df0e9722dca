# SPDX-License-Identifier: GPL-2.0-only
"""What a kernel showed of a topology on QEMU's controllers, as two tables."""

from collections.abc import Iterable, Sequence

from rich.console import Console

from lab.realise.in_qemu.inventory import Inventory, disk_rows, host_rows
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
