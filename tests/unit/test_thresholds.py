# SPDX-License-Identifier: GPL-2.0-only
"""What layout alone moves: kinds of figures, their thresholds from null pairs, and what compare makes of them."""

import json
from pathlib import Path

import pytest

from harness.commands.compare import _compared
from harness.judge.cells import CellResult
from harness.judge.comparison import Difference, changes, kind_of
from harness.judge.ensemble import Ensemble
from harness.judge.thresholds import DATA, NullEvidence, evidence, kind
from harness.record.sides import pairs, side
from harness.scenario.model import Status
from harness.studies import thresholds
from harness.studies.thresholds import (
    RELINKED,
    WORD,
    NullFigure,
    ZooDifference,
    document,
    evidence_of,
    figures_of_null,
    threshold_page,
)
from lab.kernels.mutants import catalogue
from tests.unit.record_samples import run_of

SMALL = NullEvidence(layout=0.01, single=0.02, pairs=4, where="x")


def ensemble(*values: float) -> Ensemble:
    return Ensemble(dict(enumerate(values, start=1)))


@pytest.mark.parametrize(
    ("metric", "value", "others", "name"),
    [
        ("iops", 500.0, {}, "rate, one role"),
        ("iops", 99.0, {}, "rate, below 100 IOPS"),
        ("members.bw", 50.0, {("l", "other", "iops"): 3.0}, "rate, several roles"),
        ("cpu.per_io", 1e6, {}, "cpu.per_io, CPU partly idle"),
        ("cpu.per_io", 2e6, {}, "cpu.per_io, CPU busy"),
        ("cpu.per_io", 1e6, {("l", "other", "iops"): 500.0}, "cpu.per_io, CPU busy"),
        ("cpu.per_io", 1e6, {("m", "other", "iops"): 500.0}, "cpu.per_io, CPU partly idle"),
        ("lat.mean", 1.0, {}, "mean latency, one role"),
        ("clat.p50", 1.0, {("l", "r", "iops"): 7.0}, "median latency, below 100 IOPS"),
        ("lat.p99.9", 1.0, {}, "percentile of latency, one role"),
        ("slat.max", 1.0, {("l", "other", "iops"): 3.0}, "submission, longest latency, several roles"),
        ("disk.merges", 999.0, {}, "counter below 1,000"),
        ("disk.merges", 1000.0, {}, "counter"),
        ("members.reads.ms", 1000.0, {}, "time by a counter of ms"),
        ("paths.busiest", 0.5, {}, ""),
        ("verify.bad", 3.0, {}, ""),
        ("load.runtime", 3.0, {}, ""),
    ],
)
def test_kinds(metric: str, value: float, others: dict[tuple[str, str, str], float], name: str) -> None:
    assert kind(("l", "r", metric), {("l", "r", "iops"): 500.0, **others, ("l", "r", metric): value}) == name


def figure(name: str, base: tuple[float, float], **variants: tuple[float, ...]) -> NullFigure:
    by_seed = {which: dict(enumerate(values, start=1)) for which, values in variants.items()}
    return NullFigure("rate, one role", name, dict(enumerate(base, start=1)), by_seed)


def test_the_threshold_is_the_largest_difference_of_medians_and_of_single_boots() -> None:
    found = evidence_of(
        [
            figure("a", (100, 102), word=(101, 103), linked=(100, 102)),
            figure("b", (100, 104), word=(103, 105)),
            figure("c", (100, 100), half=(200,)),
        ]
    )
    (name, one) = next(iter(found.items()))
    assert (name, one.pairs, one.where) == ("rate, one role", 3, "b (word)")
    assert one.layout == pytest.approx(2 / 102)
    assert one.single == pytest.approx(1.0)


def cell(seed: int, **figures: float) -> CellResult:
    return CellResult("a", seed, Status.PASS, figures={("l", "r", name): value for name, value in figures.items()})


def test_figures_without_a_kind_and_zeros_make_no_pair() -> None:
    base = [cell(seed, iops=100.0, **{"disk.merges": 0.0, "paths.busiest": 0.5}) for seed in (1, 2)]
    (one,) = figures_of_null("s", base, {"word": [cell(1, iops=101.0), cell(2, iops=102.0)]})
    assert (one.kind, one.name, one.variants) == ("rate, one role", "s.a.l.r.iops", {"word": {1: 101.0, 2: 102.0}})


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        ((100, 100), (100.9, 101), Difference.REAL),
        ((100, 100), (102, 102), Difference.MARKED),
        ((100, 103), (102, 104), Difference.NONE),
        ((100,), (101.9,), Difference.UNKNOWN),
        ((100,), (102.1,), Difference.MARKED),
    ],
)
def test_evidence_replaces_the_general_threshold(
    before: tuple[float, ...], after: tuple[float, ...], wanted: Difference
) -> None:
    assert kind_of(ensemble(*before), ensemble(*after), exact=True, evidence=SMALL) is wanted


def test_each_figure_gets_the_evidence_of_its_kind() -> None:
    before, after = ([cell(seed, iops=value) for seed in (1, 2)] for value in (100.0, 102.0))
    (one,) = changes(before, after, exact=True, known={"rate, one role": SMALL})
    assert (one.evidence, one.apart, one.difference()) == (SMALL, True, Difference.MARKED)
    (other,) = changes(before, after, exact=True, known={"rate, several roles": SMALL})
    assert (other.evidence, other.difference()) == (None, Difference.REAL)


def test_compare_uses_it_between_builds_and_not_between_distribution_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_of(tmp_path, [95.0, 96.0])
    run_of(tmp_path, [80.0, 82.0], release="7.2.12+deb14-amd64")
    monkeypatch.setattr(
        "harness.commands.compare.evidence", lambda: {"rate, several roles": SMALL, "rate, one role": SMALL}
    )
    (pair,) = pairs(side("debian:6.1", tmp_path), side("7.2", tmp_path))
    assert {one.evidence for one in _compared(pair, ("iops",)).changes} == {None}
    monkeypatch.setattr("harness.commands.compare.is_built", lambda spec: True)
    assert SMALL in {one.evidence for one in _compared(pair, ("iops",)).changes}


def test_the_stored_data_are_those_of_the_command() -> None:
    stored = json.loads(DATA.read_text())
    known = evidence()
    assert stored == document(known, stored["kernel"])
    assert {"cpu.per_io, CPU busy", "rate, one role", "rate, several roles", "counter"} <= known.keys()
    assert {*RELINKED} <= catalogue().keys()
    assert evidence(DATA.with_name("none.json")) == {}


def test_the_page_counts_what_only_the_new_thresholds_mark() -> None:
    zoo = (ZooDifference("one", 10, 5, 7, ("a.l.r.iops", "b", "c"), 1), ZooDifference("two", reason="not stored"))
    text = threshold_page({"rate, one role": SMALL}, zoo, "6.12", "QEMU 7.2", "blklab check thresholds")
    assert "| rate, one role | 4 | 1 % | 2 % | x |" in text
    assert "5 % marks 5 of them, and the thresholds above 7:" in text
    assert "- 3 are marked by these alone" in text
    assert "- 1 are marked by the old one alone" in text
    assert "| one | 10 | 5 | 7 | a.l.r.iops |" in text
    assert "two: not counted: not stored" in text
    assert f"`{WORD}`" in text
    assert all(scenario in text for scenario in thresholds.SAMPLE)
