# SPDX-License-Identifier: GPL-2.0-only
"""A timeline as text: one line per change, a value per kernel, then what was not measured and why."""

import re
import textwrap
from collections.abc import Iterator, Sequence

from harness.judge.thresholds import LARGE
from harness.judge.visible import unseen
from harness.report.format import duration, figure, plural
from harness.scenario.model import Status
from harness.studies.timeline.lines import ReleaseChange, TimelineRow
from harness.studies.timeline.measure import Timeline
from harness.studies.timeline.sweep import KernelPoint, Sweep, label
from lab.kernels import kconfig

# What decides the cost of an I/O besides the code: preemption, ticks, the block layer, copies, allocation, stacks.
_TELLING = re.compile(
    r"CONFIG_(?!BLK_DEV_)(PREEMPT|HZ_|NO_HZ|BLK_|MQ_IOSCHED|IOSCHED|SLUB|INIT_ON|INIT_STACK|HARDENED_USERCOPY|RANDOMIZE_KST)"
)
_MOST = 6


def differences(sweep: Sweep, pairs: set[tuple[int, int]]) -> Iterator[str]:
    """A line for each pair of places, such as ``6.12 -> 6.16: 219 options differ: PREEMPT_LAZY n -> y``."""
    for before, after in sorted(pairs):
        ends = sweep.points[before], sweep.points[after]
        drifted = kconfig.drift(ends[0].config, ends[1].config).options
        telling = sorted(filter(_TELLING.match, drifted), key=lambda name: not name.startswith("CONFIG_PREEMPT"))
        told = [f"{name.removeprefix('CONFIG_')} {' -> '.join(drifted[name])}" for name in telling]
        more = f" and {len(told) - _MOST} more like these" if len(told) > _MOST else ""
        named = f": {', '.join(told[:_MOST])}{more}" if told else ", none of preemption, the block layer or hardening"
        neighbours = f"{label(sweep.specs[before])} -> {label(sweep.specs[after])}"
        yield f"{neighbours}: {len(drifted)} options differ{named}"


def text(timeline: Timeline) -> str:
    """The whole report."""
    parts = (_head, _changes, _values, _options, _gaps, _end)
    return "".join(f"{line}\n" for part in parts for line in part(timeline))


def between(change: ReleaseChange, sweep: Sweep) -> str:
    """``7.0 -> 7.1``, with the kernels between them that could not be measured."""
    missing = [label(sweep.specs[place]) for place in range(change.before + 1, change.after) if place in sweep.missing]
    note = f" ({', '.join(missing)} missing)" if missing else ""
    return f"{label(sweep.specs[change.before])} -> {label(sweep.specs[change.after])}{note}"


def what(change: ReleaseChange) -> str:
    """``mq-deadline solo.fast.cpu.per_io +58 %``; for a claim that turned, how."""
    line, share = change.line, change.share
    words = line.title
    if change.turned:
        words += f": {line.status(change.before)} -> {line.status(change.after)}"
    return words if share is None else f"{words} {by(share)}"


def by(share: float) -> str:
    """``+58 %``; from a doubling on as a factor: ``x 4.3``."""
    return f"{100 * share:+.0f} %" if share < 1 else f"x {1 + share:.3g}"


def values(change: ReleaseChange) -> str:
    """``0.020 -> 0.990, expected >= 0.9``, or ``12,345 -> 19,505 ns``."""
    line = change.line
    ends = " -> ".join(
        figure(line.values[at].median) if at in line.values else "?" for at in (change.before, change.after)
    )
    return f"{ends} {line.unit}".rstrip() if line.bound is None else f"{ends}, expected {line.bound.text}"


def _head(timeline: Timeline) -> Iterator[str]:
    sweep = timeline.sweep
    kernels = f"{plural(len(sweep.specs), 'kernel')}, {label(sweep.specs[0])} to {label(sweep.specs[-1])}"
    yield f"{sweep.scenario.name}: {sweep.scenario.title}"
    yield f"{kernels}: {len(sweep.points)} measured, {len(sweep.missing)} missing, {len(sweep.skipped)} not needed"
    yield ""


