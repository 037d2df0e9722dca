# SPDX-License-Identifier: GPL-2.0-only
"""The clock of a scenario, and what hangs on it: how often things are measured, and the rest between loads."""

from collections.abc import Mapping

from harness.scenario import schema
from harness.scenario.model import Arm, Clock, Load
from lab.base.units import show_time
from lab.yaml.fields import Row

_MILLISECOND = 10**6


def read_clock(row: Row, loads: Mapping[str, Load]) -> tuple[Clock, int, int]:
    """The clock, the boots of each arm (at most), and how often each boot measures every load."""
    clock = Clock(row.get_or(schema.CLOCK, Clock.VIRTUAL))
    seeds = row.get_or(schema.SEEDS, schema.DEFAULT_SEEDS)
    boots, windows = row.get_or(schema.BOOTS, schema.DEFAULT_BOOTS), row.get_or(schema.WINDOWS, schema.DEFAULT_WINDOWS)
    if clock is Clock.VIRTUAL:
        _refuse(row, schema.AGREES.name, "the scenario of the wall clock names its twin", "write it there")
        for field in (schema.BOOTS, schema.WINDOWS):
            _refuse(row, field.name, "under the virtual clock every boot repeats exactly", "seeds: 3, or clock: wall")
        return clock, seeds, 1
    _refuse(row, schema.SEEDS.name, "on the wall clock boots are repeated until a rule ends it", "boots: 12")
    for load in loads.values():
        if load.ramp < schema.SHORTEST_RAMP:
            place = row.place(schema.LOADS.name)
            row.problems.add(
                place, f"load {load.name}: on the wall clock a window needs a ramp of 1s or more", "ramp: 2s"
            )
    return clock, boots, windows


def read_pause(row: Row, arms: Mapping[str, Arm], *, measured: int) -> int:
    """The rest before each load. ``measured`` is how many windows follow each other in a boot."""
    pause = row.get_or(schema.PAUSE, schema.DEFAULT_PAUSE)
    # There are no arms where their topology did not load, and their request timeout is not known then.
    if measured > 1 and arms and pause <= (shortest := 2 * max(map(_request_timeout, arms.values()))):
        row.problems.add(
            row.place("pause"),
            f"pause: must be more than {show_time(shortest)}, twice the request timeout, or a load finds queues of the"
            " one before active",
            "idle time is free under the virtual clock; on the wall clock set queue: {io_timeout: 5000} (ms)",
        )
    return pause


def _request_timeout(arm: Arm) -> int:
    set_to = arm.queue.get("io_timeout")
    return schema.REQUEST_TIMEOUT if set_to is None else int(set_to) * _MILLISECOND


def _refuse(row: Row, key: str, reason: str, remedy: str) -> None:
    if key in row.node.entries:
        row.problems.add(row.place(key), f"{key}: {reason}", remedy)
