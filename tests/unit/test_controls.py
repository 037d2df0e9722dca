# SPDX-License-Identifier: GPL-2.0-only
"""The kill matrix: what is tried, what counts as killed, and what a matrix must not lack."""

import io
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from harness.commands.check.controls import print_campaign
from harness.judge.cells import CellResult
from harness.judge.verdict import Verdict, judge
from harness.record.judging import judge_run
from harness.record.store import RunFolder, Store
from harness.scenario.model import Bound, Control, KnownFailure, Scenario, Status
from harness.studies.controls import (
    NOT_STORED,
    Campaign,
    Measure,
    MutantTrial,
    Stock,
    arms_against,
    mutants_named,
    shortfalls,
    stored,
    try_further,
    try_mutants,
    try_stock,
)
from harness.studies.kills import claim_kills, kills_page, lacks_a_figure, mutant_rows
from lab.base.record import Outcome
from tests.unit.analysis_samples import AT_MOST, SHARE, cell, cells, claim, control, ratio, scenario
from tests.unit.store_samples import KERNEL, boot_all, new_run

LIFO = control(AT_MOST, SHARE, mutant="lifo-wake")
ARM = control()


def sample(name: str, *controls: Control) -> Scenario:
    return replace(scenario([claim()], controls, ["red", "none"]), name=name)


def on(model: Scenario, mutant: str, *together: float) -> Verdict:
    other = [replace(one, arm="red") for one in cells("none", *together)]
    return judge(model, [*cells("none", *together), *other], mutant=mutant)


def stock(model: Scenario, *together: float) -> Stock:
    results: list[CellResult] = [*cells("none", *together), *[cell("red", seed, 5) for seed in (1, 2, 3)]]
    judged = {mutant: judge(model, results, mutant=mutant) for mutant in mutants_named([model])}
    return Stock(model.name, judge(model, results), judged)


def test_only_pairs_that_a_control_names_are_tried_unless_every_one_is_wanted() -> None:
    one, two = sample("one", LIFO, ARM), sample("two", ARM)
    campaign = Campaign((one, two), ("lifo-wake", "no-ioprio"))
    assert [(mutant, model.name) for mutant, model in campaign.pairs()] == [("lifo-wake", "one")]
    assert len(list(replace(campaign, every_pair=True).pairs())) == 4
    assert arms_against(one, "lifo-wake") == ("none",)
    assert mutants_named([one, two]) == ("lifo-wake",)


def test_a_sound_matrix_lacks_nothing() -> None:
    model = sample("one", LIFO, ARM)
    trial = MutantTrial("one", "lifo-wake", on(model, "lifo-wake", 5, 6, 7))
    assert trial.killed
    assert list(shortfalls(Campaign((model,), ("lifo-wake",)), [stock(model, 95, 95, 95)], [trial])) == []


def test_a_claim_that_fails_on_the_mutant_kills_it_too() -> None:
    model = sample("one", ARM)
    trial = MutantTrial("one", "lifo-wake", on(model, "lifo-wake", 5, 6, 7))
    assert (trial.controls, trial.failed) == ((), ("the share is kept",))
    assert trial.killed


def test_shortfalls_of_a_matrix_are_listed() -> None:
    vacuous, lone = sample("vacuous", control(claim().expect, SHARE, mutant="lifo-wake")), sample("lone", LIFO)
    trials = [
        MutantTrial("lone", "lifo-wake", on(lone, "lifo-wake", 95, 95, 95)),
        MutantTrial("lone", "no-ioprio", None, "mutant no-ioprio is for kernels 6.12, and this is 6.1.9"),
    ]
    campaign = Campaign((vacuous, lone), ("lifo-wake", "no-ioprio"))
    found = list(shortfalls(campaign, [stock(vacuous, 95, 95, 95), stock(lone, 5, 5, 5)], trials))
    assert found == [
        "mutant lifo-wake is not detected: no scenario detects it",
        "mutant no-ioprio is not detected: mutant no-ioprio is for kernels 6.12, and this is 6.1.9",
        "does not fail on the mutant lifo-wake, in lone: it can starve",
        "scenario vacuous kills no mutant and has no control by an arm",
        "scenario lone kills no mutant and has no control by an arm",
        "fails without the mutant lifo-wake too, under vacuous: it can starve",
        "the kernel without a mutant is FAIL under lone",
        "fails without the mutant lifo-wake too, under lone: it can starve",
    ]


