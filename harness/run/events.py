# SPDX-License-Identifier: GPL-2.0-only
"""What a run tells those who watch it, as it happens."""

from dataclasses import dataclass
from typing import Protocol

from harness.scenario.model import Status


@dataclass(frozen=True)
class RunStarted:
    """``boots`` are still to be made, at most ``at_once`` side by side."""

    scenario: str
    kernel: str
    boots: int
    at_once: int


@dataclass(frozen=True)
class CellStarted:
    """A boot begins. ``number`` counts the boots of the run from 1; it names the boot in later events."""

    number: int
    arm: str
    seed: int


@dataclass(frozen=True)
class CellPhase:
    """``phase`` is boot, setup, ``load NAME`` or send."""

    number: int
    phase: str


@dataclass(frozen=True)
class CellFinished:
    """``seconds`` of host time; ``reason`` says why when ``status`` is not PASS."""

    number: int
    arm: str
    seed: int
    status: Status
    seconds: float
    reason: str = ""


@dataclass(frozen=True)
class RunFinished:
    status: Status
    seconds: float


@dataclass(frozen=True)
class MatrixStarted:
    """``cells`` are scenario, kernel and boots of each cell that is to be decided; ``at_once`` boots side by side."""

    cells: tuple[tuple[str, str, int], ...]
    at_once: int


@dataclass(frozen=True)
class OfCell:
    """An event of the run of cell ``cell``, which counts those of MatrixStarted from 0."""

    cell: int
    event: "Event"


@dataclass(frozen=True)
class CellDecided:
    """``before`` says that an earlier run was taken; ``seconds`` of host time."""

    cell: int
    status: Status
    seconds: float
    reason: str = ""
    before: bool = False


MatrixEvent = MatrixStarted | OfCell | CellDecided


Event = RunStarted | CellStarted | CellPhase | CellFinished | RunFinished


class Listener(Protocol):
    """Called from the thread that runs the boot: must be quick, and safe to call from several."""

    def __call__(self, event: Event) -> None: ...


class MatrixListener(Protocol):
    """As Listener, for a matrix."""

    def __call__(self, event: MatrixEvent) -> None: ...


def nobody(event: Event) -> None:
    """A listener for runs that nobody watches."""
