# SPDX-License-Identifier: GPL-2.0-only
"""What layout alone moves: kinds of figures, their thresholds from null pairs, and what compare makes of them."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from harness import fitted
from harness.base.checkout import SCENARIOS
from harness.base.files import write_json
from harness.commands.compare import _comparison
from harness.grid.lines import Trend
from harness.judge.cells import CellResult, Ensemble
from harness.judge.claims import margin_of
from harness.judge.difference import (
    DATA,
    LARGE,
    Difference,
    NullEvidence,
    Precision,
    Significance,
    claim_layouts,
    compare_cells,
    kind,
    null_evidence,
)
from harness.judge.verdict import judge, verdict_document
from harness.patch.study import outcomes
from harness.record.index import pairs, side
from harness.record.judging import compare_runs, differences
from harness.report.claims import claim_text
from harness.report.terminal.grid import Compared, print_comparison
from harness.scenario.load import LAYOUT_WORD
from harness.scenario.model import Bound, Scenario, Status
from harness.scenario.registry import GUEST
from harness.scenario.timing import Clock
from lab.kernels.mutants import catalogue
from lab.topology.model import Processors
from tests.unit.analysis_samples import cells as sample_cells
from tests.unit.analysis_samples import claim, null_topology, scenario
from tests.unit.record_samples import run_of
from tools import thresholds
from tools.command import Measure
from tools.evidence.rows import load_zoo, shipped_scenarios
from tools.thresholds import (
    MORE,
    RELINKED,
    TWICE,
    NullFigure,
    NullSample,
    claim_moves,
    document,
    evidence_of,
    figures_of_null,
    null_figures,
    samples,
    threshold_page,
)

SMALL = NullEvidence(layout=0.01, seeds=0.015, single=0.02, pairs=4, arms=fitted.LEAST_ARMS, where="x")

REGRESSIONS = load_zoo(SCENARIOS)
SAMPLES = samples(REGRESSIONS, SCENARIOS)


def ensemble(*values: float) -> Ensemble:
    return Ensemble(dict(enumerate(values, start=1)))


def figure(name: str, base: tuple[float, float], **variants: tuple[float, ...]) -> NullFigure:
    by_seed = {which: dict(enumerate(values, start=1)) for which, values in variants.items()}
    return NullFigure("rate, one role", name, dict(enumerate(base, start=1)), by_seed)


def test_the_threshold_is_the_largest_difference_under_one_seed_and_of_any_two_boots() -> None:
    found = evidence_of(
        [
            figure("s.a.l.r.iops", (100, 102), word=(101, 103), linked=(100, 102)),
            figure("s.b.l.r.iops", (100, 104), word=(103, 105)),
            figure("s.c.l.r.iops", (100, 110), half=(101,)),
            figure("s.c.l.q.iops", (100, 100), word=(100, 100)),
            figure("s.d.l.r.iops", (100, 100), word=(100, 100)),
        ]
    )
    (name, one) = next(iter(found.items()))
    assert (name, one.pairs, one.arms, one.where) == ("rate, one role", 11, 3, "s.b.l.r.iops (word)")
    assert one.layout == pytest.approx(3 / 100)
    assert one.seeds == one.single == pytest.approx(0.1)


def test_a_kind_that_differs_in_few_arms_keeps_the_general_thresholds() -> None:
    """A kind that is equal in each arm of the sample once made every difference a marked one."""
    equal = replace(SMALL, layout=0.0, seeds=0.0, single=0.0, arms=0)
    few = replace(SMALL, arms=fitted.LEAST_ARMS - 1)
    noisy = replace(few, layout=0.3, single=1.5)
    assert [(one.usable().layout, one.usable().single) for one in (equal, few, noisy, SMALL)] == [
        (LARGE, fitted.SINGLE - 1),
        (LARGE, fitted.SINGLE - 1),
        (0.3, 1.5),
        (0.01, 0.02),
    ]
    before, after = ensemble(100, 100), ensemble(101, 101)
    assert Difference(before, after, exact=True, evidence=equal).mark is Significance.MARKED
    assert Difference(before, after, exact=True, evidence=equal.usable()).mark is Significance.REAL


def test_the_stored_data_are_read_as_they_are_usable(tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    kinds = {"rate, one role": replace(SMALL, arms=0)}
    write_json(path, document(kinds, {}, "6.12"))
    assert null_evidence(path)["rate, one role"].layout == LARGE


RATES = {"rate, several roles": SMALL, "rate, one role": SMALL, "rate, several roles, below 1,000 IOPS": SMALL}


def cell(seed: int, **figures: float) -> CellResult:
    return CellResult("a", seed, Status.PASS, figures={("l", "r", name): value for name, value in figures.items()})


def test_figures_without_a_kind_and_zeros_make_no_pair() -> None:
    none = {"disk.merges": 0.0, "disk.bios": 1.0, "paths.busiest": 0.5}
    base = [cell(seed, iops=100.0, **none) for seed in (1, 2)]
    word = [cell(1, iops=101.0, **none), cell(2, iops=102.0, **{**none, "disk.bios": 0.0})]
    (one,) = figures_of_null("s", base, {"word": word})
    assert (one.kind, one.name, one.variants) == ("rate, one role", "s.a.l.r.iops", {"word": {1: 101.0, 2: 102.0}})


def test_each_figure_gets_the_evidence_of_its_kind() -> None:
    before, after = ([cell(seed, iops=value) for seed in (1, 2)] for value in (100.0, 102.0))
    precision = Precision(exact=True, alike=True, known={"rate, one role": SMALL})
    (one,) = compare_cells(before, after, ("iops",), precision)
    assert (one.evidence, one.apart, one.mark) == (SMALL, True, Significance.MARKED)
    (other,) = compare_cells(before, after, ("iops",), replace(precision, known={"rate, several roles": SMALL}))
    assert (other.evidence, other.mark) == (None, Significance.REAL)


def test_compare_uses_it_between_builds_and_not_between_distribution_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_of(tmp_path, [95.0, 96.0])
    run_of(tmp_path, [80.0, 82.0], release="7.2.12+deb14-amd64")
    monkeypatch.setattr("harness.record.judging.Precision", partial(Precision, known=RATES))
    (pair,) = pairs(side("debian:6.1", tmp_path), side("7.2", tmp_path))
    assert SMALL.between_configurations() in {one.evidence for one in _comparison(pair, ("iops",)).changes}
    monkeypatch.setattr("harness.record.store.KernelFacts.configured_as", lambda *_: True)
    assert SMALL in {one.evidence for one in _comparison(pair, ("iops",)).changes}


def test_a_kernel_is_compared_with_itself_by_the_thresholds_by_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = run_of(tmp_path, [95.0, 96.0]), run_of(tmp_path, [97.5, 98.0], day=2)
    monkeypatch.setattr("harness.record.judging.Precision", partial(Precision, known=RATES))
    assert {each.evidence for each in compare_runs(one, other, ("iops",))} == {SMALL}


def test_a_patch_is_judged_by_the_thresholds_by_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Base and series have one configuration: 2 % of IOPS were not marked."""
    base, series = run_of(tmp_path, [95.0, 95.0]), run_of(tmp_path, [93.0, 93.0], release="6.12.7", day=2)
    monkeypatch.setattr("harness.record.judging.Precision", partial(Precision, known=RATES))
    assert outcomes(base, series).trend is None
    monkeypatch.setattr("harness.record.store.KernelFacts.configured_as", lambda *_: True)
    found = outcomes(base, series)
    assert found.trend is Trend.WORSE
    assert [one.name for one in found.moves] == ["none.together: IOPS of fast"]
    print_comparison(Console(width=200), [Compared("sample", "base", "series", found.changes)])
    shown = capsys.readouterr().out
    assert "iops 1 %" in shown and "above their thresholds" in shown


