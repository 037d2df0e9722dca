# SPDX-License-Identifier: GPL-2.0-only
"""What a boot that could not be set up says of its cell."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.record.judging import judge_run
from harness.record.store import RunFolder, save_boot
from harness.scenario.model import Arm, Scenario, Status
from lab.base.record import Outcome
from tests.unit.analysis_samples import claim, null_topology, scenario
from tests.unit.store_samples import KERNEL, files, new_run, record

GONE = "step 9: queue.iosched/prio_aging_expire[l0]: nothing matches /sys/block/nullb0/queue/iosched/prio_aging_expire"


def model() -> Scenario:
    plain = scenario([claim()])
    return replace(plain, arms={"none": Arm("none", null_topology(), {"scheduler": "mq-deadline"}, {})})


def booted(folder: Path, unfit: str) -> RunFolder:
    run = new_run(folder, model(), seeds=1)
    (cell,) = run.facts.cells
    boot = record(run.fresh_boot_folder(cell), files(), Outcome.UNFIT)
    save_boot(replace(boot, detail=unfit))
    return run


def test_an_attribute_that_the_elevator_lacks_is_skipped_by_its_name_and_the_kernel_s(tmp_path: Path) -> None:
    verdict = judge_run(booted(tmp_path, GONE))
    assert (verdict.status, verdict.exit_code) == (Status.SKIP, 125)
    assert verdict.cells[0].reasons == (f"mq-deadline of {KERNEL.release} has no attribute prio_aging_expire",)


def test_an_interrupt_that_the_kernel_routes_itself_is_skipped(tmp_path: Path) -> None:
    verdict = judge_run(booted(tmp_path, "step 7: hba.interrupts[nvme0]: the kernel routes interrupt 25 itself"))
    assert (verdict.status, verdict.exit_code) == (Status.SKIP, 125)
    assert verdict.cells[0].reasons == (f"{KERNEL.release} routes interrupt 25 of nvme0 itself",)


@pytest.mark.parametrize("unfit", [GONE.replace("nothing matches", "the kernel refused 1 in"), "step 1: device l0: no"])
def test_what_else_a_guest_could_not_set_up_is_an_error(tmp_path: Path, unfit: str) -> None:
    assert judge_run(booted(tmp_path, unfit)).status is Status.ERROR
