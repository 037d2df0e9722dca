# SPDX-License-Identifier: GPL-2.0-only
"""The lab's job for a cell of a scenario."""

from collections.abc import Iterator

from harness.scenario.fio import job_file, start_phase
from harness.scenario.model import Arm, Cell, Load, Scenario
from lab.session import GuestLoad, Job


def cell_job(cell: Cell) -> Job:
    return guest_job(cell.scenario, cell.arm, cell.seed)


def guest_job(scenario: Scenario, arm: Arm, seed: int) -> Job:
    """The job of one arm and seed (counted from 1): its loads, alternately forwards and backwards over windows."""
    loads = tuple(
        GuestLoad(load.name, job_file(load, arm.topology, seed), load.runtime + load.ramp, load.ramp)
        for load in _in_order(scenario, seed)
    )
    labels = {"scenario": scenario.digest, "arm": arm.name, "seed": str(seed)}
    inject = scenario.selftest.inject if scenario.selftest else ""
    return Job(arm.queue, loads, scenario.pause, start_phase(scenario.name, seed), labels, inject)


def _in_order(scenario: Scenario, seed: int) -> Iterator[Load]:
    loads = [load.windows(scenario.windows) for load in scenario.loads.values()]
    for window in range(scenario.windows):
        # Odd seeds start forwards, even ones backwards, so that no load is always the first of a boot.
        backwards = scenario.windows > 1 and (seed + window) % 2 == 0
        yield from (windows[window] for windows in (reversed(loads) if backwards else loads))
