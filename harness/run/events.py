# SPDX-License-Identifier: GPL-2.0-only
"""Progress events of runs and matrices. ``cell`` is the index of a run in MatrixStarted.cells, 0 of a run alone."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from harness.scenario.model import Status


@dataclass(frozen=True)
class RunStarted:
    """``boots`` remain to be made, ``at_once`` at a time; ``seconds`` of each arm's on an idle host at most."""

    scenario: str
    kernel: str
    boots: int
    at_once: int
    seconds: Mapping[str, float] = field(default_factory=dict)
    cell: int = 0


@dataclass(frozen=True)
class CellStarted:
    """A boot starts. ``number`` counts the boots of the run from 1 and identifies the boot in later events."""

    number: int
    arm: str
    seed: int
    cell: int = 0


@dataclass(frozen=True)
class CellPhase:
    """``phase`` is boot, setup, ``load NAME`` or send."""

    number: int
    phase: str
    cell: int = 0


@dataclass(frozen=True)
class CellFinished:
    """``seconds`` of host time; ``reason`` is set when ``status`` is not PASS."""

    number: int
    arm: str
    seed: int
    status: Status
    seconds: float
    reason: str = ""
    cell: int = 0


@dataclass(frozen=True)
class MatrixStarted:
    """``cells`` to decide: scenario, kernel, number of boots and ``seconds``, as of ``RunStarted``."""

    cells: tuple[tuple[str, str, tuple[int, Mapping[str, float]]], ...]
    at_once: int


@dataclass(frozen=True)
class CellDecided:
    """``before``: an earlier run was reused. ``seconds`` of host time."""

    cell: int
    status: Status
    seconds: float
    reason: str = ""
    before: bool = False


Event = RunStarted | CellStarted | CellPhase | CellFinished
MatrixEvent = Event | MatrixStarted | CellDecided


Listener = Callable[[Event], None]
"""Called from the thread that runs the boot: must be fast and thread-safe."""
MatrixListener = Callable[[MatrixEvent], None]


def nobody(event: Event) -> None:
    """A listener that ignores all events."""
