# SPDX-License-Identifier: GPL-2.0-only
"""Sides of published regressions, null pairs, and the file that lists them."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from rich.console import Console

from harness.commands.check import zoo as zoo_command
from harness.commands.common.options import PAGES, SCENARIOS
from harness.judge.cells import CellResult
from harness.judge.thresholds import LEAST_ARMS, NullEvidence
from harness.record.store import Store
from harness.run.plan import Request
from harness.studies.zoo import score
from harness.studies.zoo.page import print_zoo, summary, zoo_page
from harness.studies.zoo.regressions import OutOfScope, Regression, load_out_of_scope, load_regressions
from harness.studies.zoo.score import (
    NullPair,
    Publication,
    Sighting,
    Visit,
    Zoo,
    ZooSide,
    null_pair,
    quotient,
    side_of,
    sighting,
    visit,
)
from lab.base.errors import InputErrors
from lab.kernels.model import Kernel
from lab.kernels.mutants import catalogue
from lab.kernels.release import Release
from lab.session import Lab
from tests.unit.analysis_samples import AT_LEAST, SHARE, cell, cells, claim, ratio, scenario

MODEL = replace(scenario([claim()]), seeds=2)
KERNEL = Kernel("path:x", "6.1.1", Release.parse("6.1.1"), "made up", Path("k"), None, Path("m"), {}, "k" * 64)
STARVED = Regression("starved", "it starves", "https://example.org", MODEL, SHARE, AT_LEAST)


@pytest.mark.parametrize(
    ("shares", "side"),
    [((95.0, 99.0), ZooSide.GOOD), ((10.0, 20.0), ZooSide.BAD), ((10.0, 99.0), ZooSide.UNKNOWN)],
)
def test_a_side_is_what_all_seeds_agree_on(shares: tuple[float, float], side: ZooSide) -> None:
    assert side_of(STARVED, cells("none", *shares), (1, 2))[0] is side


def test_what_was_not_measured_is_on_no_side() -> None:
    found, judgement = side_of(STARVED, [], (1, 2))
    assert (found, judgement.ensemble) == (ZooSide.UNKNOWN, None)
    assert "was not measured" in judgement.reason


def test_a_sighting_takes_the_seeds_of_the_scenario_though_there_are_more() -> None:
    results = [cell("none", seed, value) for seed, value in enumerate((95.0, 97.0, 10.0, 12.0), start=1)]
    assert sighting(STARVED, "6.1", ZooSide.BAD, results) == Sighting("starved", "6.1", ZooSide.BAD, ZooSide.GOOD, 0.96)


def test_halves_that_differ_are_false_alarms() -> None:
    def pair(*shares: float) -> tuple[tuple[str, ...], tuple[str, ...]]:
        results = [cell("none", seed, value) for seed, value in enumerate(shares, start=1)]
        (found,) = null_pair(MODEL, [STARVED], "6.1", results, {})
        assert (found.seeds, found.figures, found.regressions) == ((2, 2), 3, ("starved",))
        return found.alarms, found.marked

    assert pair(95, 97, 96, 98) == ((), ())
    assert pair(95, 97, 10, 12) == (("the share is kept", "starved"), ("none.together.fast.iops",))
    # Apart, yet by less than what compare marks.
    assert pair(95, 95.5, 96, 97) == ((), ())
    assert list(null_pair(MODEL, [STARVED], "6.1", [], {})) == []


@pytest.mark.parametrize(
    ("shares", "single", "marked"),
    [
        ((95.0, 95.5, 96.0, 97.0), 0.01, True),
        ((95.0, 95.5, 96.0, 97.0), 0.1, False),
        ((95.0, 97.0), 0.01, True),
        ((95.0, 97.0), 0.1, False),
    ],
)
def test_figures_of_a_null_pair_are_judged_by_what_any_two_boots_of_one_code_differ_by(
    shares: tuple[float, ...], single: float, marked: bool
) -> None:
    """Of one seed a half nothing was marked, whatever it differed by."""
    known = {"rate, several roles, below 1,000 IOPS": NullEvidence(0.0, single, single, 9, LEAST_ARMS, "x")}
    results = [cell("none", seed, value) for seed, value in enumerate(shares, start=1)]
    (found,) = null_pair(MODEL, [], "6.1", results, known)
    assert found.marked == (("none.together.fast.iops",) if marked else ())


def test_a_publication_compares_the_bad_side_with_the_good_one() -> None:
    figure = ratio("none.together.fast.iops")
    bad, good = cells("none", 10.0, 20.0), cells("none", 60.0, 60.0)
    assert quotient(figure, MODEL, bad, good) == pytest.approx(0.25)
    assert quotient(figure, MODEL, [], good) is None


def test_detected_missed_and_false_alarms_are_counted() -> None:
    sightings = (
        Sighting("starved", "5.10", ZooSide.BAD, ZooSide.BAD, 0.1),
        Sighting("starved", "6.1", ZooSide.GOOD, ZooSide.BAD, 0.2),
        Sighting("starved", "6.12", ZooSide.BAD, ZooSide.GOOD, 0.95),
        Sighting("starved", "7.2", ZooSide.GOOD, ZooSide.UNKNOWN, None, "no such kernel"),
        Sighting("starved", "greedy", ZooSide.BAD, ZooSide.BAD, 0.05, by_mutant=True),
    )
    zoo = Zoo(sightings, (Publication("starved", 0.5, 0.25),), ())
    assert list(summary(zoo)) == [
        "detected      2 of 3 where the bad side was expected",
        "false alarms  1 of 1 where the good side was expected",
        "null pairs    0 pairs of 0 of 1 regression",
        "claims        0 of 0 pairs with one that differs",
        "figures       0 of 0 marked, in 0 pairs",
    ]
    console = Console(record=True, width=140, force_terminal=False)
    print_zoo(console, [STARVED], zoo)
    text = console.export_text()
    assert "0.2 bad !" in text.replace("0.2000", "0.2")
    assert "starved on 7.2: no such kernel" in text
    assert "starved on 6.12: good, expected bad" in text


def test_the_page_has_all_that_was_seen_and_says_what_surprises() -> None:
    sightings = (
        Sighting("starved", "5.10", ZooSide.BAD, ZooSide.BAD, 0.1),
        Sighting("starved", "6.1", ZooSide.GOOD, ZooSide.BAD, 0.2),
        Sighting("starved", "7.2", ZooSide.GOOD, ZooSide.UNKNOWN, None, "no such kernel"),
        Sighting("starved", "greedy", ZooSide.BAD, ZooSide.BAD, 0.05, by_mutant=True),
    )
    pair = NullPair("sample", "6.1", (2, 2), ("the share is kept",), ("none.together.fast.iops",), 3, ("starved",))
    zoo = Zoo(sightings, (Publication("starved", 0.5, 0.25, "mutant greedy"),), (pair,))
    regression = replace(STARVED, mutant="greedy", because="bursts")
    lines = zoo_page([regression], zoo, "QEMU 7.2", "blklab check zoo").splitlines()
    bound, ratio_text = regression.good.text, regression.ratio.text
    assert f"| starved | 0.1000 bad | **0.2000 bad, expected good** | ? | 0.05000 bad | {bound} |" in lines
    assert f"- [starved](https://example.org): it starves. `sample`, mutant `greedy`, {ratio_text}" in lines
    assert "| starved | 0.5000 | 0.2500 | mutant greedy | bursts |" in lines
    assert "- starved on 7.2: no such kernel" in lines
    assert "| sample | 6.1 | 2 + 2 | starved | the share is kept | 3 | none.together.fast.iops |" in lines
    assert "- null pairs 1 pair of 1 of 1 regression" in lines
    assert "- figures 1 of 3 marked, in 1 pair" in lines
    assert lines[-1] == "Kernels: 5.10, 6.1, 7.2. QEMU 7.2. `blklab check zoo` measures what is missing."
    out = zoo_page(
        [STARVED], Zoo((), (), ()), "QEMU 7.2", "blklab check zoo", [OutOfScope("a lock", "https://x", "one CPU")]
    )
    assert "## Out of scope\n\n- [a lock](https://x): one CPU" in out
    plain = zoo_page([STARVED], Zoo((), (), ()), "QEMU 7.2", "blklab check zoo")
    assert "##" not in plain, "nothing to say, no heading"


def test_a_few_regressions_do_not_replace_the_page_of_all(tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    zoo_command.configure(parser)
    assert zoo_command.page_of(parser.parse_args([])) == PAGES / "zoo.md"
    assert zoo_command.page_of(parser.parse_args(["idle-lun-tax"])) is None
    asked = str(tmp_path / "page.md")
    assert zoo_command.page_of(parser.parse_args(["idle-lun-tax", "--out", asked])) == Path(asked)


def test_the_list_names_scenarios_mutants_and_figures_that_exist() -> None:
    found = load_regressions(SCENARIOS / "zoo" / "regressions.yaml", search=SCENARIOS)
    assert len({one.name for one in found}) == len(found) >= 10
    assert {one.mutant for one in found if one.mutant} <= set(catalogue())
    for one in found:
        mutants = {control.mutant for control in one.scenario.controls}
        assert not one.mutant or one.mutant in mutants, one.name


def test_what_is_out_of_scope_has_a_source_and_a_reason() -> None:
    found = load_out_of_scope(SCENARIOS / "zoo" / "regressions.yaml")
    assert found
    assert all(one.that and one.link.startswith("https://") and one.because for one in found)


def test_all_mistakes_of_a_list_are_reported_at_once(tmp_path: Path) -> None:
    path = tmp_path / "list.yaml"
    path.write_text(_WRONG)
    with pytest.raises(InputErrors) as raised:
        load_regressions(path, search=SCENARIOS)
    told = str(raised.value)
    assert "list.yaml:5:15: there is no scenario fair-tag - did you mean fair-tags?" in told.replace(", did", " - did")
    assert "list.yaml:12:" in told
    assert "published: needs a figure, and a bad side or a decision" in told
    assert "list.yaml:21:13: bad_on: no kernel is in >= 5.14, < 5.8" in told
    assert "decision: with one, no kernel is bad" in told


_WRONG = """regressions:
  - regression: a
    that: first
    link: https://example.org/a
    scenario: fair-tag
    ratio: x.y.z.iops
    good: ">= 1"
  - regression: b
    that: second
    link: https://example.org/b
    scenario: fair-tags
    ratio: shared.nowhere.victim.iops
    good: ">= 1"
    published: 0.5
  - regression: c
    that: third
    link: https://example.org/c
    scenario: fair-tags
    ratio: shared.solo.victim.iops
    good: ">= 1"
    bad_on: [">= 5.14, < 5.8"]
    decision: it is meant to be so
