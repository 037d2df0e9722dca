# SPDX-License-Identifier: GPL-2.0-only
"""From a cell of a scenario to the lab's job."""

from harness.scenario.model import Arm, Cell, Scenario
from harness.workload.fio import job_file, start_phase
from lab.session import GuestLoad, Job


def cell_job(cell: Cell) -> Job:
    return guest_job(cell.scenario, cell.arm, cell.seed)


def guest_job(scenario: Scenario, arm: Arm, seed: int) -> Job:
    """The job of one arm under one seed (counted from 1)."""
    loads = tuple(
        GuestLoad(load.name, job_file(load, arm.topology, seed), load.runtime + load.ramp, load.ramp)
        for load in scenario.loads.values()
    )
    labels = {"scenario": scenario.digest, "arm": arm.name, "seed": str(seed)}
    inject = scenario.selftest.inject if scenario.selftest else ""
    return Job(arm.queue, loads, scenario.pause, start_phase(scenario.name, seed), labels, inject)
