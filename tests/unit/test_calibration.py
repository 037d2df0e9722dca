# SPDX-License-Identifier: GPL-2.0-only
"""Device models against their closed forms, and the note on them in a report."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.base.checkout import SCENARIOS
from harness.judge.cells import Ensemble
from harness.judge.verdict import judge
from harness.limits.entries import load_scenario
from harness.record.judging import judge_run
from harness.record.store import Store
from harness.report.models import CALIBRATION, deviations, is_model, is_sound, note, sentence, table
from harness.scenario.load import find_scenarios
from harness.scenario.model import Bound
from tests.unit.analysis_samples import claim, control, ratio, scenario
from tests.unit.store_samples import boot_all, new_run

TOGETHER = ratio("none.together.fast.iops", "bound.none.together.fast.iops")
CALIBRATED = scenario([claim(Bound("0.95 .. 1.05", 0.95, 1.05), TOGETHER), claim()], [control()], ["none", "red"])


def test_a_model_is_shown_with_its_closed_form_and_error(tmp_path: Path) -> None:
    """32 of 64 tags, 4 ms each: 8,000 IOPS."""
    run = new_run(tmp_path, CALIBRATED, seeds=1)
    boot_all(run, {"none": 7199.0, "red": 5.0})
    verdict = judge_run(run)
    assert [*table([CALIBRATED], {(CALIBRATED.name, "6.1.0-18-amd64"): verdict})][2:] == [
        "| the share is kept | 8,000 | **7,200, -10.00 %** |"
    ]
    assert [*deviations(CALIBRATED, verdict)] == ["the share is kept: off by -10.00 %"]
    unmeasured = judge(CALIBRATED, [], seeds=(1,))
    verdicts = {(CALIBRATED.name, "6.1.0"): unmeasured, ("other", "5.10.0"): unmeasured}
    assert [*table([CALIBRATED], verdicts)][2:] == ["| the share is kept | 8,000 | - | **-** |"]
    (sentence_of_it,) = deviations(CALIBRATED, unmeasured)
    assert sentence_of_it.startswith("the share is kept: not measured: arm none")


@pytest.mark.parametrize(("share", "sound"), [(0.949, False), (0.951, True), (1.049, True), (1.051, False)])
def test_a_model_is_sound_within_five_per_cent_either_way(share: float, sound: bool) -> None:
    assert is_sound(Ensemble({1: share})) is sound
    assert not is_sound(None)


def test_a_report_names_models_that_are_off_or_were_not_measured() -> None:
    command = "blklab check calibration --kernel debian:6.1"
    matters = f"it matters: a closed form (bound.*) is in 2 claims ({command})"
    assert sentence({}, "debian:6.1", 2) == f"not calibrated on this kernel; {matters}"
    assert sentence({}, "debian:6.1", 0) == "not calibrated on this kernel; no claim here needs it (none has bound.*)"
    assert "within 1.0 % of their closed forms" in sentence({"quick": -0.01}, "debian:6.1", 0)
    text = sentence({"quick": 0.0, "slow": -0.07, "lost": "no module x"}, "debian:6.1", 1)
    assert 'the model "slow" is off by -7.0 %; the model "lost" could not be measured (no module x)' in text
    assert command in text


def test_a_run_finds_the_calibration_of_its_kernel_and_qemu(tmp_path: Path) -> None:
    run = new_run(tmp_path, CALIBRATED, seeds=1)
    boot_all(run, {"none": 8000.0, "red": 5.0})
    assert "is in 1 claim (" in note(tmp_path, run)
    apart = replace(run, scenario=load_scenario("shared-queue"))
    assert note(tmp_path, apart) == "not calibrated on this kernel; no claim here needs it (none has bound.*)"
    made = new_run(tmp_path / "calibration", CALIBRATED, seeds=1)
    boot_all(made, {"none": 7199.0, "red": 5.0})
    made.finish(judge_run(made), elapsed=1.0)
    assert 'the model "the share is kept" is off by -10.0 %' in note(tmp_path, run)
    assert note(tmp_path / "calibration", made) == "", "a calibration says nothing of itself"
    assert Store(tmp_path / "calibration").runs(CALIBRATED.name)
    for facts in (replace(run.facts, qemu="other"), replace(run.facts, kernel=replace(run.facts.kernel, digest="x"))):
        assert note(tmp_path, replace(run, facts=facts)).startswith("not calibrated on this kernel")


@pytest.mark.parametrize("path", [*find_scenarios(SCENARIOS / CALIBRATION).values()], ids=lambda path: path.stem)
def test_every_claim_of_a_calibration_is_a_model_or_that_no_block_is_bad(path: Path) -> None:
    for each in load_scenario(str(path)).claims:
        if is_model(each):
            assert each.ratio.right is not None and each.ratio.left.path == each.ratio.right.path
            assert (each.expect.low, each.expect.high) == (0.95, 1.05)
        else:
            assert (each.ratio.left.path[-1], each.ratio.right) == ("verify.bad", None)
