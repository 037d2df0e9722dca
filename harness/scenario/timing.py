# SPDX-License-Identifier: GPL-2.0-only
"""What follows from the clock of a scenario, as facts: no other module asks which clock it is."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Clock(StrEnum):
    VIRTUAL = "virtual"
    WALL = "wall"


@dataclass(frozen=True)
class Timing:
    """How the boots of a scenario are made, compared and reported.

    ``exact``: boots with one fingerprint have the same results to the last digit; else figures scatter.
    ``counts_instructions``: time is counted in guest instructions, so the CPU's work is known and its idle time is
    skipped. ``alone``: a second boot on the host would be noise. ``by_rule``: ``boots_key`` is a maximum, rounds of
    arms (and of a BASE kernel) alternate in order, and the stopping rule ends them; else every boot is made.
    ``in_qemu``: devices are QEMU's controllers, which complete in host time.
    ``shortest_ramp`` is in ns. ``refuses`` maps keys of the scenario file to a reason and a remedy. ``says`` is what
    reports say of it.
    """

    exact: bool
    counts_instructions: bool
    alone: bool
    by_rule: bool
    in_qemu: bool
    boots_key: str
    says: str
    shortest_ramp: int = 0
    refuses: Mapping[str, tuple[str, str]] = field(default_factory=dict)


_REPEATS = ("the virtual clock repeats every boot exactly", "write seeds: 3, or clock: wall")

TIMINGS: Mapping[Clock, Timing] = {
    Clock.VIRTUAL: Timing(
        exact=True,
        counts_instructions=True,
        alone=False,
        by_rule=False,
        in_qemu=False,
        boots_key="seeds",
        says="virtual: time is counted in guest instructions, so repetitions agree to the last digit."
        " It sees queueing, tag fairness, merging, scheduling and code-path length; it cannot see"
        " lock and cache-line contention or true parallelism.",
        refuses={
            "agrees": ("only a scenario of the wall clock has it", "move it there"),
            "boots": _REPEATS,
            "windows": _REPEATS,
        },
    ),
    Clock.WALL: Timing(
        exact=False,
        counts_instructions=False,
        alone=True,
        by_rule=True,
        in_qemu=True,
        boots_key="boots",
        says="wall: host time, so figures scatter and verdicts rest on intervals over boots."
        " It cannot see small effects (docs/results/findings.md says how small).",
        # The first requests run code that QEMU has not translated yet.
        shortest_ramp=10**9,
        refuses={
            "seeds": ("the wall clock has boots, repeated until the stopping rule is met", "write boots: 12"),
        },
    ),
}