def test_the_printed_matrix_fits_a_terminal_of_eighty_columns() -> None:
    models = [sample(f"a-scenario-with-a-name-{number:02}", LIFO, ARM) for number in range(12)]
    trials = [MutantTrial(model.name, "lifo-wake", on(model, "lifo-wake", 5, 6, 7)) for model in models]
    console = Console(width=80, record=True, file=io.StringIO())
    print_campaign(console, Campaign(tuple(models), ("lifo-wake",)), [stock(models[0], 95, 95, 95)], trials)
    text = console.export_text()
    assert next(line.count("K") for line in text.splitlines() if "lifo-wake" in line) == 12
    assert "l  a-scenario-with-a-name-11" in text


def test_every_claim_is_shown_with_what_makes_it_fail_or_as_unproven() -> None:
    moved = control(AT_MOST, ratio("red.together.fast.iops", "red.solo.fast.iops"))
    model, alone = sample("one", LIFO, moved), sample("two", LIFO)
    trial = MutantTrial("one", "lifo-wake", on(model, "lifo-wake", 5, 6, 7))
    dead = [replace(one, status=Status.FAIL, figures={}, outcome=Outcome.OOPS) for one in cells("none", 5, 5, 5)]
    died = MutantTrial("two", "lifo-wake", judge(alone, dead, mutant="lifo-wake"))
    assert not died.killed
    campaign = Campaign((model, alone), ("lifo-wake",))
    stocks, trials = [stock(model, 95, 95, 95), stock(alone, 95, 95, 95)], [trial, died]
    one, two = claim_kills(campaign.scenarios, stocks, trials)
    assert [str(found) for found in one.by] == [
        "mutant lifo-wake: 0.06000 [0.05000 .. 0.07000]",
        "arm red: 0.05000",
    ]
    assert (one.unproven, two.unproven) == (False, True)
    assert two.fails_by.startswith("unproven; mutant lifo-wake: ")
    out = io.StringIO()
    print_campaign(Console(file=out, width=160), campaign, stocks, trials)
    assert all(said in out.getvalue() for said in ("arm red: 0.05", "mutant lifo-wake: 0.06", "unproven"))


def test_a_declared_mutant_on_which_the_claim_holds_proves_nothing() -> None:
    model = sample("one", LIFO)
    trial = MutantTrial("one", "lifo-wake", on(model, "lifo-wake", 95, 96, 97))
    (found,) = claim_kills([model], [stock(model, 95, 95, 95)], [trial])
    assert found.unproven
    assert found.fails_by == "unproven; mutant lifo-wake: 0.9600 [0.9500 .. 0.9700], where it holds"


def test_the_page_counts_claims_and_tells_declared_from_measured() -> None:
    one, two, three = sample("one", LIFO), sample("two", LIFO), sample("three")
    trial = MutantTrial("one", "lifo-wake", on(one, "lifo-wake", 5, 6, 7))
    stocks = [stock(one, 95, 95, 95)]
    kills = list(claim_kills([one, two, three], stocks, [trial]))
    text = kills_page(kills, mutant_rows(stocks, [trial]), "Kernels: x.", "blklab check controls")
    assert (
        "3 claims: 1 fail by a measured figure, 1 are unproven, and 1 are declared to fail, not measured here." in text
    )
    assert "| the share is kept | >= 0.9 | 0.9500 | mutant lifo-wake: 0.06000 [0.05000 .. 0.07000] |" in text
    assert "| the share is kept | >= 0.9 | not measured | mutant lifo-wake: <= 0.5, not measured |" in text
    assert "- `three`: the share is kept" in text


def test_stored_runs_are_judged_without_booting(tmp_path: Path) -> None:
    model = scenario([claim()], [LIFO])
    run = new_run(tmp_path, model)
    boot_all(run, {"none": 95.0})
    run.finish(judge_run(run), elapsed=1.0)
    measure: Measure = stored(Store(tmp_path))
    campaign = Campaign((model,), ("lifo-wake",), source=KERNEL.spec)
    (found,) = try_stock(campaign, measure)
    assert found.verdict.status is Status.PASS
    (trial,) = try_mutants(campaign, measure)
    assert (trial.verdict, trial.reason) == (None, NOT_STORED)
    assert not list(try_stock(replace(campaign, source="source:6.1"), measure))
    changed = replace(model, seeds=9)
    assert not list(try_stock(replace(campaign, scenarios=(changed,)), measure))


