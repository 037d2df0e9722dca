# SPDX-License-Identifier: GPL-2.0-only
"""Ratios that scenarios of the wall clock share with scenarios of the virtual clock, from the newest runs."""

from collections.abc import Iterator
from pathlib import Path

from harness.judge.ensemble import Ensemble
from harness.judge.operands import Unavailable
from harness.limits.load import load_scenario
from harness.record.judging import judge_run, newest_runs, ratio_of
from harness.record.store import RunFolder, Store
from harness.scenario.expression import ExpressionError
from harness.scenario.model import Agreement, Clock, Ratio, Scenario
from harness.scenario.ratio import names_of, parse_ratio
from harness.studies.agreement.ratios import BothClocks, OnTheWall
from lab.base.errors import Misuse


def both_clocks(store: Store, scenario: Scenario, *, search: Path) -> Iterator[BothClocks]:
    """A row for each shared ratio and kernel series with a run on the wall clock. Raises Misuse for a wrong twin."""
    ours = newest_runs(store, scenario)
    for one in scenario.agrees:
        twin, theirs = counterpart(scenario, one, search=search)
        virtual = newest_runs(store, twin)
        for series in sorted(ours, key=_version):
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
    for series, run in sorted(newest_runs(store, scenario).items(), key=lambda item: _version(item[0])):
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


def _version(series: str) -> tuple[int, ...]:
    return tuple(int(part) for part in series.split(".") if part.isdecimal())