def test_the_stored_data_are_those_of_the_command() -> None:
    stored = json.loads(DATA.read_text())
    found = {name: NullEvidence(**row) for name, row in stored["kinds"].items()}
    assert {frozenset(row) for row in stored["claims"].values()} == {frozenset({"measured", "ratios"})}
    assert stored == json.loads(json.dumps(document(found, stored["claims"], stored["kernel"])))
    shipped = {one.name: one for one in VIRTUAL}
    assert {name: row["measured"] for name, row in stored["claims"].items()} == {
        name: shipped[name].measurement_digest for name in stored["claims"]
    }
    assert {"cpu.per_io, CPU busy", "rate, one role", "rate, several roles", "counter, one role"} <= found.keys()
    of_function = kind(("l", GUEST, "function.submit_bio"), {})
    assert null_evidence()[of_function].single == fitted.OF_FUNCTION
    assert {name: one for name, one in null_evidence().items() if name != of_function} == {
        name: one.usable() for name, one in found.items()
    }


def test_the_sample_has_the_arms_of_every_regression_and_relinks_what_they_do_not_execute() -> None:
    assert {*RELINKED} <= catalogue().keys()
    found = {one.scenario.name: one for one in SAMPLES}
    assert {one.scenario.name for one in REGRESSIONS} - {*SEVERAL} | MORE.keys() == found.keys()
    several = {name for name, one in found.items() if one.several}
    assert several == {"null-lines", "scsi-lines", "device-lines", "md-locks"}
    other = {name: one.relinked for name, one in found.items() if not one.several and one.relinked != RELINKED[:2]}
    assert {*other} == {"bfq-tags", "ioprio", "nr-requests", "shared-queue", "write-mostly-discard"}
    assert other["ioprio"] == RELINKED[1:] and other["write-mostly-discard"] == (RELINKED[0], RELINKED[2])
    for one in found.values():
        assert one.arms and not {control.mutant for control in one.scenario.controls} & {*one.relinked}


