# SPDX-License-Identifier: GPL-2.0-only
"""Ratios that scenarios of the wall clock share with scenarios of the virtual clock: values, collection, page."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.judge.ensemble import Ensemble
from harness.judge.operands import Unavailable
from harness.limits.load import load_scenario
from harness.noise import ERROR, Interval, interval
from harness.record.judging import judge_run, newest_runs, ratio_of
from harness.record.store import RunFolder, Store
from harness.report import markdown
from harness.report.format import figure, plural, spread
from harness.scenario.model import Agreement, Clock, Ratio, Scenario
from harness.scenario.ratio import ExpressionError, names_of, parse_ratio
from lab.base.errors import Misuse
from lab.kernels.release import by_release

ROUNDING = 0.005
"""Tolerance of half a per cent, because intervals of counts have no width."""


@dataclass(frozen=True)
class OnTheWall:
    """A claim of a scenario of the wall clock on one kernel series; ``expect`` is the text of its bound."""

    scenario: str
    that: str
    series: str
    expect: str
    wall: Ensemble


@dataclass(frozen=True)
class BothClocks:
    """A ratio of ``scenario`` on the wall clock, and of ``twin`` on the virtual one, on one kernel series.

    ``virtual`` and ``wall`` are None without a run or a value; ``because`` is the scenario's reason for a difference,
    ``machine`` the QEMU of the wall clock.
    """

    scenario: str
    twin: str
    that: str
    series: str
    virtual: Ensemble | None
    wall: Ensemble | None
    because: str = ""
    machine: str = ""

    @property
    def agree(self) -> bool | None:
        """Whether the range over seeds and the interval overlap; None without either."""
        seen = of_boots(self.wall) if self.wall else None
        if seen is None or self.virtual is None:
            return None
        near = ROUNDING * abs(self.virtual.median)
        return seen.low - near <= self.virtual.high and self.virtual.low <= seen.high + near

    @property
    def unexplained(self) -> bool:
        return self.agree is False and not self.because


def of_boots(wall: Ensemble) -> Interval | None:
    """The interval of the true ratio, at 95 %; None with too few boots."""
    return interval([value for _, value in sorted(wall.values.items())], ERROR)


def both_clocks(store: Store, scenario: Scenario, *, search: Path) -> Iterator[BothClocks]:
    """A row for each shared ratio and kernel series with a run on the wall clock. Raises Misuse for a wrong twin."""
    ours = newest_runs(store, scenario)
    for one in scenario.agrees:
        twin, theirs = counterpart(scenario, one, search=search)
        virtual = newest_runs(store, twin)
        for series in sorted(ours, key=by_release):
            run = ours[series]
            yield BothClocks(
                scenario.name,
                twin.name,
                one.that,
                series,
                _value(virtual.get(series), theirs),
                _value(run, one.ratio),
                one.because,
                run.facts.qemu,
            )


def on_the_wall(store: Store, scenario: Scenario) -> Iterator[OnTheWall]:
    """A row for each claim of a scenario of the wall clock and each kernel series with a judged run."""
    if scenario.clock is not Clock.WALL:
        return
    for series, run in sorted(newest_runs(store, scenario).items(), key=lambda item: by_release(item[0])):
        for claim in judge_run(run).claims:
            if claim.judgement.ensemble is not None:
                yield OnTheWall(scenario.name, claim.that, series, claim.expect, claim.judgement.ensemble)


def counterpart(scenario: Scenario, one: Agreement, *, search: Path) -> tuple[Scenario, Ratio]:
    """The twin and its ratio. Raises Misuse if it is not on the virtual clock, or has no such ratio."""
    twin = load_scenario(one.scenario, search=search)
    if twin.clock is not Clock.VIRTUAL:
        raise Misuse(
            f"{scenario.name}: agrees: {twin.name} is on the {twin.clock} clock", remedy="name one on the virtual clock"
        )
    try:
        return twin, parse_ratio(one.theirs, names_of(twin))
    except ExpressionError as error:
        place = f"{scenario.name}: agrees: theirs, character {error.offset + 1}"
        raise Misuse(f"{place}: {error.message} in {twin.name}", remedy=error.remedy) from error


def _value(run: RunFolder | None, ratio: Ratio) -> Ensemble | None:
    if run is None:
        return None
    try:
        return ratio_of(run, ratio)
    except Unavailable:
        return None


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
    seen, boots = of_boots(row.wall), plural(len(row.wall.values), "boot")
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
