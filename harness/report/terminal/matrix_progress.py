# SPDX-License-Identifier: GPL-2.0-only
"""Live progress of a matrix: what runs, what is left, when it will end; one line a cell elsewhere."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.report.format import STYLES, duration, plural
from harness.report.terminal.live import Clock, LiveDisplay, listening
from harness.report.terminal.progress import BootState
from harness.run.events import (
    CellDecided,
    CellFinished,
    CellPhase,
    CellStarted,
    Event,
    MatrixEvent,
    MatrixListener,
    MatrixStarted,
    OfCell,
    RunStarted,
)
from harness.scenario.model import Status


@dataclass
class MatrixTally:
    """State of a matrix from its events. ``now`` is a monotonic clock in seconds."""

    now: Clock
    names: list[str] = field(default_factory=list)
    scenarios: list[str] = field(default_factory=list)
    boots: list[int] = field(default_factory=list)
    at_once: int = 1
    running: dict[tuple[int, int], BootState] = field(default_factory=dict)
    taken: dict[str, list[float]] = field(default_factory=dict)
    statuses: dict[int, Status] = field(default_factory=dict)

    def take(self, event: MatrixEvent) -> None:
        match event:
            case MatrixStarted():
                self.scenarios = [scenario for scenario, _, _ in event.cells]
                self.names = [f"{scenario} on {kernel}" for scenario, kernel, _ in event.cells]
                self.boots = [boots for _, _, boots in event.cells]
                self.at_once = max(1, event.at_once)
            case OfCell():
                self._take_of_run(event.cell, event.event)
            case CellDecided():
                self.statuses[event.cell] = event.status
                self.boots[event.cell] = 0
                for key in [key for key in self.running if key[0] == event.cell]:
                    del self.running[key]

    def _take_of_run(self, cell: int, event: Event) -> None:
        match event:
            case RunStarted():
                self.boots[cell] = event.boots
            case CellStarted():
                self.running[cell, event.number] = BootState(event.arm, event.seed, self.now())
            case CellPhase():
                if (cell, event.number) in self.running:
                    self.running[cell, event.number].phase = event.phase
            case CellFinished():
                self.running.pop((cell, event.number), None)
                self.boots[cell] = max(0, self.boots[cell] - 1)
                self.taken.setdefault(self.scenarios[cell], []).append(event.seconds)

    def remaining(self) -> float | None:
        """Estimated seconds to the end, None before the first boot ended.

        A boot takes what those of its scenario took, or of all where none of its own ended yet.
        """
        every = [seconds for boots in self.taken.values() for seconds in boots]
        if not every:
            return None
        usual = {name: sum(boots) / len(boots) for name, boots in self.taken.items()}
        overall, now = sum(every) / len(every), self.now()
        expected = [usual.get(scenario, overall) for scenario in self.scenarios]
        left = sum(count * seconds for count, seconds in zip(self.boots, expected, strict=True))
        begun = sum(min(expected[cell], now - boot.since) for (cell, _), boot in self.running.items())
        return max(0.0, left - begun) / max(1, min(self.at_once, sum(self.boots)))

    def left(self) -> str:
        """How many cells are decided, and when the rest will be."""
        text = f"{len(self.statuses)} of {plural(len(self.names), 'cell')}"
        remaining = self.remaining()
        if remaining is None or len(self.statuses) == len(self.names):
            return text
        ends = datetime.now() + timedelta(seconds=remaining)
        return f"{text}, about {duration(remaining)} left, until {ends:%H:%M}"


def _line(event: MatrixEvent, tally: MatrixTally) -> Text | None:
    match event:
        case MatrixStarted():
            boots = plural(sum(tally.boots), "boot")
            return Text(f"{plural(len(event.cells), 'cell')}, up to {boots}, {event.at_once} at once")
        case OfCell(event=RunStarted() as begun):
            return Text(f"  {tally.names[event.cell]}: {plural(begun.boots, 'boot')}")
        case OfCell(event=CellFinished() as ended) if ended.status is not Status.PASS:
            line = Text(f"  {tally.names[event.cell]}: ").append(str(ended.status), STYLES[ended.status])
            return line.append(f"  {ended.arm} seed {ended.seed}: {ended.reason}")
        case _:
            return _decided(event, tally)


def _picture(tally: MatrixTally) -> Table:
    table = Table.grid(padding=(0, 2))
    now = tally.now()
    for (cell, _), boot in sorted(tally.running.items()):
        where = f"{boot.arm} seed {boot.seed}"
        table.add_row(f"  {tally.names[cell]}", where, Text(boot.phase, "cyan"), duration(now - boot.since))
    table.add_row(Text("matrix", "bold"), tally.left(), f"{plural(sum(tally.boots), 'boot')} to go", "")
    return table


def _decided(event: MatrixEvent, tally: MatrixTally) -> Text | None:
    if not isinstance(event, CellDecided):
        return None
    line = Text("  ").append(f"{event.status}", STYLES[event.status])
    line.append(f"  {tally.names[event.cell]}, ")
    line.append("as measured before" if event.before else duration(event.seconds))
    if event.reason:
        line.append(f": {event.reason}")
    return line.append(f"  ({tally.left()})")


@contextmanager
def matrix_progress(console: Console, *, now: Clock = time.monotonic) -> Iterator[MatrixListener]:
    """A listener that shows a matrix on ``console`` until the context ends."""
    tally = MatrixTally(now)
    shown = LiveDisplay[MatrixEvent](
        tally.take,
        lambda event: _line(event, tally),
        lambda event: _decided(event, tally),
        lambda: _picture(tally),
    )
    with listening(console, shown) as listener:
        yield listener