SCENARIO = replace(scenario([claim()]), seeds=1)
SOURCE = "source:6.12"


def measuring(monkeypatch: pytest.MonkeyPatch, cells: Callable[..., list[CellResult]]) -> Measure:
    """From a scenario, a kernel, arms and seeds to cells, in place of runs."""
    monkeypatch.setattr(thresholds, "results_of", lambda run: run)
    return cells  # type: ignore[return-value]


def test_null_pairs_are_a_word_and_two_links_under_the_same_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str, int | None, tuple[str, ...], bool]] = []

    def cells(model: Scenario, spec: str, arms: tuple[str, ...], seeds: int) -> list[CellResult]:
        asked.append((model.name, spec, seeds, arms, LAYOUT_WORD in model.arms["none"].topology.kernel_words))
        return [replace(cell(seed, iops=100.0 + len(asked)), arm="none") for seed in range(1, seeds + 1)]

    (one,) = null_figures(measuring(monkeypatch, cells), SOURCE, [NullSample(SCENARIO, ("none",))])
    assert asked == [
        ("sample", SOURCE, 2, ("none",), False),
        ("sample.word", SOURCE, 1, ("none",), True),
        *(("sample", f"{SOURCE}+{name}", 1, ("none",), False) for name in RELINKED[:2]),
    ]
    assert (one.name, one.base, {*one.variants}) == (
        "sample.none.l.r.iops",
        {1: 101.0, 2: 101.0},
        {LAYOUT_WORD, *RELINKED[:2]},
    )


