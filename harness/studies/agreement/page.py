# SPDX-License-Identifier: GPL-2.0-only
"""docs/results/agreement.md: ratios on both clocks, and claims of the wall clock, kernel by kernel."""

from collections.abc import Iterator, Sequence

from harness.report import markdown
from harness.report.format import figure, plural, spread
from harness.studies.agreement.ratios import BothClocks, OnTheWall

_PREFACE = (
    "Under the virtual clock devices are in the guest, figures repeat exactly, and the range is over seeds. On the wall"
    " clock real drivers run on QEMU's controllers, figures scatter, and the interval over boots has at least 95 %."
    " Both agree where range and interval overlap, to half a per cent; otherwise the scenario gives the reason."
)
_WORDS = {True: "yes", False: "**no**", None: "-"}


def page(rows: Sequence[BothClocks], claims: Sequence[OnTheWall], command: str) -> str:
    """The page in Markdown; ``command`` generates it."""
    columns = ("scenario", "ratio", "kernel", "virtual clock", "wall clock", "agree")
    head = markdown.head("The same ratios on both clocks", f"Generated from results by: {command}")
    lines = (*head, _PREFACE, "", *markdown.table(columns, _rows(rows)), "", *_notes(rows))
    return "\n".join((*lines, *markdown.section("Claims on the wall clock", _claims(claims))))


def _rows(rows: Sequence[BothClocks]) -> Iterator[Sequence[str]]:
    for row in rows:
        names = row.scenario if row.scenario == row.twin else f"{row.scenario}, {row.twin}"
        virtual = "-" if row.virtual is None else spread(row.virtual)
        yield names, row.that, row.series, virtual, _wall(row), _WORDS[row.agree]


def _claims(rows: Sequence[OnTheWall]) -> Iterator[str]:
    cells = [(row.scenario, row.that, row.series, _wall(row), row.expect) for row in rows]
    if cells:
        yield from markdown.table(("scenario", "claim", "kernel", "measured", "expected"), cells)


def _wall(row: BothClocks | OnTheWall) -> str:
    if row.wall is None:
        return "-"
    seen, boots = row.interval, plural(len(row.wall.values), "boot")
    if seen is None:
        return f"{figure(row.wall.median)}, {boots}: too few"
    return f"{figure(seen.centre)} [{figure(seen.low)} .. {figure(seen.high)}], {boots}"


def _notes(rows: Sequence[BothClocks]) -> Iterator[str]:
    apart = {(row.scenario, row.that): row.because for row in rows if row.agree is False}
    for (scenario, that), because in apart.items():
        yield f"- {scenario}: {that}: {because or 'not explained'}"
    if apart:
        yield ""
    machines = dict.fromkeys(row.machine for row in rows if row.machine)
    if machines:
        yield f"Wall clock: {'; '.join(machines)}. `blklab run wall/NAME` repeats a scenario."
        yield ""
