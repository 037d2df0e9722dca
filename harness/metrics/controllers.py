# SPDX-License-Identifier: GPL-2.0-only
"""Figures of QEMU's controllers below a role: where they sit, and which processors took their interrupts."""

from collections import Counter
from collections.abc import Iterator, Mapping

from harness.metrics.counters import read_sections
from harness.metrics.node import MeasurementError, sent
from harness.scenario.metric_names import INTERRUPTS, MOST_PROCESSORS, PLACES
from harness.scenario.model import Load, Role
from lab.base.record import INVENTORY
from lab.realise.in_qemu.inventory import Inventory, host_rows, mismatches, read_inventory
from lab.topology.model import Topology

_INTERRUPTS = "/proc/interrupts"
Named = tuple[tuple[str, str, str], float]


def checked_inventory(files: Mapping[str, bytes], topology: Topology) -> Inventory:
    """What the guest saw of an emulated topology. Raises MeasurementError where it is not what the topology says."""
    seen = read_inventory(files.get(INVENTORY, b""))
    if wrong := mismatches(topology, seen):
        rest = f"; and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        raise MeasurementError(INVENTORY, f"{wrong[0]}{rest}")
    return seen


def controller_figures(files: Mapping[str, bytes], load: Load, topology: Topology, seen: Inventory) -> Iterator[Named]:
    """``interrupts`` by processor over a load's window with its ramp, ``node``, ``slot.lanes`` and ``slot.gts``.

    What several controllers below a role do not have in common is left out. Raises MeasurementError.
    """
    before, after = (_interrupts(files, f"{load.name}.{when}") for when in ("before", "after"))
    for role in load.roles.values():
        hbas = dict.fromkeys(topology.luns[lun].hba for disk in role.disks for lun in topology.leaves(disk))
        irqs = {irq for hba in hbas for irq in seen.get(f"hba.{hba}.interrupts", "").split()}
        counts = Counter[int]()
        for irq in irqs & after.keys():
            counts.update({cpu: now - was for cpu, (now, was) in enumerate(zip(after[irq], before[irq], strict=True))})
        yield (load.name, role.name, INTERRUPTS), float(sum(counts.values()))
        for cpu in range(MOST_PROCESSORS):
            yield (load.name, role.name, f"{INTERRUPTS}.cpu{cpu}"), float(counts[cpu])
        yield from _places(load, role, topology, seen, set(hbas))


def _places(load: Load, role: Role, topology: Topology, seen: Inventory, hbas: set[str]) -> Iterator[Named]:
    rows = [row for row in host_rows(topology, seen) if row.hba in hbas]
    for name, texts in zip(
        PLACES,
        (
            {row.node for row in rows},
            {seen.get(f"hba.{row.hba}.max_link_width", "") for row in rows},
            {seen.get(f"hba.{row.hba}.max_link_speed", "").partition(" ")[0] for row in rows},
        ),
        strict=True,
    ):
        (*_, text) = texts
        if len(texts) == 1 and text:
            yield (load.name, role.name, name), float(text)


def _interrupts(files: Mapping[str, bytes], file: str) -> dict[str, tuple[int, ...]]:
    """Counts by processor of each numbered interrupt. Raises MeasurementError."""
    header, *rows = read_sections(sent(files, file), file).get(_INTERRUPTS, "").splitlines() or [""]
    processors = len(header.split())
    found = {}
    for row in rows:
        number, _, rest = row.strip().partition(":")
        counts = rest.split()[:processors]
        if number.isdecimal() and len(counts) == processors and all(count.isdecimal() for count in counts):
            found[number] = tuple(map(int, counts))
    return found