def test_null_pairs_on_several_cpus_are_command_lines_under_equal_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str, int, int]] = []

    def cells(model: Scenario, spec: str, arms: tuple[str, ...], seeds: int) -> list[CellResult]:
        asked.append((spec, model.name, seeds, model.arms["none"].topology.kernel_words.count(LAYOUT_WORD)))
        return [replace(cell(seed, iops=100.0 + len(asked)), arm="none") for seed in range(1, seeds + 1)]

    arm = SCENARIO.arms["none"]
    four = replace(arm, topology=replace(arm.topology, processors=Processors(cpus=4)))
    chosen = [NullSample(replace(SCENARIO, arms={"none": four}), ("none",))]
    figures = list(null_figures(measuring(monkeypatch, cells), SOURCE, chosen))
    layouts = [("sample", 3, 0), ("sample.word", 3, 1), ("sample.word.word", 3, 2)]
    assert asked == [(spec, *layout) for spec in ("debian:6.1", "debian:6.12") for layout in layouts]
    assert [figure.variants for figure in figures] == [
        {LAYOUT_WORD: dict.fromkeys((1, 2, 3), first), TWICE: dict.fromkeys((1, 2, 3), second)}
        for first, second in ((102.0, 103.0), (105.0, 106.0))
    ]


def test_the_page_has_a_row_for_each_kind_and_the_arms() -> None:
    kinds = {"rate, one role": SMALL, "counter": replace(SMALL, layout=0.0, arms=0, where="")}
    kinds |= {"time": replace(SMALL, layout=0.1), "latency": replace(SMALL, layout=3.6)}
    text = threshold_page(kinds, SAMPLES, "Kernel: 6.12. QEMU 7.2", "thresholds")
    assert "| rate, one role | 4 | 3 | 1 % | 1.5 % | 2 % | 1 % | 2 % | x |" in text
    assert "| counter | 4 | 0 | 0 % | 1.5 % | 2 % | 5 % | 100 % | - |" in text
    assert ": time (10 %); latency (360 %)\n" in text and "| time |" not in text
    assert f"`{LAYOUT_WORD}`" in text
    assert all(f"{sample.scenario.name} ({', '.join(sample.arms)})" in text for sample in SAMPLES)


VIRTUAL = [one for one in shipped_scenarios(SCENARIOS) if one.clock is Clock.VIRTUAL]
SEVERAL = [one.name for one in VIRTUAL if any(arm.topology.processors.several for arm in one.arms.values())]
NEWER = (
    *("crypt-cost", "fs-requests", "huge-reads", "io-cost", "io-latency", "md-layouts", "member-reads", "mixed-loads"),
    *("null-three-users", "parallel-jobs", "poisson-arrivals", "throttle-luns", "write-behind", "zone-write-cost"),
    "zone-write-plugging",
)
"""Scenarios that are newer than the study, or loads or bounds of which are."""
OTHER_KERNELS = ("legacy-fair-tags", "legacy-path", "nr-requests")
"""Scenarios for kernels before 5.0 and for 7.2."""


def test_a_claim_nearer_to_its_bound_than_layout_moves_it_is_marked_everywhere() -> None:
    """0.95 of at least 0.9: two boots of slow roles among several differ by more."""
    model = scenario([claim()])
    near, far = (judge(model, sample_cells("none", *values)) for values in ((95.0, 99.0, 99.0), (150.0, 151.0, 152.0)))
    shares = [null_evidence()[name].layout for name in ("rate, several roles, below 1,000 IOPS", "rate, one role")]
    moved = f"{(1 + shares[0]) * (1 + shares[1]) - 1:.2%}"
    says = f"within layout: 5.56% from its bound; another layout of the same code may move it by {moved}"
    assert (near.claims[0].layout, far.claims[0].layout) == (says, "")
    assert near.claims[0].text == "the share is kept (unproven, within layout)"
    assert verdict_document(near)["claims"][0]["within_layout"] == says
    assert "within_layout" not in verdict_document(far)["claims"][0]
    text = claim_text(near.claims[0])
    assert (text.margin, text.explanation) == (says, f"it keeps it. {says}")
    assert not [
        *differences(verdict_document(near), json.loads(json.dumps(verdict_document(near)).replace(moved, "1%")))
    ]


