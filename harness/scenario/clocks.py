# SPDX-License-Identifier: GPL-2.0-only
"""The clock of a scenario, how often it measures, and the pause between loads."""

from collections.abc import Mapping

from harness.scenario import schema
from harness.scenario.model import Arm, Clock, Load
from lab.base.units import show_time
from lab.yaml.fields import Row

_MILLISECOND = 10**6


def read_clock(row: Row, loads: Mapping[str, Load]) -> tuple[Clock, int, int]:
    """The clock, the most boots of each arm, and how often each boot measures every load."""
    clock = Clock(row.value(schema.CLOCK))
    seeds = row.value(schema.SEEDS)
    boots, windows = row.value(schema.BOOTS), row.value(schema.WINDOWS)
    if clock is Clock.VIRTUAL:
        _refuse(row, schema.AGREES.name, "only a scenario of the wall clock has it", "move it there")
        for field in (schema.BOOTS, schema.WINDOWS):
            _refuse(row, field.name, "the virtual clock repeats every boot exactly", "write seeds: 3, or clock: wall")
        return clock, seeds, 1
    _refuse(
        row, schema.SEEDS.name, "the wall clock has boots, repeated until the stopping rule is met", "write boots: 12"
    )
    for load in loads.values():
        if load.ramp < schema.SHORTEST_RAMP:
            place = row.place(schema.LOADS.name)
            row.problems.add(place, f"load {load.name}: the wall clock needs a ramp of at least 1s", "write ramp: 2s")
    return clock, boots, windows


def read_pause(row: Row, arms: Mapping[str, Arm], *, measured: int) -> int:
    """The pause before each load. ``measured`` is the number of windows in a boot."""
    pause = row.value(schema.PAUSE)
    # Without arms their topology did not load, so the request timeout is unknown.
    if measured > 1 and arms and pause <= (shortest := 2 * max(map(_request_timeout, arms.values()))):
        row.problems.add(
            row.place("pause"),
            f"pause: expected more than {show_time(shortest)}, twice the request timeout: queues of the previous load"
            " would still count as active",
            "idle time is free on the virtual clock; on the wall clock write queue: {io_timeout: 5000} (ms)",
        )
    return pause


def _request_timeout(arm: Arm) -> int:
    set_to = arm.queue.get("io_timeout")
    return schema.REQUEST_TIMEOUT if set_to is None else int(set_to) * _MILLISECOND


def _refuse(row: Row, key: str, reason: str, remedy: str) -> None:
    if key in row.node.entries:
        row.problems.add(row.place(key), f"{key}: {reason}", remedy)
