# SPDX-License-Identifier: GPL-2.0-only
"""Host time of a boot from bound and window, and the loads that dominate it."""

from dataclasses import replace
from statistics import fmean

import pytest

from harness.limits.cost import CPU_COSTS, LoadCost, boot_seconds, costs, cpu_seconds
from harness.report.terminal.scenario import cost_lines, describe_scenario
from harness.scenario.load import read_scenario
from harness.scenario.model import Scenario
from lab.topology.model import Driver, Stack, StackKind
from tests.unit.analysis_samples import MS, scenario

MODEL = scenario()
NULL = CPU_COSTS[Driver.NULL_BLK]
IO = (NULL.queued + 4 * NULL.kib) / 1e9
"""Seconds of the CPU for 4 KiB on null_blk, at most."""


def with_fast(service: int | None, **options: str) -> Scenario:
    """The sample scenario with another service time of the fast device, and options of its role."""
    arm = MODEL.arms["none"]
    disks = {**arm.topology.disks, "fast": replace(arm.topology.disks["fast"], service=service)}
    loads = {
        name: replace(load, roles={**load.roles, "fast": replace(load.roles["fast"], options=options)})
        for name, load in MODEL.loads.items()
    }
    return replace(
        MODEL, arms={"none": replace(arm, topology=replace(arm.topology, disks=disks))}, loads=loads, clock=MODEL.clock
    )


def test_a_device_that_bounds_its_load_leaves_the_cpu_idle() -> None:
    """64 requests of 4 ms are 16,000 a second."""
    solo, together = costs(MODEL)
    assert (solo.window, solo.iops) == (10, 16_000)
    assert solo.busy == pytest.approx(16_000 * IO)
    assert solo.seconds == pytest.approx(10 * (solo.busy * 15 + (1 - solo.busy) * 0.1))
    # Half of the tags each: 8,000 and 80 a second.
    assert together.busy == pytest.approx(8080 * IO)
    assert solo.shorter is None
    assert boot_seconds(MODEL) == pytest.approx(3 + solo.seconds + together.seconds)


def test_a_load_that_the_cpu_bounds_takes_tens_of_host_seconds_and_needs_100_ms() -> None:
    solo = costs(with_fast(4000))[0]
    assert (solo.busy, solo.seconds) == (1, 150)
    assert solo.iops == pytest.approx(1 / IO)
    assert solo.shorter is not None
    # A ramp of 100 ms, a window of 100 ms.
    assert solo.shorter.seconds == pytest.approx(0.2 * 15)
    longest, shorter = [*cost_lines(with_fast(4000))][:2]
    solo_words = "solo 2 min 30 s (arm none: 10 s in the guest, CPU busy for 100 % of them)"
    assert longest.startswith(f"longest loads, host time in a boot at most: {solo_words}")
    assert shorter == f"solo with runtime: 100ms takes 3.0 s and has at least {0.1 / IO:,.0f} I/Os"


def test_steps_before_a_load_take_the_cpu_by_their_requests() -> None:
    """6,400 requests of 4 KiB on one device and as many on two."""
    solo = next(iter(MODEL.loads.values()))
    step = replace(solo.roles["fast"], options={"size": str(6400 * 4096)})
    both = replace(solo, prepare=(step,), warm=(replace(step, disks=("fast", "slow")),))
    plain, cost = (costs(replace(MODEL, loads={"solo": load}))[0] for load in (solo, both))
    assert cost.seconds - plain.seconds == pytest.approx(3 * 6400 * IO * 15)


def test_a_short_window_is_not_made_shorter() -> None:
    model = with_fast(4000)

    def shorter(runtime: float) -> LoadCost | None:
        loads = {name: replace(load, ramp=20 * MS, runtime=round(runtime * MS)) for name, load in model.loads.items()}
        return costs(replace(model, loads=loads))[0].shorter

    assert shorter(100) is None
    longer = shorter(110)
    assert longer is not None and longer.window == pytest.approx(0.12)


@pytest.mark.parametrize(("busy", "proposed"), [(0.96, True), (0.94, False)])
def test_a_cpu_that_is_busy_for_95_percent_works_throughout(busy: float, proposed: bool) -> None:
    """64 tags, each for the service time."""
    assert (costs(with_fast(round(64e9 * IO / busy)))[0].shorter is not None) is proposed


@pytest.mark.parametrize("driver", CPU_COSTS)
def test_an_io_costs_what_its_driver_needs_for_its_size_and_its_pieces(driver: Driver) -> None:
    row, arm, load = CPU_COSTS[driver], MODEL.arms["none"], MODEL.loads["solo"]
    hbas = {name: replace(hba, driver=driver) for name, hba in arm.topology.hbas.items()}
    topology = replace(arm.topology, hbas=hbas)
    large = replace(load.roles["fast"], bs=256 << 10)
    assert cpu_seconds(topology, large) == pytest.approx((row.queued + 256 * row.kib) / 1e9)
    assert cpu_seconds(topology, replace(large, iodepth=1)) == pytest.approx((row.alone + 256 * row.kib) / 1e9)
    stripe = Stack("s", StackKind.STRIPE, ("fast", "slow"), 64 << 10)
    striped = replace(topology, stacks={"s": stripe})
    assert cpu_seconds(striped, replace(large, disks=("s",))) == pytest.approx((4 * row.queued + 256 * row.kib) / 1e9)


@pytest.mark.parametrize("options", [{"thinktime": "1000"}, {"rate_iops": "1000"}, {"rate": "4096000"}])
def test_a_role_that_paces_itself_does_no_more(options: dict[str, str]) -> None:
    assert costs(with_fast(4000, **options))[0].iops == pytest.approx(1000)


def test_what_nothing_bounds_may_take_all_of_the_window() -> None:
    model = read_scenario("fs-requests")
    cost = costs(model)[0]
    assert (cost.busy, cost.bounded) == (1, False)
    assert "0.5 s in the guest, CPU busy perhaps throughout: nothing bounds it" in next(cost_lines(model))


def test_arms_that_are_left_out_take_no_time_and_neither_does_the_wall_clock() -> None:
    model = read_scenario("null-shared-tags")
    assert {cost.arm for cost in costs(model, ("half",))} == {"half"}
    assert boot_seconds(model, ("half",)) < boot_seconds(model)
    assert boot_seconds(model) == pytest.approx(fmean(boot_seconds(model, (arm,)) for arm in model.arms))
    wall = replace(read_scenario("wall/nvme-63-tags"), windows=3)
    assert costs(wall) == () == tuple(cost_lines(wall))
    windows = sum(load.ramp + load.runtime for load in wall.loads.values()) * wall.windows / 1e9
    assert boot_seconds(wall) == 3 + windows


def test_show_has_the_host_time_of_each_load() -> None:
    text = describe_scenario(read_scenario("plug-order"))
    assert "\n  write (1 s; host <= 15 s, 100ms would be 1.5 s): writer write" in text
