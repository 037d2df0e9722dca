# SPDX-License-Identifier: GPL-2.0-only
"""Pages of evidence: their tables, what is wrong, and the exit status."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from harness.base.checkout import PAGES
from harness.judge.cells import Ensemble
from harness.judge.claims import Judgement
from harness.judge.verdict import judge, verdict_document
from harness.report.format import markdown_head, markdown_section, markdown_table
from harness.scenario.model import Reproduction, Source, Status
from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_FAIL, EXIT_LAB_BROKEN, EXIT_MISUSE, EXIT_PASS
from tests.unit.analysis_samples import AT_MOST, SHARE, cells, claim, control, ratio, scenario
from tests.unit.evidence_samples import MODEL, SOURCE, STARVED, changed, rows_of, scores_of
from tools.evidence.__main__ import main
from tools.evidence.pages import (
    PREFACES,
    agree,
    clocks_page,
    controls_page,
    reports_page,
    worst_code,
    zoo_page,
)
from tools.evidence.rows import FACTORS, EvidenceRow, Topic, claim_rows, report_rows
from tools.evidence.scorer import NullPair, RowScore


def on(row: EvidenceRow, release: str, *together: float, mutant: str = "") -> list[RowScore]:
    return scores_of([row], cells("none", *together), f"{release}.1-amd64", f"debian:{release}", mutant)


def lines_of(text: str) -> list[str]:
    return text.splitlines()


def test_the_zoo_shows_sides_publications_and_what_surprises() -> None:
    figure = ratio("none.together.fast.iops")
    row = changed(STARVED, bad_on=("< 6.0", "6.12"), mutant="greedy", figure=figure, published=0.5, because="bursts")
    (mutant,) = on(row, "6.12", 5, 5, mutant="greedy")
    mutant = replace(mutant, other=Ensemble({1: 20.0}))
    scores = [*on(row, "5.10", 10, 10), *on(row, "6.1", 20, 20), *on(row, "6.12", 95, 95), *on(row, "7.2"), mutant]
    pair = NullPair("sample", "6.1", (2, 2), ("the share is kept",), ("none.together.fast.iops",), 3, ("starved",))
    page = zoo_page([row], scores, [pair], [("a lock", "https://x", "one CPU")])
    lines = lines_of(page.text)
    assert "- detected 2 of 3 where the bad side was expected" in lines
    assert "- false alarms 1 of 1 where the good side was expected" in lines
    assert "- null pairs 1 pair of 1 of 1 regression" in lines
    assert "- claims 1 of 1 pair with one that differs" in lines
    assert "- figures 1 of 3 marked, in 1 pair" in lines
    assert "| regression | mutant | good is | 5.10.1 | 6.1.1 | 6.12.1 | 7.2.1 |" in lines
    wrong = "**0.2000 bad, expected good** | **0.9500 good, expected bad** | ?"
    assert f"| starved | 0.05000 bad | >= 0.9 | 0.1000 bad | {wrong} |" in lines
    assert f"- [starved](https://example.org): it starves. `sample`, mutant `greedy`, {SHARE.text}" in lines
    assert "| starved | 0.5000 | 0.2500 | mutant greedy | bursts |" in lines
    assert "- starved on 6.12.1-amd64: good, expected bad" in lines
    assert any(line.startswith("- starved on 7.2.1-amd64: no seed was run") for line in lines)
    assert "| sample | 6.1 | 2 + 2 | starved | the share is kept | 3 | none.together.fast.iops |" in lines
    assert "## Out of scope\n\n- [a lock](https://x): one CPU" in page.text
    assert "Changes" not in page.text
    assert lines[-1].endswith("`scripts/run --dev python -m tools.evidence zoo --seeds 1` measures what is missing.")
    assert page.code == EXIT_LAB_BROKEN
    assert zoo_page([row], scores[:1]).code == EXIT_PASS
    assert zoo_page([row], [scores[3]]).code == EXIT_CANNOT_JUDGE


def test_without_a_mutant_neighbouring_kernels_on_both_sides_are_compared() -> None:
    row = changed(
        STARVED, bad_on=("< 6.5", ">= 7.2"), figure=ratio("none.together.fast.iops"), published=0.5, mutant=""
    )
    iops = {"6.1": 20, "6.12": 96, "7.1": 98, "7.2": 49}
    scores = [score for release, value in iops.items() for score in on(row, release, value)]
    text = zoo_page([row], scores).text
    assert "| starved | 0.5000 | 0.5000 | 7.2.1-amd64 / 7.1.1-amd64 |  |" in text
    change = "- starved: bad on 6.1.1-amd64, good on 6.12.1-amd64\n- starved: good on 7.1.1-amd64, bad on 7.2.1-amd64"
    assert f"## Changes between packaged kernels\n\n{change}" in text
    assert "| starved | 0.5000 | ? |  |  |" in zoo_page([row], scores[:1]).text


def test_a_report_that_was_declined_is_compared_on_one_kernel() -> None:
    row = changed(STARVED, figure=SHARE, published=0.4, decision="it is meant to be so")
    text = zoo_page([row], [*on(row, "6.1", 96), *on(row, "7.2", 98)]).text
    assert "| starved | 0.4000 | 0.9800 | 7.2.1-amd64 |  |" in text
    assert "## Do not alarm\n\n- starved: it is meant to be so" in text


def test_the_page_of_claims_counts_and_tells_declared_from_measured() -> None:
    lifo = control(AT_MOST, SHARE, mutant="lifo-wake")
    models = [replace(scenario([claim()], controls), name=name) for name, controls in (("one", [lifo]), ("two", []))]
    one, two = map(rows_of, models)
    scores = [*scores_of(one, cells("none", 95, 95, 95)), *scores_of(one, cells("none", 5, 6, 7), mutant="lifo-wake")]
    page = controls_page([*one, *two], scores, SOURCE)
    assert "2 claims: 1 fail by a measured figure, 1 are unproven, and 0 are declared to fail, not" in page.text
    assert "1 of the 1 fail on a mutant or another kernel. 0 fail only in another arm" in page.text
    assert "| the share is kept | >= 0.9 | 0.9500 | mutant lifo-wake: 0.06000 [0.05000 .. 0.07000] |" in page.text
    assert "| lifo-wake | one | 0.06000 [0.05000 .. 0.07000] | <= 0.5 | 0.9500 |" in page.text
    assert "- `two`: the share is kept" in page.text
    assert page.code == EXIT_LAB_BROKEN
    assert "fail by a measured figure, 0 are unproven, and 1 are declared" in controls_page(one, [], SOURCE).text


def report(
    published: float | None, because: str = "", name: str = "sample", source: str = "A slow array"
) -> EvidenceRow:
    entry = Reproduction("it halves", SHARE, published, "" if published else "unaffected", because)
    model = replace(scenario([claim()]), name=name, source=Source(source), reproduces=(entry,))
    (row,) = report_rows(model)
    return row


def test_a_report_has_a_column_for_each_kernel_and_marks_deviations() -> None:
    row = report(0.95, "the disks are others")
    page = reports_page([*on(row, "6.12", 95, 95), *on(row, "5.10", 60, 61)])
    assert "| ratio | reported | 5.10.1 | 6.12.1 |" in page.text
    assert "| it halves | 0.95 | **0.6050 [0.6000 .. 0.6100]** | 0.9500 |" in page.text
    assert "- it halves: the disks are others" in page.text and "From A slow array." in page.text
    in_words = reports_page(on(report(None), "5.10", 60, 61))
    assert '| it halves | "unaffected" | 0.6050 [0.6000 .. 0.6100] |' in in_words.text
    assert page.wrong == in_words.wrong == ()
    lacking = [
        replace(score, judgement=replace(score.judgement, reason=f"{score.kernel} has no xfs"))
        for release in ("6.1", "6.12")
        for score in on(row, release)
    ]
    text = "- it halves: not measured: the kernel has no xfs (6.1.1-amd64, 6.12.1-amd64)"
    assert text in reports_page(lacking).text


@pytest.mark.parametrize(("published", "because", "count"), [(0.95, "", 1), (0.95, "so", 0), (0.65, "", 0)])
def test_what_is_far_off_needs_its_reason(published: float, because: str, count: int) -> None:
    page = reports_page(on(report(published, because), "5.10", 60, 61))
    said = "sample on 5.10.1-amd64: it halves: reported 0.95, measured 0.6050 [0.6000 .. 0.6100]"
    assert page.wrong == (f"deviates by more than a fifth, unexplained: {said}",) * count
    assert page.code == (EXIT_FAIL if count else EXIT_PASS)


def test_reports_come_together_and_kernels_say_how_they_were_had() -> None:
    specs = {"b": ("Z", "debian:6.1"), "a": ("Z", "tree:/srv/x/linux@v4.19"), "c": ("A", "ubuntu:4.15")}
    scores = []
    for number, (name, (source, spec)) in enumerate(specs.items()):
        row = report(0.95, name=name, source=source)
        scores += scores_of([row], cells("none", 95), f"6.{number}.1-amd64", spec)
    text = reports_page(scores).text
    assert [line[3] for line in lines_of(text) if line.startswith("## ")] == ["c", "a", "b"]
    kernels = "6.0.1-amd64 (1 seed), 6.1.1-amd64 (1 seed, built from a tree), 6.2.1-amd64 (1 seed, ubuntu:4.15)."
    assert f"Kernels: {kernels}" in text
    (once,), (other,) = on(report(0.6), "6.1", 60), on(report(0.6, name="other"), "6.1", 60)
    assert other.run is not None
    twice = replace(other, run=replace(other.run, facts=replace(other.run.facts, seeds=(1, 2))))
    assert "6.1.1-amd64 (1 to 2 seeds)" in reports_page([once, twice]).text
    sample = replace(once.row, scenario=replace(once.row.scenario, seeds=2))
    fewer = reports_page([replace(once, row=sample)]).text
    assert "`scripts/run --dev python -m tools.evidence reports --seeds 1` measures" in fewer
    same = replace(sample, scenario=replace(sample.scenario, seeds=1))
    assert (
        "`scripts/run --dev python -m tools.evidence reports` measures" in reports_page([replace(once, row=same)]).text
    )


def test_a_report_shows_how_far_a_ratio_moves_with_what_was_fitted() -> None:
    row = report(0.6)
    tried = [changed(row, topic=Topic.SENSITIVITY, parameter="disk.*.seek", factor=factor) for factor in FACTORS]
    moved = [score for row, share in zip(tried, (70, 60), strict=False) for score in on(row, "6.1", share)]
    assert "| `disk.*.seek` | it halves | 0.7000 | 0.6000 | - |" in reports_page(on(row, "6.1", 60), moved).text


def test_a_reproduction_is_shown_and_never_counted() -> None:
    model = replace(scenario([claim()]), reproduces=(Reproduction("it halves", SHARE, 0.5),))
    verdict = judge(model, cells("none", 95, 97, 91))
    assert verdict.status is Status.PASS
    assert verdict.reproductions[0].off == pytest.approx(0.9)
    assert verdict_document(verdict)["reproductions"][0]["value"]["median"] == pytest.approx(0.95)
    (absent,) = judge(model, [], seeds=(1,)).reproductions
    assert (absent.ensemble, absent.off, "was not measured" in absent.reason) == (None, None, True)


@pytest.mark.parametrize("topic", ["reports", "sensitivity", "clocks"])
def test_without_runs_there_is_no_page(topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "page.md"
    assert main([topic, "--stored", "--results", str(tmp_path), "--out", str(out)]) == EXIT_MISUSE
    assert f"{topic}: not written: no run is stored" in capsys.readouterr().err
    assert not out.exists()


BOOTS = (0.91, 0.95, 0.93, 0.92, 0.94, 0.93)


def both(virtual: Sequence[float] = (0.9, 0.94), wall: Sequence[float] = BOOTS, because: str = "") -> RowScore:
    row = changed(STARVED, topic=Topic.CLOCKS, name="t-megasas", that="the share", twin=MODEL, because=because)
    (score,) = on(row, "6.1")
    ours, theirs = (Ensemble(dict(enumerate(values, start=1))) if values else None for values in (wall, virtual))
    return replace(score, judgement=Judgement(Status.DONE, ours), other=theirs)


@pytest.mark.parametrize(
    ("virtual", "wall", "wanted"),
    [
        ((0.9, 0.94), BOOTS, True),
        ((0.95,), BOOTS, True),
        ((0.954,), BOOTS, True),
        ((0.96, 0.99), BOOTS, False),
        ((0.8, 0.9), BOOTS, False),
        ((), BOOTS, None),
        ((0.9,), (), None),
        ((0.9,), BOOTS[:5], None),
    ],
)
def test_clocks_agree_where_range_and_interval_meet(
    virtual: Sequence[float], wall: Sequence[float], wanted: bool
) -> None:
    score = both(virtual, wall)
    assert agree(score) is wanted
    assert clocks_page([score]).code == (EXIT_FAIL if wanted is False else EXIT_PASS)


def test_a_difference_of_the_clocks_needs_its_reason_and_each_claim_has_its_interval() -> None:
    (few,) = (replace(both(wall=(0.9,)), row=row) for row in claim_rows(MODEL))
    page = clocks_page([both((0.5,), because="the bus is emulated"), both()], [replace(both(), row=few.row), few])
    interval = "0.9299 [0.9100 .. 0.9500], 6 boots"
    assert f"| t-megasas, sample | the share | 6.1.1-amd64 | 0.5000 | {interval} | **no** |" in page.text
    assert "- t-megasas: the share: the bus is emulated" in page.text
    assert page.text.count("| yes |") == 1
    assert (page.wrong, page.code) == ((), EXIT_PASS)
    assert f"| sample | the share is kept | 6.1.1-amd64 | {interval} | >= 0.9 |" in page.text
    assert "| sample | the share is kept | 6.1.1-amd64 | 0.9000, 1 boot: too few | >= 0.9 |" in page.text


@pytest.mark.parametrize(
    ("codes", "code"), [([0, 0], 0), ([0, 1], 1), ([125, 0], 125), ([125, 1], 1), ([1, 128, 125], 128), ([], 0)]
)
def test_the_worst_code_wins(codes: list[int], code: int) -> None:
    assert worst_code(codes) == code


@pytest.mark.parametrize(("name", "topic"), [("field-reports", Topic.REPORTS), ("zoo", Topic.ZOO)])
def test_a_stored_page_starts_as_its_generator_writes_it(name: str, topic: Topic) -> None:
    text = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    title, preface = PREFACES[topic]
    head = markdown_head(title, f"Generated from results by: scripts/run --dev python -m tools.evidence {topic}")
    assert text.startswith("\n".join((*head, preface)))


def test_a_table_escapes_what_would_end_a_cell() -> None:
    lines = list(markdown_table(("name", "a", "b"), [("x|y", "1\n2", "3")], numbers=2))
    assert lines == ["| name | a | b |", "|---|---:|---:|", r"| x\|y | 1 2 | 3 |"]
    assert list(markdown_section("Empty", [])) == []
    assert list(markdown_section("Full", ["x"])) == ["## Full", "", "x", ""]


@pytest.mark.parametrize("path", sorted(PAGES.glob("*.md")), ids=lambda path: path.stem)
def test_every_row_of_a_table_has_as_many_cells_as_its_head(path: Path) -> None:
    width = 0
    for line in lines_of(path.read_text(encoding="utf-8")):
        count = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else 0
        assert not (width and count) or count == width, line
        width = count