def _changes(timeline: Timeline) -> Iterator[str]:
    """The claims of a pair of kernels come before its figures."""
    for change in timeline.changes:
        yield f"  {between(change, timeline.sweep)}: {what(change)}  ({values(change)})"
    if not timeline.changes:
        yield "  no change"


_NAME, _WIDTH = 36, 100
"""Characters of a name in the table, and of the whole table: more kernels make another one."""


def _values(timeline: Timeline) -> Iterator[str]:
    """A table: the claims and the figures that change, those that change first, by kernel."""
    sweep, changed = timeline.sweep, {change.line.title for change in timeline.changes}
    rows = [line for line in timeline.lines if line.bound is not None or line.title in changed]
    rows.sort(key=lambda line: line.title not in changed)
    columns = [
        [label(sweep.specs[place]), *(_value(line, place) for line in rows)] for place in sorted(sweep.points) if rows
    ]
    widths = [2 + max(map(len, column)) for column in columns]
    first = 0
    while first < len(columns):
        last, used = first + 1, _NAME + widths[first]
        while last < len(columns) and used + widths[last] <= _WIDTH:
            used, last = used + widths[last], last + 1
        yield ""
        names = ["median, F: the claim fails", *map(_named, rows)]
        for number, name in enumerate(names):
            head, *rest = textwrap.wrap(name, _NAME, subsequent_indent="  ")
            cells = zip(columns[first:last], widths[first:last], strict=True)
            yield f"  {head:{_NAME}}" + "".join(f"{column[number]:>{width}}" for column, width in cells)
            yield from (f"  {line}" for line in rest)
        first = last


def _named(line: TimelineRow) -> str:
    """With the bound of a claim or the unit of a figure."""
    after = line.unit if line.bound is None else line.bound.text
    return f"{line.title}, {after}" if after else line.title


def _value(line: TimelineRow, place: int) -> str:
    shown = figure(line.values[place].median) if place in line.values else "-"
    return f"{shown} F" if line.status(place) is Status.FAIL else shown


def _options(timeline: Timeline) -> Iterator[str]:
    pairs = {(change.before, change.after) for change in timeline.changes}
    if pairs:
        yield ""
        yield "  configurations of the packages:"
    yield from (f"  {line}" for line in differences(timeline.sweep, pairs))


def _gaps(timeline: Timeline) -> Iterator[str]:
    sweep = timeline.sweep
    if sweep.missing or sweep.skipped:
        yield ""
    for place, reason in sorted(sweep.missing.items()):
        yield f"  MISS {label(sweep.specs[place])}: {' '.join(reason.split())}"
    if sweep.skipped:
        names = ", ".join(label(sweep.specs[place]) for place in sweep.skipped)
        yield f"  not measured, as the kernels around agree: {names}"


def _end(timeline: Timeline) -> Iterator[str]:
    yield ""
    yield f"{spent(timeline.sweep.measured)}; {timeline.saved} saved by measuring coarsely first"
    yield f"seeds: {seeds(timeline)}"
    for point in timeline.sweep.measured:
        near = [claim for claim in point.verdict.claims if claim.layout]
        yield from (f"{label(point.spec)}, {claim.that}: {claim.layout}" for claim in near)
    cells = [cell for point in timeline.sweep.measured for cell in point.verdict.cells]
    if hidden := unseen(timeline.sweep.scenario, cells):
        yield f"not visible: {hidden}"


def spent(points: Sequence[KernelPoint]) -> str:
    """``24 boots that took 6 min one after another, 20 of them in earlier runs``."""
    boots, seconds = sum(point.boots for point in points), sum(point.seconds for point in points)
    earlier = boots - sum(point.made for point in points)
    note = f", {earlier} of them in earlier runs" if earlier else ""
    return f"{plural(boots, 'boot')} that took {duration(seconds)} one after another{note}"


def seeds(timeline: Timeline) -> str:
    """How many, and what that means for a change."""
    points = timeline.sweep.measured
    count = max((len(point.verdict.seeds) for point in points), default=0)
    if count == 1:
        return "1: a change is more than two boots of its kind of figure differ by (docs/results/thresholds.md)"
    return f"{count}: a change is more than {100 * LARGE.share:.0f} %, and the ranges do not overlap"
