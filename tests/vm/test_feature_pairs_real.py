# SPDX-License-Identifier: GPL-2.0-only
"""Every pair of features that the loader accepts boots, or names what this kernel lacks; none ends in ERROR."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from harness.judge.cells import CellResult, result_of_boot
from harness.run.plan import Request, plan_run
from harness.scenario.model import Status
from lab.base.errors import CannotJudge
from lab.kernels.model import Kernel
from lab.observers import counted, executed, profiled
from lab.session import Lab, PreparedJob, prepare_job, run_job
from tests.feature_pairs import Pair, rows
from tests.features import Feature

pytestmark = [pytest.mark.network, pytest.mark.slow, pytest.mark.timeout(7200)]
Way = Callable[[Lab, Kernel, Pair], PreparedJob]


def plainly(lab: Lab, kernel: Kernel, row: Pair) -> PreparedJob:
    return counted(lab, prepare_job(lab, kernel, row.arm.topology, row.job))


def traced(lab: Lab, kernel: Kernel, row: Pair) -> PreparedJob:
    return counted(lab, prepare_job(lab, kernel, row.arm.topology, replace(row.job, trace=("block:*",))))


def profile(lab: Lab, kernel: Kernel, row: Pair) -> PreparedJob:
    prepared = prepare_job(lab, kernel, row.arm.topology, row.job)
    return profiled(lab, prepared, row.job)[0]


def functions(lab: Lab, kernel: Kernel, row: Pair) -> PreparedJob:
    prepared = prepare_job(lab, kernel, row.arm.topology, row.job)
    return plainly(lab, kernel, row) if prepared.topology.processors.observed else executed(lab, prepared)


WAYS: tuple[Way, ...] = (plainly, traced, profile, functions)


def boot(lab: Lab, kernel: Kernel, row: Pair, folder: Path, way: Way = plainly) -> CellResult:
    """What a run would say of the boot; SKIP with the reason where it is refused."""
    assert row.scenario is not None
    (cell,) = plan_run(lab, Request(row.scenario, kernel, seeds=1)).facts.cells
    if cell.skip:
        return CellResult(cell.arm, cell.seed, Status.SKIP, cell.skip)
    folder.mkdir(parents=True)
    try:
        record = run_job(lab, way(lab, kernel, row), folder)
    except CannotJudge as refused:
        return CellResult(cell.arm, cell.seed, Status.SKIP, (refused.message,))
    scenario = row.scenario
    return result_of_boot(row.arm, 1, record, scenario.loads.values(), scenario.windows, release=kernel.release)


def test_no_pair_of_features_ends_in_error(machine: tuple[Lab, Kernel], tmp_path: Path) -> None:
    lab, kernel = machine
    wrong = []

    def lacking(alone: Pair) -> bool:
        (feature, *_) = alone.chosen
        result = boot(lab, kernel, alone, tmp_path / f"alone-{feature}".replace(" ", "-"))
        print(f"{alone}: {result.status}: {'; '.join(result.reasons)}", flush=True)
        if result.status not in (Status.PASS, Status.SKIP):
            wrong.append(f"{alone}: {result.status}: {'; '.join(result.reasons)}")
        return result.status is not Status.PASS

    booted: Mapping[Way, set[Feature]] = {way: set() for way in WAYS}
    for number, row in enumerate(rows(lacking)):
        way = max(WAYS, key=lambda way: len(set(row.chosen) - booted[way]))
        result = boot(lab, kernel, row, tmp_path / f"row-{number}", way)
        # A profile needs one CPU that is not counted, and functions are noted in virtual time alone.
        if way in (profile, functions) and result.status is Status.SKIP:
            result, way = boot(lab, kernel, row, tmp_path / f"row-{number}-plainly"), plainly
        booted[way].update(row.chosen)
        print(f"{row} ({way.__name__}): {result.status}: {'; '.join(result.reasons)}", flush=True)
        if result.status is not Status.PASS:
            wrong.append(f"{row} ({way.__name__}): {result.status}: {'; '.join(result.reasons)}")
    assert not wrong
