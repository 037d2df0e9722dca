# SPDX-License-Identifier: GPL-2.0-only
"""Scores of rows: sides, null pairs, what makes claims fail, and which runs they are taken from."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from harness import fitted
from harness.judge.difference import NullEvidence
from harness.record.judging import judge_run
from harness.record.store import RunFolder, Store
from harness.scenario.model import Bound, Control, KnownFailure, Scenario, Status
from lab.base.errors import CannotJudge
from lab.base.record import Outcome
from tests.unit.analysis_samples import AT_MOST, SHARE, cell, cells, claim, control, ratio, scenario
from tests.unit.evidence_samples import SOURCE, STARVED, changed, rows_of, scores_of
from tests.unit.store_samples import KERNEL, boot_all, new_run
from tools.command import NOT_MEASURED, stored_runs
from tools.evidence import scorer
from tools.evidence.failures import prove_claims, score_claims, shortfalls
from tools.evidence.rows import EvidenceRow, RowSide, Topic
from tools.evidence.scorer import (
    RowScore,
    null_pair,
    null_pairs,
    score,
    score_newest,
    score_zoo,
)

LIFO = control(AT_MOST, SHARE, mutant="lifo-wake")
ARM = control(AT_MOST, ratio("red.together.fast.iops", "red.solo.fast.iops"))
BOTH_ARMS = ["red", "none"]


@pytest.mark.parametrize(
    ("shares", "side"),
    [((95.0, 99.0), RowSide.GOOD), ((10.0, 20.0), RowSide.BAD), ((10.0, 99.0), RowSide.UNKNOWN), ((), RowSide.UNKNOWN)],
)
def test_a_side_is_what_all_seeds_agree_on(shares: tuple[float, ...], side: RowSide) -> None:
    (found,) = scores_of([STARVED], cells("none", *shares))
    assert found.side is side
    assert found.held == (None if side is RowSide.UNKNOWN else side is RowSide.GOOD)
    assert found.judgement.reason or side is not RowSide.UNKNOWN


def test_a_regression_takes_the_seeds_of_its_scenario_though_there_are_more() -> None:
    results = [cell("none", seed, value) for seed, value in enumerate((95.0, 97.0, 10.0, 12.0), start=1)]
    (found,) = scores_of([STARVED], results)
    assert found.ensemble is not None and (found.side, found.ensemble.median) == (RowSide.GOOD, 0.96)


def known(single: float) -> dict[str, NullEvidence]:
    return {"rate, several roles, below 1,000 IOPS": NullEvidence(0.0, single, single, 9, fitted.LEAST_ARMS, "x")}


FAST = ("none.together.fast.iops",)


@pytest.mark.parametrize(
    ("shares", "evidence", "alarms", "marked"),
    [
        ((95, 97, 96, 98), {}, (), ()),
        ((95, 97, 10, 12), {}, ("the share is kept", "starved"), FAST),
        # Apart, yet by less than what compare marks, and by more and less than what two boots of one code differ by.
        ((95, 95.5, 96, 97), {}, (), ()),
        ((95, 95.5, 96, 97), known(0.01), (), FAST),
        ((95, 95.5, 96, 97), known(0.1), (), ()),
        ((95, 97), known(0.01), (), FAST),
        ((95, 97), known(0.1), (), ()),
    ],
)
def test_halves_that_differ_are_false_alarms(
    shares: Sequence[float], evidence: dict[str, NullEvidence], alarms: tuple[str, ...], marked: tuple[str, ...]
) -> None:
    results = [cell("none", seed, value) for seed, value in enumerate(shares, start=1)]
    (pair,) = null_pair([STARVED], "6.1", results, evidence)
    assert (pair.alarms, pair.marked, pair.figures, pair.decided) == (alarms, marked, 3, ("starved",))
    assert pair.seeds == (len(shares) // 2, len(shares) // 2)


def test_without_results_there_is_no_null_pair() -> None:
    assert [*null_pair([STARVED], "6.1", [], {})] == []


def measured_here(
    monkeypatch: pytest.MonkeyPatch, releases: dict[str, dict[str, float]]
) -> list[tuple[str, int | None]]:
    """Replaces runs: on each spec arms have that many IOPS. What was asked for is returned, in its order."""
    asked: list[tuple[str, int | None]] = []

    def score_here(
        rows: Sequence[EvidenceRow], spec: str, measure: object, *, mutant: str = "", **_: object
    ) -> list[RowScore]:
        name = f"{spec}+{mutant}" if mutant else spec
        asked.append((name, None))
        results = [it for arm, iops in releases.get(name, {}).items() for it in cells(arm, iops, iops)]
        return scores_of(rows, results, spec.partition(":")[2], spec, mutant)

    monkeypatch.setattr(scorer, "score", score_here)
    return asked


def nothing(scenario: Scenario, spec: str, arms: Sequence[str], seeds: int | None) -> RunFolder:
    raise CannotJudge("no such kernel")


def test_kernels_are_in_order_and_a_further_one_is_for_the_rows_that_name_it(monkeypatch: pytest.MonkeyPatch) -> None:
    row = changed(STARVED, bad_on=("< 6.12.63",), also=("debian:6.12.57",), mutant="m", figure=ratio(*FAST))
    rows = [row, changed(row, name="other", also=(), mutant="")]
    iops = {"debian:6.1": 20, "debian:6.12.107": 96, "debian:6.12.57": 30, SOURCE: 90, f"{SOURCE}+m": 10}
    measured_here(monkeypatch, {spec: {"none": value} for spec, value in iops.items()})
    scores = score_zoo(rows, ("debian:6.1", "debian:6.12.107"), SOURCE, nothing)
    assert [(it.row.name, it.mutant or it.kernel, str(it.side)) for it in scores] == [
        ("starved", "6.1", "bad"),
        ("other", "6.1", "bad"),
        ("starved", "6.12.57", "bad"),
        ("starved", "6.12.107", "good"),
        ("other", "6.12.107", "good"),
        ("starved", "m", "bad"),
    ]
    mutant = scores[-1]
    assert mutant.figure and mutant.other
    assert (mutant.figure.median, mutant.other.median) == (10, 90), "the figure on the mutant and without it"


def test_each_row_gets_a_null_pair_on_the_first_kernel_that_decides_it(monkeypatch: pytest.MonkeyPatch) -> None:
    model = replace(scenario([claim()], arms=BOTH_ARMS), seeds=2)
    rows = [changed(STARVED, scenario=model), changed(STARVED, name="red", scenario=model, ratio=ARM.ratio)]
    shown = {"none": 95.0, "red": 5.0}
    measured_here(monkeypatch, {"debian:6.1": {"none": 95.0}, "debian:6.2": shown, "debian:6.3": shown})
    scores = score_zoo(rows, ("debian:6.1", "debian:6.2", "debian:6.3"), SOURCE, nothing)
    asked = []

    def measure(scenario: Scenario, spec: str, arms: Sequence[str], seeds: int | None) -> RunFolder:
        asked.append((spec, tuple(arms), seeds))
        (run,) = {it.run for it in scores if it.spec == spec and it.run}
        return run

    four = [*cells("none", 95, 95, 95, 95), *cells("red", 5, 5, 5, 5)]
    monkeypatch.setattr(
        scorer, "results_of", lambda run: [it for it in four if it.arm == "none" or run.facts.kernel.release != "6.1"]
    )
    monkeypatch.setattr(RunFolder, "__hash__", lambda run: hash(run.facts.kernel.release))
    pairs = [*null_pairs(scores, measure, {})]
    assert asked == [("debian:6.1", ("red", "none"), 4), ("debian:6.2", ("red", "none"), 4)]
    assert [(pair.kernel, pair.decided) for pair in pairs] == [("6.1", ("starved",)), ("6.2", ("starved", "red"))]


def sample(name: str, *controls: Control) -> Scenario:
    return replace(scenario([claim()], controls, BOTH_ARMS), name=name)


def on(
    model: Scenario, *together: float, release: str = "6.12.9", spec: str = SOURCE, mutant: str = ""
) -> list[RowScore]:
    red = cells("red", *([5.0] * 3))
    return scores_of(rows_of(model), [*cells("none", *together), *red], release, spec, mutant)


def proofs_of(scores: Sequence[RowScore]) -> list[str]:
    rows = [*dict.fromkeys(it.row for it in scores)]
    return [proof.fails_by for proof in prove_claims(rows, scores, SOURCE)]


def join(*parts: Sequence[RowScore]) -> list[RowScore]:
    """Scores of one scenario on several kernels, with the rows of the first."""
    rows = [it.row for it in parts[0]]
    return [replace(it, row=row) for part in parts for it, row in zip(part, rows, strict=True)]


def test_a_claim_is_shown_with_what_makes_it_fail_in_the_run_and_on_mutants() -> None:
    model = sample("one", LIFO, ARM)
    assert proofs_of(join(on(model, 95, 95, 95), on(model, 5, 6, 7, mutant="lifo-wake"))) == [
        "mutant lifo-wake: 0.06000 [0.05000 .. 0.07000]; arm red: 0.05000"
    ]
    assert proofs_of(on(sample("one", LIFO), 95)) == ["mutant lifo-wake: <= 0.5, not measured"]


def test_a_mutant_on_which_the_claim_holds_or_the_guest_died_proves_nothing() -> None:
    model = sample("one", LIFO)
    holds = on(model, 95, 96, 97, mutant="lifo-wake")
    assert proofs_of(join(on(model, 95), holds)) == [
        "unproven; mutant lifo-wake: 0.9600 [0.9500 .. 0.9700], where it holds"
    ]
    dead = [replace(it, status=Status.FAIL, figures={}, outcome=Outcome.OOPS) for it in cells("none", 5, 5, 5)]
    died = scores_of(rows_of(model), dead, mutant="lifo-wake")
    assert proofs_of(join(on(model, 95), died))[0].startswith("unproven; mutant lifo-wake: arm none")
    assert "mutant lifo-wake is not detected: no scenario detects it" in shortfalls(
        rows_of(model), join(on(model, 95), died), SOURCE
    )


def test_a_claim_is_shown_where_it_holds_and_fails_where_the_file_says_so() -> None:
    here = replace(claim(), known=(KnownFailure("< 5.17", "wake batches", "https://example.org"),))
    for_others = replace(claim(AT_MOST), that="it starves", kernels="6.1")
    model = replace(sample("one", ARM), claims=(here, for_others))
    old = on(model, 5, 5, 5, release="5.10.9", spec="debian:5.10")
    other = on(model, 5, 5, 5, release="6.1.9", spec="debian:6.1")
    scores = join(old, other, on(model, 95, 95, 95))
    proof, _ = prove_claims([it.row for it in scores[:3]], scores, SOURCE)
    assert (proof.cells[2], proof.against_kernel) == ("0.9500", True)
    assert sorted(str(cause) for cause in proof.by if cause.kills) == [
        "arm red: 0.05000",
        "kernels 6.1: 0.05000 on 6.1.9",
        "kernels < 5.17: 0.05000 on 5.10.9",
    ]


def test_a_killer_s_figure_is_in_the_unit_of_the_claim() -> None:
    """64 tags over 4 ms are 16,000 IOPS, over 400 ms 160: each is 1 of its own bound."""
    equal = Bound("0.95 .. 1.05", 0.95, 1.05)
    fast = replace(claim(equal, ratio("none.solo.fast.iops", "bound.none.solo.fast.iops")), that="fast")
    slow = replace(claim(equal, ratio("none.together.slow.iops", "bound.none.together.slow.iops")), that="slow")
    idle = {("solo", "guest", "cpu.idle"): 0.9, ("together", "guest", "cpu.idle"): 0.9}
    figures = {("solo", "fast", "iops"): 16000.0, ("together", "slow", "iops"): 80.0, **idle}
    rows = rows_of(scenario([fast, slow]))
    scores = scores_of(rows, [replace(cell("none", 1, 1), figures=figures)])
    assert [proof.cells[2:] for proof in prove_claims(rows, scores, SOURCE)] == [
        ("1.000", "load together, role slow: 0.005000"),
        ("1.000", "load solo, role fast: 200.0"),
    ]
    assert not any(proof.against_kernel for proof in prove_claims(rows, scores, SOURCE))


def test_shortfalls_are_listed() -> None:
    sound = sample("one", LIFO, ARM)
    scores = join(on(sound, 95, 95, 95), on(sound, 5, 6, 7, mutant="lifo-wake"))
    assert [*shortfalls([it.row for it in scores[:3]], scores, SOURCE)] == []
    lone = sample("lone", LIFO)
    held = join(on(lone, 5, 5, 5), on(lone, 95, 95, 95, mutant="lifo-wake"))
    assert [*shortfalls([it.row for it in held[:2]], held, SOURCE)] == [
        "mutant lifo-wake is not detected: no scenario detects it",
        "does not fail on the mutant lifo-wake, in lone: it can starve",
        "scenario lone kills no mutant and has no control by an arm",
        "the kernel without a mutant is FAIL under lone",
        "fails without the mutant lifo-wake too, under lone: it can starve",
    ]
    rows = rows_of(lone)
    assert [*shortfalls(rows, score_claims(rows, SOURCE, (), nothing), SOURCE)] == [
        "mutant lifo-wake is not detected: no such kernel",
        "scenario lone kills no mutant and has no control by an arm",
        "scenario lone is not measured on a kernel without a mutant",
    ]


def test_a_scenario_that_a_further_kernel_passes_may_be_skipped_on_the_source() -> None:
    model = sample("one", ARM)
    (source, passed) = on(model, 95, 95, 95), on(model, 95, 95, 95, release="4.18", spec="ubuntu:4.18")
    assert source[0].verdict is not None
    skipped = [replace(it, verdict=replace(source[0].verdict, status=Status.SKIP)) for it in source]
    rows = [it.row for it in skipped]
    assert [*shortfalls(rows, skipped, SOURCE)] == ["the kernel without a mutant is SKIP under one"]
    assert [*shortfalls(rows, join(skipped, passed), SOURCE)] == []
    failed = on(model, 5, 5, 5, release="4.18", spec="ubuntu:4.18")
    assert [*shortfalls(rows, join(source, failed), SOURCE)] == ["4.18 is FAIL under one"]


def stored_run(
    root: Path, model: Scenario, together: dict[str, float], spec: str = KERNEL.spec, seeds: int = 3
) -> None:
    run = new_run(root, model, spec=spec, seeds=seeds)
    boot_all(run, together)
    run.finish(judge_run(run), elapsed=1.0)


def test_stored_runs_are_scored_without_booting(tmp_path: Path) -> None:
    model, measure = scenario([claim()], [LIFO]), stored_runs(Store(tmp_path), again="x")
    stored_run(tmp_path, model, {"none": 95.0})
    found = score(rows_of(model), KERNEL.spec, measure)[0]
    assert found.verdict is not None and found.verdict.status is Status.PASS
    (absent, _) = score(rows_of(model), KERNEL.spec, measure, mutant="lifo-wake")
    assert (absent.run, absent.judgement.reason) == (None, NOT_MEASURED)
    assert score(rows_of(model), "source:6.1", measure)[0].run is None
    assert score(rows_of(replace(model, seeds=9)), KERNEL.spec, measure)[0].run is None, "another scenario"


def test_a_stored_run_has_enough_seeds_if_there_is_one(tmp_path: Path) -> None:
    model, measure = scenario([claim()]), stored_runs(Store(tmp_path), again="x")
    for seeds in (1, 3, 2):
        stored_run(tmp_path, model, {"none": 95.0}, seeds=seeds)
    assert [len(measure(model, KERNEL.spec, (), seeds).facts.seeds) for seeds in (None, 1, 3)] == [3, 2, 3]
    with pytest.raises(CannotJudge, match=NOT_MEASURED):
        measure(model, KERNEL.spec, (), 4)


def test_what_the_source_leaves_open_is_measured_on_the_first_further_kernel_that_shows_it(tmp_path: Path) -> None:
    model = scenario([claim()], [ARM], BOTH_ARMS)
    stored_run(tmp_path, model, {"none": 95.0, "red": 5.0})
    asked: list[tuple[str, tuple[str, ...]]] = []

    def measure(model: Scenario, spec: str, arms: Sequence[str], seeds: int | None) -> RunFolder:
        asked.append((spec, tuple(arms)))
        return stored_runs(Store(tmp_path), again="x")(model, spec, arms, seeds)

    rows, further = rows_of(model), ("debian:5.10", KERNEL.spec, "debian:7.2")
    scores = score_claims(rows, SOURCE, further, measure)
    assert asked == [(SOURCE, ()), ("debian:5.10", ("red", "none")), (KERNEL.spec, ("red", "none"))]
    (proof,) = prove_claims(rows, scores, SOURCE)
    assert proof.cells[2:] == (
        f"0.9700 [0.9600 .. 0.9800] on {KERNEL.release}",
        f"arm red: 0.07000 [0.06000 .. 0.08000] on {KERNEL.release}",
    )


def test_a_series_without_a_package_is_scored_as_it_was_built(tmp_path: Path) -> None:
    row = EvidenceRow(Topic.REPORTS, "sample", "x", scenario([claim()]), SHARE)
    for spec in ("tree:linux@v4.19", "debian:6.1", "source:6.1"):
        stored_run(tmp_path, row.scenario, {"none": 90.0}, spec=spec)
        (found,) = score_newest([row], Store(tmp_path))
        assert found.spec == ("tree:linux@v4.19" if spec.startswith("tree:") else "debian:6.1")
