# SPDX-License-Identifier: GPL-2.0-only
"""Device models against their closed forms: what is kept of them and what later verdicts say."""

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from harness.commands.check.calibrate import worst_code
from harness.commands.common.options import SCENARIOS
from harness.record.judging import judge_run
from harness.record.store import RunFolder
from harness.scenario.load import find_scenarios, load_scenario
from harness.scenario.metric_names import BAD_BLOCKS
from harness.scenario.model import Bound, Scenario
from harness.studies.calibration import (
    Calibration,
    Model,
    find,
    keep,
    models_of,
    note,
    print_calibration,
    print_kernels,
    sentence,
)
from tests.unit.analysis_samples import claim, control, ratio, scenario
from tests.unit.store_samples import KERNEL, boot_all, new_run

TOGETHER = ratio("none.together.fast.iops", "bound.none.together.fast.iops")
WITHIN = Bound("0.95 .. 1.05", 0.95, 1.05)
SOUND = Model("null_blk is quick", "null_blk", 1000.0, 990.0, cost=13_100.0)
OFF = Model("scsi_debug is slow", "scsi_debug", 1000.0, 930.0)
UNMEASURED = Model("tcm_loop exists", "tcm_loop", 1000.0, None, "no module tcm_loop")
QEMU = "7.2.22 Debian 1:7.2 abcdef"


def calibration(*models: Model) -> Calibration:
    return Calibration(KERNEL.release, KERNEL.digest, QEMU, ("blklab", "calibrate"), models)


def model_scenario() -> Scenario:
    return scenario([claim(WITHIN, TOGETHER), claim()], [control()], ["none", "red"])


def run_with(tmp_path: Path, together: float) -> RunFolder:
    run = new_run(tmp_path / "results", model_scenario(), seeds=1)
    boot_all(run, {"none": together, "red": 5.0})
    return run


def test_models_are_the_claims_against_a_bound(tmp_path: Path) -> None:
    run = run_with(tmp_path, 7999.0)
    (model,) = models_of(run, judge_run(run))
    assert model.name == "the share is kept"
    assert model.driver == "null_blk"
    assert model.closed == pytest.approx(32 / 0.004)
    assert model.measured == pytest.approx(8000.0)
    assert model.error == pytest.approx(0.0)
    assert model.sound


@pytest.mark.parametrize(("measured", "sound"), [(949.0, False), (951.0, True), (1049.0, True), (1051.0, False)])
def test_a_model_is_sound_within_five_per_cent_either_way(measured: float, sound: bool) -> None:
    assert replace(SOUND, measured=measured).sound is sound


def test_a_record_is_found_for_its_kernel_and_its_qemu_alone(tmp_path: Path) -> None:
    kept = calibration(SOUND, UNMEASURED)
    keep(tmp_path, kept)
    assert find(tmp_path, KERNEL.digest, QEMU) == kept
    assert find(tmp_path, "another kernel", QEMU) is None
    assert find(tmp_path, KERNEL.digest, "another QEMU") is None


def test_a_newer_record_replaces_an_older_one(tmp_path: Path) -> None:
    path = keep(tmp_path, calibration(OFF))
    assert keep(tmp_path, calibration(SOUND)) == path
    assert find(tmp_path, KERNEL.digest, QEMU) == calibration(SOUND)


@pytest.mark.parametrize("text", ["", "{", '{"schema": 1}', '{"schema": 2}', "[]"])
def test_a_damaged_record_is_none(tmp_path: Path, text: str) -> None:
    keep(tmp_path, calibration(SOUND)).write_text(text)
    assert find(tmp_path, KERNEL.digest, QEMU) is None


def test_without_a_record_the_command_is_named() -> None:
    assert sentence(None, "debian:6.1", ["null_blk"]) == (
        "not calibrated on this kernel (blklab check calibrate --kernel debian:6.1)"
    )


def test_a_sound_kernel_is_said_to_be_so() -> None:
    assert "within 1.0 % of their closed forms" in sentence(calibration(SOUND, OFF), "debian:6.1", ["null_blk"])


def test_a_model_that_is_off_is_named_with_its_error_and_the_command() -> None:
    text = sentence(calibration(SOUND, OFF), "debian:6.1", ["scsi_debug"])
    assert 'the model "scsi_debug is slow" is off by -7.0 %' in text
    assert "blklab check calibrate --kernel debian:6.1" in text


def test_a_model_that_could_not_be_measured_is_named_with_its_reason() -> None:
    text = sentence(calibration(UNMEASURED), "debian:5.10", ["tcm_loop"])
    assert 'the model "tcm_loop exists" could not be measured (no module tcm_loop)' in text


def test_a_run_looks_up_its_own_kernel(tmp_path: Path) -> None:
    run = run_with(tmp_path, 8000.0)
    root = tmp_path / "results"
    assert note(root, run).startswith("not calibrated on this kernel")
    keep(root, replace(calibration(replace(SOUND, measured=900.0)), qemu=""))
    assert 'the model "null_blk is quick" is off by -10.0 %' in note(root, run)


def test_a_calibration_says_nothing_of_itself(tmp_path: Path) -> None:
    assert note(tmp_path / "calibration", run_with(tmp_path, 8000.0)) == ""


def test_the_tables_show_errors_and_reasons() -> None:
    out = io.StringIO()
    console = Console(file=out, width=120)
    print_calibration(console, calibration(SOUND, OFF, UNMEASURED))
    print_kernels(console, [calibration(SOUND), replace(calibration(OFF), release="5.10.0")])
    text = out.getvalue()
    assert "-1.00 %" in text and "13.1 us" in text and "990.0" in text
    assert "tcm_loop exists: not measured: no module tcm_loop" in text
    assert "off by more than 5 %, or not measured: scsi_debug is slow; tcm_loop exists" in text
    assert "5.10.0" in text


@pytest.mark.parametrize(
    ("codes", "code"), [([0, 0], 0), ([0, 1], 1), ([125, 0], 125), ([125, 1], 1), ([1, 128, 125], 128), ([], 0)]
)
def test_the_worst_code_wins(codes: list[int], code: int) -> None:
    assert worst_code(codes) == code


@pytest.mark.parametrize("name", find_scenarios(SCENARIOS / "calibration"))
def test_every_claim_of_a_calibration_is_a_figure_over_its_own_bound_or_that_no_block_is_bad(name: str) -> None:
    model = load_scenario(name, search=SCENARIOS / "calibration")
    for one in model.claims:
        if one.ratio.left.path[-1] == BAD_BLOCKS:
            assert (one.ratio.right, one.expect.text) == (None, "0 .. 0")
            continue
        assert one.ratio.right is not None
        assert (one.ratio.left.kind, one.ratio.right.kind) == ("figure", "bound")
        assert one.ratio.left.path == one.ratio.right.path
        assert one.expect == WITHIN
