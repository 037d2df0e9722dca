# SPDX-License-Identifier: GPL-2.0-only
"""All figures of one cell, and what its set-up tells: settings that were refused, changed or tried."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from harness.figures.boot import LoadFiles, MeasurementError, sent
from harness.figures.counters import controller_figures, counter_figures, folio_figures
from harness.figures.fio import fio_figures
from harness.figures.lines import line_figures
from harness.figures.samples import disk_figures, sample_figures
from harness.scenario.model import Load
from harness.scenario.registry import BootFile, FigureKey, Figures, Readings
from lab.base.record import ABSENT, ROUTED, TRIED
from lab.topology.fields import REPEAT_COUNT
from lab.topology.model import StackKind, Topology

READERS: Mapping[BootFile, Callable[[LoadFiles, Figures], Readings]] = {
    BootFile.INVENTORY: controller_figures,
    BootFile.FIO: fio_figures,
    BootFile.COUNTERS: counter_figures,
    BootFile.TRACE: folio_figures,
    BootFile.DISKS: disk_figures,
    BootFile.SAMPLES: sample_figures,
    BootFile.PLUGIN: line_figures,
}
"""The figures of each file of a load. A reader gets those that were read before."""


def figures_of(files: Mapping[str, bytes], topology: Topology, loads: Iterable[Load]) -> dict[FigureKey, float]:
    """Figures of every load, from the measured files of one boot. Raises MeasurementError."""
    figures = tried_counts(files, topology)
    if any(stack.tried.keys() - {REPEAT_COUNT.name} for stack in topology.stacks.values()):
        figures.update(read_tried(sent(files, TRIED)))
    for load in loads:
        left = LoadFiles(files, topology, load)
        for read in READERS.values():
            figures.update(read(left, figures))
    return figures


_TRIED_ROW = re.compile(r"([^\t]*)\t[^\t]*\t([01])\t([^\t]*)")
# The scheduler is set first: where its file is not there, neither is the disk.
_ATTRIBUTE = re.compile(r"(?:stack\.)?queue\.(iosched/|(?!scheduler))(\S+)\[\S+\]")


def read_tried(data: bytes) -> dict[FigureKey, float]:
    """Figures ``("tried", "accepted" | "effective", knob)``. Raises MeasurementError."""
    figures = {}
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), start=1):
        if not (row := _TRIED_ROW.fullmatch(line)):
            raise MeasurementError(TRIED, f'line {number} is not a knob, a path, 0 or 1, and a value: "{line}"')
        figures[TRIED, "accepted", row[1]] = float(row[2])
        if row[3].isdigit():
            figures[TRIED, "effective", row[1]] = float(row[3])
    return figures


def refused(unfit: Sequence[str], scheduler: str, release: str) -> str:
    """The setting that this kernel does not have; empty where the set-up failed for another reason.

    ``unfit`` is that of a boot, ``scheduler`` the elevator that it should use.
    """
    match unfit:
        case [code, knob, _] if code == ABSENT and (attribute := _ATTRIBUTE.fullmatch(knob)):
            return f"{scheduler if attribute[1] else 'a queue'} of {release} has no attribute {attribute[2]}"
        case [code, knob, interrupt] if code == ROUTED:
            hba = knob.removeprefix("hba.interrupts[").removesuffix("]")
            return f"{release} routes interrupt {interrupt} of {hba} itself"
    return ""


KMSG = "kmsg"


def overridden(files: Mapping[str, bytes], topology: Topology) -> Iterator[str]:
    """A sentence for each selector whose repeat count the kernel set to another than the one asked for.

    ``files`` are those of a boot. Raises MeasurementError where a table is missing or is none.
    """
    told: set[str] = set()
    for stack in topology.stacks.values():
        if stack.kind is not StackKind.MULTIPATH or stack.repeat_count == 1 or stack.selector in told:
            continue
        if REPEAT_COUNT.name in stack.tried:
            continue
        table = _text(files, f"{stack.name}.table")
        effective = repeat_counts(table, f"{stack.name}.table")
        if effective and effective != {stack.repeat_count}:
            told.add(stack.selector)
            counts = ", ".join(map(str, sorted(effective)))
            yield (
                f"{stack.selector} of {stack.name} runs with repeat_count {counts}, not {stack.repeat_count}:"
                f" {_kernel_message(files)}; its table reads: {table.strip()}"
            )


def tried_counts(files: Mapping[str, bytes], topology: Topology) -> dict[FigureKey, float]:
    """Figures ``("tried", "accepted" | "effective", knob)`` of the repeat counts under ``try:``.

    Raises MeasurementError where a table is missing or has no such count.
    """
    figures = {}
    for stack in topology.stacks.values():
        if REPEAT_COUNT.name not in stack.tried:
            continue
        knob, file = f"stack.{stack.name}.{REPEAT_COUNT.name}", f"{stack.name}.table"
        counts = repeat_counts(_text(files, file), file)
        if not counts:
            raise MeasurementError(file, f"path selector {stack.selector} has no repeat count")
        figures[TRIED, "accepted", knob] = float(counts == {stack.repeat_count})
        figures[TRIED, "effective", knob] = float(min(counts))
    return figures


PathGroups = Sequence[tuple[str, Sequence[Sequence[str]]]]
"""The selector of each group, and the words of each path: its device number and its arguments."""


def repeat_counts(table: str, file: str) -> set[int]:
    """The repeat counts of all paths in the table of a multipath device; empty for a selector that has none.

    Raises MeasurementError.
    """
    try:
        _, groups = multipath_table(table.split()[3:])
        return {int(count) for _, paths in groups for path in paths for count in path[1:2]}
    except (StopIteration, ValueError) as error:
        raise MeasurementError(file, f'is not a table of a multipath device: "{table.strip()[:80]}"') from error


def multipath_table(words: Iterable[str]) -> tuple[list[str], PathGroups]:
    """The features and the path groups of a multipath target.

    Documentation/admin-guide/device-mapper/dm-mpath.rst has the words. Raises ValueError and StopIteration.
    """
    left = iter(words)

    def take(count: int) -> list[str]:
        return [next(left) for _ in range(count)]

    features, _handler = take(int(next(left))), take(int(next(left)))
    count, _first = int(next(left)), next(left)
    groups = []
    for _ in range(count):
        selector, _arguments = next(left), take(int(next(left)))
        paths, arguments = int(next(left)), int(next(left))
        groups.append((selector, [[next(left), *take(arguments)] for _ in range(paths)]))
    return features, groups


def _kernel_message(files: Mapping[str, bytes]) -> str:
    lines = [line for line in _text(files, KMSG).splitlines() if "repeat_count" in line]
    return f'the kernel says "{lines[0].partition("] ")[2]}"' if lines else "the kernel says nothing of it"


def _text(files: Mapping[str, bytes], name: str) -> str:
    return sent(files, name).decode("utf-8", "replace")
