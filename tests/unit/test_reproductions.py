# SPDX-License-Identifier: GPL-2.0-only
"""Ratios of a field report and the measured ones: in the file, in the verdict and on the page."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.commands.check.pages import of_every_series
from harness.judge.document import verdict_document
from harness.judge.verdict import judge
from harness.record.judging import judge_run
from harness.record.store import Store
from harness.scenario.model import Reproduction, Scenario, Source, Status
from harness.studies.field_reports import Measured, page, unexplained
from harness.studies.sensitivity import FACTORS, Sensitivity, SensitivityRow
from lab.base.errors import InputErrors
from tests.unit.analysis_samples import SHARE, cells, claim, scenario
from tests.unit.scenario_text import GOOD, load
from tests.unit.store_samples import boot_all, new_run


def reproducing(reported: float, because: str = "") -> Scenario:
    base = scenario([claim()])
    return replace(
        base, source=Source("A slow array"), reproduces=(Reproduction("it halves", SHARE, reported, because=because),)
    )


def measured(model: Scenario, series: str, *together: float) -> Measured:
    verdict = judge(model, cells("none", *together))
    return Measured(model, verdict, f"{series}.1-amd64", series, "QEMU 7.2", f"run-{series}")


def test_a_scenario_says_what_it_reproduces(tmp_path: Path) -> None:
    text = "reproduces:\n  - {that: it starves, ratio: shared.lopsided.victim.iops / 1, reported: 0.62, because: so}\n"
    (one,) = load(GOOD + text, tmp_path).reproduces
    assert (one.that, one.reported, one.because) == ("it starves", 0.62, "so")


def test_a_report_without_a_figure_is_quoted(tmp_path: Path) -> None:
    text = "reproduces:\n  - {that: it starves, ratio: shared.lopsided.victim.iops / 1, in_words: unaffected}\n"
    model = load(GOOD + text, tmp_path)
    (one,) = model.reproduces
    assert (one.reported, one.in_words) == (None, "unaffected")
    alone = [measured(replace(reproducing(0.1), reproduces=(replace(one, ratio=SHARE),)), "5.10", 60, 61)]
    assert '| it starves | "unaffected" | 0.6050 [0.6000 .. 0.6100] |' in page(alone, "blklab check pages")
    assert unexplained(alone) == ()


@pytest.mark.parametrize("said", ["", ", reported: 0.6, in_words: unaffected"])
def test_a_report_gives_a_figure_or_words(said: str, tmp_path: Path) -> None:
    text = f"reproduces:\n  - {{that: x, ratio: shared.lopsided.victim.iops{said}}}\n"
    with pytest.raises(InputErrors, match="expected either reported or in_words"):
        load(GOOD + text, tmp_path)


@pytest.mark.parametrize("reported", ["0", "-1", "much", '"0.6"', "1e3", ".5", "10000000"])
def test_what_was_reported_is_a_number(reported: str, tmp_path: Path) -> None:
    text = f"reproduces:\n  - {{that: x, ratio: shared.lopsided.victim.iops, reported: {reported}}}\n"
    with pytest.raises(InputErrors, match="expected a number above 0 and up to"):
        load(GOOD + text, tmp_path)


def test_a_reproduction_is_shown_and_never_counted() -> None:
    model = reproducing(0.5)
    verdict = judge(model, cells("none", 95, 97, 91))
    assert verdict.status is Status.PASS
    (one,) = verdict.reproductions
    assert one.off == pytest.approx(0.9)
    assert verdict_document(verdict)["reproductions"][0]["value"]["median"] == pytest.approx(0.95)


def test_without_measurement_it_says_why() -> None:
    (one,) = judge(reproducing(0.5), [], seeds=(1,)).reproductions
    assert (one.ensemble, one.off) == (None, None)
    assert "was not measured" in one.reason


def test_the_page_has_a_column_for_each_kernel_and_marks_deviations() -> None:
    model = reproducing(0.95, "the disks are others")
    text = page([measured(model, "6.12", 95, 95), measured(model, "5.10", 60, 61)], "blklab check pages")
    assert "| ratio | reported | 5.10 | 6.12 |" in text
    assert "| it halves | 0.95 | **0.6050 [0.6000 .. 0.6100]** | 0.9500 |" in text
    assert "- it halves: the disks are others" in text
    assert "From A slow array." in text


def test_what_is_far_off_needs_its_reason() -> None:
    far = [measured(reproducing(0.95), "5.10", 60, 61)]
    assert unexplained(far) == ("sample on 5.10: it halves: reported 0.95, measured 0.6050 [0.6000 .. 0.6100]",)
    assert unexplained([measured(reproducing(0.95, "so"), "5.10", 60, 61)]) == ()
    assert unexplained([measured(reproducing(0.65), "5.10", 60, 61)]) == ()


def test_the_page_shows_how_much_a_ratio_hangs_on_what_was_fitted() -> None:
    rows = tuple(
        SensitivityRow("disk.*.seek", factor, "it halves", ratio)
        for factor, ratio in zip(FACTORS, (0.7, 0.6, None), strict=True)
    )
    model = reproducing(0.6)
    found = Sensitivity(model.name, model.digest, "6.1.0", rows)
    text = page([measured(model, "6.1", 60, 60)], "blklab check pages", [found])
    assert "| `disk.*.seek` | it halves | 0.7000 | 0.6000 | - |" in text


def test_scenarios_of_one_report_come_together_and_kernels_say_how_they_were_had() -> None:
    runs = []
    for name, report, spec in (
        ("b", "Z", "debian:6.1"),
        ("a", "Z", "tree:/srv/x/linux@v4.19"),
        ("c", "A", "ubuntu:4.15"),
    ):
        model = replace(reproducing(0.95), name=name, source=Source(report))
        runs.append(replace(measured(model, "6.1", 95), spec=spec))
    text = page(runs, "blklab check pages")
    assert [line[3] for line in text.splitlines() if line.startswith("## ")] == ["c", "a", "b"]
    assert "6.1.1-amd64 (1 seed)." in text
    assert "6.1.1-amd64 (1 seed, built from a tree)." in text
    assert "6.1.1-amd64 (1 seed, ubuntu:4.15)." in text
    assert "/srv" not in text


def test_a_series_without_a_package_is_shown_as_it_was_built(tmp_path: Path) -> None:
    model = scenario([claim()], [], ["none", "red"])
    for spec in ("tree:linux@v4.19", "debian:6.1", "source:6.1"):
        run = new_run(tmp_path, model, spec=spec)
        boot_all(run, {"none": 90.0, "red": 10.0})
        run.finish(judge_run(run), elapsed=1.0)
        (shown,) = of_every_series(Store(tmp_path), model)
        assert shown.spec == ("tree:linux@v4.19" if spec.startswith("tree:") else "debian:6.1")
