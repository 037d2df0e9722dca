# SPDX-License-Identifier: GPL-2.0-only
"""What device-mapper made of the tables that it was given: ``dmsetup table`` of each device, and the kernel's log.

dm-round-robin, dm-queue-length and dm-service-time of today's kernels take a repeat count above 1, warn, and
run with 1 (rr_add_path in drivers/md/dm-round-robin.c, say).
"""

from collections.abc import Iterator, Mapping

from harness.metrics.node import MeasurementError, sent
from lab.base.record import TRIED
from lab.topology.fields import REPEAT_COUNT
from lab.topology.model import StackKind, Topology

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
                f" {_said(files)}; its table reads: {table.strip()}"
            )


def tried_counts(files: Mapping[str, bytes], topology: Topology) -> dict[tuple[str, str, str], float]:
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


def repeat_counts(table: str, file: str) -> set[int]:
    """The repeat counts of all paths in the table of a multipath device; empty for a selector that has none.

    Documentation/admin-guide/device-mapper/dm-mpath.rst has the words. Raises MeasurementError.
    """
    words = iter(table.split()[3:])
    try:
        for _ in range(2):
            # Features, then the hardware handler: a number of words, and these words.
            _skip(words, int(next(words)))
        counts: set[int] = set()
        groups, _ = int(next(words)), next(words)
        for _ in range(groups):
            next(words)
            _skip(words, int(next(words)))
            paths, arguments = int(next(words)), int(next(words))
            for _ in range(paths):
                _, *values = (next(words) for _ in range(1 + arguments))
                counts.update(map(int, values[:1]))
        return counts
    except (RuntimeError, StopIteration, ValueError) as error:
        raise MeasurementError(file, f'is no table of a multipath device: "{table.strip()[:80]}"') from error


def _skip(words: Iterator[str], count: int) -> None:
    for _ in range(count):
        next(words)


def _said(files: Mapping[str, bytes]) -> str:
    lines = [line for line in _text(files, KMSG).splitlines() if "repeat_count" in line]
    return f'the kernel says "{lines[0].partition("] ")[2]}"' if lines else "the kernel says nothing of it"


def _text(files: Mapping[str, bytes], name: str) -> str:
    return sent(files, name).decode("utf-8", "replace")