def test_a_shipped_claims_own_ratio_decides_where_it_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    model, results = scenario([claim()]), sample_cells("none", 95.0, 99.0, 99.0)
    for layout, marked in ((0.05, False), (0.95 / 0.9 - 1, False), (0.06, True)):
        own = {model.measurement_digest: {claim().ratio.text: (0.99, layout)}}
        monkeypatch.setattr("harness.judge.claims.claim_layouts", lambda own=own: own)
        assert bool(judge(model, results).claims[0].layout) is marked


def test_what_layout_moves_belongs_to_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a name nor a bound changes it; of a copy with another topology the kinds of figures decide."""
    model, results = scenario([claim()]), sample_cells("none", 95.0, 99.0, 99.0)
    copy = replace(model, name="copy", claims=(replace(claim(), that="it is kept"),))
    other = replace(model, arms={name: replace(arm, topology=null_topology(63)) for name, arm in model.arms.items()})
    monkeypatch.setattr(
        "harness.judge.claims.claim_layouts", lambda: {model.measurement_digest: {claim().ratio.text: (0.99, 0)}}
    )
    assert [bool(judge(one, results).claims[0].layout) for one in (model, copy, other)] == [False, False, True]


@pytest.mark.parametrize(
    ("values", "bound", "margin"),
    [
        ((0.95, 0.99), Bound(">= 0.9", 0.9, None), 0.95 / 0.9 - 1),
        ((0.8,), Bound(">= 0.9", 0.9, None), 0.9 / 0.8 - 1),
        ((1.0,), Bound("0.5 .. 1.25", 0.5, 1.25), 0.25),
        ((0.0,), Bound("<= 0.1", None, 0.1), math.inf),
        ((0.1,), Bound("0 .. 0", 0.0, 0.0), math.inf),
        ((1.0,), Bound("1 .. 1", 1.0, 1.0), 0.0),
    ],
)
def test_the_margin_is_that_of_the_nearest_value(values: tuple[float, ...], bound: Bound, margin: float) -> None:
    assert margin_of(ensemble(*values), bound) == pytest.approx(margin)


def test_no_shipped_claim_is_within_layout() -> None:
    layouts = claim_layouts()
    for one in VIRTUAL:
        for it in one.claims:
            if it.ratio.text not in layouts.get(one.measurement_digest, {}):
                assert one.name in (*NEWER, *OTHER_KERNELS, *SEVERAL), (one.name, it.that)
                continue
            value, layout = layouts[one.measurement_digest][it.ratio.text]
            assert margin_of(Ensemble({1: value}), it.expect) >= layout, (one.name, it.that, value, layout)


def test_another_layout_is_measured_where_the_kinds_leave_a_claim_near(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []

    def results(model: Scenario, spec: str, arms: tuple[str, ...], seeds: int) -> list[CellResult]:
        asked.append((model.name, spec))
        return sample_cells("none", 95.5 if model.name.endswith(".word") else share)[:seeds]

    measure = measuring(monkeypatch, results)
    share = 95.0
    ((name, moves),) = claim_moves(measure, (SOURCE, "debian:6.1"), [SCENARIO])
    assert (name, moves["measured"]) == ("sample", SCENARIO.measurement_digest)
    assert moves["ratios"][claim().ratio.text] == pytest.approx((0.95, fitted.TWINS * (95.5 / 95 - 1)))
    share = 150.0
    ((_, moves),) = claim_moves(measure, (SOURCE,), [SCENARIO])
    assert moves["ratios"][claim().ratio.text][1] > 0.18
    assert asked == [("sample", SOURCE), ("sample.word", SOURCE), ("sample", SOURCE)]


def test_a_verdict_of_another_python_differs_by_rounding_alone() -> None:
    """A figure of sas-multipath on 6.1 that Python 3.12 stored and 3.11 judged."""
    assert not [*differences({"low": 0.9927712357366003}, {"low": 0.9927712357366001})]
    assert [*differences({"low": 0.9927712357}, {"low": 0.9927712358})] == [
        "low: stored 0.9927712357, judged 0.9927712358"
    ]
