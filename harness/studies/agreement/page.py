# SPDX-License-Identifier: GPL-2.0-only
"""docs/results/agreement.md: the same ratios on both clocks, and what the wall clock said, kernel by kernel."""

from collections.abc import Iterator, Sequence

from harness.report.format import figure, plural, spread
from harness.studies.agreement.ratios import BothClocks, OnTheWall

_WORDS = {True: "yes", False: "**no**", None: "-"}


def page(rows: Sequence[BothClocks], claims: Sequence[OnTheWall], command: str) -> str:
    """The page in Markdown; ``command`` made it."""
    return "\n".join((*_introduction(command), *_table(rows), "", *_notes(rows), *_claims(claims)))


def _introduction(command: str) -> Iterator[str]:
    yield "<!-- SPDX-License-Identifier: GPL-2.0-only -->"
    yield f"<!-- Made from results by: {command} -->"
    yield "# One ratio, two clocks"
    yield ""
    yield (
        "Virtual time has devices inside the guest, their figures repeat exactly, and seeds make a range. The wall"
        " clock has the controllers of QEMU with real drivers, its figures scatter, and boots make an interval of at"
        " least 95 %. They agree where range and interval meet, to half a per cent; where they do not, the scenario"
        " says why."
    )
    yield ""


def _table(rows: Sequence[BothClocks]) -> Iterator[str]:
    yield "| scenario | ratio | kernel | virtual time | wall clock | agree |"
    yield "|---|---|---|---|---|---|"
    for row in rows:
        names = row.scenario if row.scenario == row.twin else f"{row.scenario}, {row.twin}"
        virtual = "-" if row.virtual is None else spread(row.virtual)
        yield f"| {names} | {row.that} | {row.series} | {virtual} | {_wall(row)} | {_WORDS[row.agree]} |"


def _claims(rows: Sequence[OnTheWall]) -> Iterator[str]:
    yield "## The claims of the wall clock"
    yield ""
    yield "| scenario | claim | kernel | measured | expected |"
    yield "|---|---|---|---|---|"
    for row in rows:
        yield f"| {row.scenario} | {row.that} | {row.series} | {_wall(row)} | {row.expect} |"
    yield ""


def _wall(row: BothClocks | OnTheWall) -> str:
    if row.wall is None:
        return "-"
    seen, boots = row.interval, plural(len(row.wall.values), "boot")
    if seen is None:
        return f"{figure(row.wall.median)} by {boots}, too few"
    return f"{figure(seen.centre)} [{figure(seen.low)} .. {figure(seen.high)}] by {boots}"


def _notes(rows: Sequence[BothClocks]) -> Iterator[str]:
    apart = {(row.scenario, row.that): row.because for row in rows if row.agree is False}
    for (scenario, that), because in apart.items():
        yield f"- {scenario}: {that}: {because or 'not explained'}"
    if apart:
        yield ""
    machines = dict.fromkeys(row.machine for row in rows if row.machine)
    if machines:
        yield f"The wall clock ran on {'; '.join(machines)}. `blklab run wall/NAME` repeats one of its scenarios."
        yield ""