"""


def _visited(monkeypatch: pytest.MonkeyPatch, releases: dict[str, float], *regressions: Regression) -> Zoo:
    """A visit to stock kernels on which the fast role has that many IOPS; the last are further ones."""
    monkeypatch.setattr(score, "measured", lambda _lab, request, *_: request.kernel.release)
    monkeypatch.setattr(score, "results_of", lambda release: cells("none", releases[release]))
    stock = [replace(KERNEL, release=release, version=Release.parse(release)) for release in releases]
    further = {spec: stock.pop() for one in regressions for spec in one.also}
    places = Visit(cast(Lab, None), cast(Store, None), lambda _: KERNEL)
    return visit(places, regressions, stock, 0, further)


def test_without_a_mutant_neighbouring_kernels_on_both_sides_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    figure, model = ratio("none.together.fast.iops"), replace(MODEL, seeds=1)
    one = replace(STARVED, scenario=model, bad_on=("< 6.5", ">= 7.2"), figure=figure, published=0.5)
    zoo = _visited(monkeypatch, {"6.1.1": 20.0, "6.12.1": 96.0, "7.1.1": 98.0, "7.2.1": 49.0}, one)
    assert zoo.publications == (Publication("starved", 0.5, 0.5, "7.2.1 / 7.1.1"),)
    text = zoo_page([one], zoo, "QEMU", "blklab check zoo")
    changes = (
        "## Changes between packaged kernels\n\n- starved: bad on 6.1.1, good on 6.12.1\n- starved: good on 7.1.1, bad"
    )
    assert changes in text
    only_bad = _visited(monkeypatch, {"6.1.1": 20.0}, one)
    assert only_bad.publications == (Publication("starved", 0.5, None),)
    assert "Changes" not in zoo_page([one], only_bad, "QEMU", "blklab check zoo")


def test_a_further_kernel_is_for_the_regressions_that_name_it_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    one = replace(STARVED, scenario=replace(MODEL, seeds=1), bad_on=("< 6.12.63",), also=("debian:6.12.57",))
    zoo = _visited(
        monkeypatch, {"6.1.1": 20.0, "6.12.107": 96.0, "6.12.57": 30.0}, one, replace(one, name="other", also=())
    )
    assert [(found.regression, found.kernel, str(found.found)) for found in zoo.sightings] == [
        ("starved", "6.1.1", "bad"),
        ("other", "6.1.1", "bad"),
        ("starved", "6.12.57", "bad"),
        ("starved", "6.12.107", "good"),
        ("other", "6.12.107", "good"),
    ]
    text = zoo_page([one], zoo, "QEMU", "blklab check zoo")
    assert "- starved: bad on 6.12.57, good on 6.12.107\n- other: bad on 6.1.1, good on 6.12.107" in text


def test_a_report_that_was_declined_is_compared_on_one_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    figure, model = ratio("none.together.fast.iops", "none.solo.fast.iops"), replace(MODEL, seeds=1)
    one = replace(STARVED, scenario=model, figure=figure, published=0.4, decision="it is meant to be so")
    zoo = _visited(monkeypatch, {"6.1.1": 96.0, "7.2.1": 98.0}, one)
    assert zoo.publications == (Publication("starved", 0.4, 0.98, "7.2.1"),)
    assert not zoo.changes and {found.expected for found in zoo.sightings} == {ZooSide.GOOD}
    assert "## Do not alarm\n\n- starved: it is meant to be so" in zoo_page([one], zoo, "QEMU", "blklab check zoo")


def test_each_regression_gets_a_null_pair_of_every_arm_on_the_first_kernel_that_shows_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[str, int | None, tuple[str, ...]]] = []

    def measured_cells(_: Visit, request: Request) -> list[CellResult]:
        asked.append((request.kernel.release, request.seeds, request.arms))
        shown = [*cells("none", 95, 95, 95, 95), *cells("red", 5, 5, 5, 5)]
        return [one for one in shown if one.arm == "none" or request.kernel.release != "6.1.1"]

    monkeypatch.setattr(score, "measured_cells", measured_cells)
    arms = replace(scenario([claim()], arms=["red", "none"]), seeds=2)
    red = ratio("red.together.fast.iops", "red.solo.fast.iops")
    shown = [replace(STARVED, scenario=arms), replace(STARVED, name="starved-red", scenario=arms, ratio=red)]
    releases = ("6.1.1", "6.1.2", "6.1.3")
    stock = [replace(KERNEL, release=one, version=Release.parse(one)) for one in releases]
    places = Visit(cast(Lab, None), cast(Store, None), lambda _: KERNEL)
    found = visit(places, shown, stock)
    plain = (None, ("red", "none"))
    assert asked == [("6.1.1", *plain), ("6.1.1", 4, ()), ("6.1.2", *plain), ("6.1.2", 4, ()), ("6.1.3", *plain)]
    assert [(pair.kernel, pair.regressions) for pair in found.pairs] == [
        ("6.1.1", ("starved",)),
        ("6.1.2", ("starved", "starved-red")),
    ]
    assert len(visit(places, shown, stock, pairs=1).pairs) == 1