def test_what_the_source_leaves_open_is_measured_on_the_first_further_kernel_that_shows_it(tmp_path: Path) -> None:
    moved = control(AT_MOST, ratio("red.together.fast.iops", "red.solo.fast.iops"))
    model = scenario([claim()], [moved], ["red", "none"])
    run = new_run(tmp_path, model)
    boot_all(run, {"none": 95.0, "red": 5.0})
    run.finish(judge_run(run), elapsed=1.0)
    campaign = Campaign((model,), (), source="source:6.12", kernels=("debian:5.10", KERNEL.spec, "debian:7.2"))
    asked: list[str] = []

    def measure(one: Scenario, spec: str, arms: tuple[str, ...]) -> RunFolder:
        asked.append(spec)
        return stored(Store(tmp_path))(one, spec, arms)

    open_claims = [*try_stock(campaign, measure)]
    further = [*try_further(campaign, measure, lacks_a_figure(open_claims, []))]
    assert asked == ["source:6.12", "debian:5.10", KERNEL.spec]
    (found,) = claim_kills([model], further, [])
    assert (found.measured, found.kernel) == (True, KERNEL.release)
    assert found.row[2:] == (
        f"0.9700 [0.9600 .. 0.9800] on {KERNEL.release}",
        f"arm red: 0.07000 [0.06000 .. 0.08000] on {KERNEL.release}",
    )
    assert [*try_further(campaign, measure, lacks_a_figure(further, []))] == []


def test_a_claim_is_shown_where_it_holds_and_fails_where_the_file_says_so() -> None:
    here = replace(claim(), known=(KnownFailure("< 5.17", "wake batches", "https://example.org"),))
    for_others = replace(claim(AT_MOST), that="it starves", kernels="6.1")
    model = replace(sample("one", ARM), claims=(here, for_others))
    old = replace(stock(model, 5, 5, 5), kernel="5.10.9", verdict=on_kernel(model, "5.10.9", 5))
    other = replace(stock(model, 5, 5, 5), kernel="6.1.9", verdict=on_kernel(model, "6.1.9", 5))
    new = replace(stock(model, 95, 95, 95), kernel="", verdict=on_kernel(model, "6.12.9", 95))
    found, _ = claim_kills([model], [old, other, new], [])
    assert found.row[2] == "0.9500"
    assert sorted(str(one) for one in found.by if one.kills) == [
        "arm red: 0.05000",
        "kernels 6.1: 0.05000 on 6.1.9",
        "kernels < 5.17: 0.05000 on 5.10.9",
    ]


def on_kernel(model: Scenario, release: str, together: float) -> Verdict:
    other = [cell("red", seed, 5) for seed in (1, 2, 3)]
    return judge(model, [*cells("none", together, together, together), *other], release=release)


def test_a_scenario_that_a_further_kernel_passes_may_be_skipped_on_the_source() -> None:
    model = sample("one", ARM)
    passed = stock(model, 95, 95, 95)
    skipped = replace(passed, verdict=replace(passed.verdict, status=Status.SKIP))
    campaign = Campaign((model,), ())
    assert [*shortfalls(campaign, [skipped], [])] == ["the kernel without a mutant is SKIP under one"]
    assert [*shortfalls(campaign, [skipped, replace(passed, kernel="4.18")], [])] == []
    failed = replace(passed, verdict=replace(passed.verdict, status=Status.FAIL), kernel="4.18")
    assert [*shortfalls(campaign, [passed, failed], [])] == ["4.18 is FAIL under one"]


def test_a_killer_s_figure_is_in_the_unit_of_the_claim() -> None:
    """64 tags over 4 ms are 16,000 IOPS, over 400 ms 160: each is 1 of its own bound."""
    equal = Bound("0.95 .. 1.05", 0.95, 1.05)
    fast = replace(claim(equal, ratio("none.solo.fast.iops", "bound.none.solo.fast.iops")), that="fast")
    slow = replace(claim(equal, ratio("none.together.slow.iops", "bound.none.together.slow.iops")), that="slow")
    model = replace(scenario([fast, slow]), name="one")
    figures = {
        ("solo", "fast", "iops"): 16000.0,
        ("together", "slow", "iops"): 80.0,
        ("solo", "guest", "cpu.idle"): 0.9,
        ("together", "guest", "cpu.idle"): 0.9,
    }
    verdict = judge(model, [replace(cell("none", 1, 1), figures=figures)])
    found = claim_kills([model], [Stock("one", verdict, {})], [])
    assert [one.row[2:] for one in found] == [
        ("1.000", "load together, role slow: 0.005000"),
        ("1.000", "load solo, role fast: 200.0"),
    ]
