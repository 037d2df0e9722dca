# SPDX-License-Identifier: GPL-2.0-only
"""Live progress of a run or a matrix: a moving display on a terminal, one line an event elsewhere."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from harness.report.format import STYLES, duration, plural
from harness.run import events
from harness.scenario.model import Status

Now = Callable[[], float]
"""A monotonic clock in seconds."""
_REFRESH = 4


@contextmanager
def _listening(console: Console, tally: "Tally | MatrixTally") -> Iterator[Callable[[Any], None]]:
    """A listener that shows events on ``console`` until the context ends; threads may call it.

    On a terminal rich renders the tally at each refresh, so that seconds tick; only what ended has a line above it.
    """
    lock = threading.Lock()
    live = Live(tally, console=console, refresh_per_second=_REFRESH, transient=True) if console.is_terminal else None

    def show(event: Any) -> None:
        with lock:
            tally.take(event)
            line = tally.ended(event) or (None if live else tally.begun(event))
            if line is not None:
                console.print(line, soft_wrap=live is None, highlight=False)
            if live:
                live.refresh()

    if live is None:
        yield show
    else:
        with live:
            yield show


@dataclass
class BootState:
    """A boot that runs; ``since`` is the clock at its start."""

    arm: str
    seed: int
    since: float
    phase: str = "boot"

    def row(self, name: str, now: float) -> tuple[str, str, Text, str]:
        return f"  {name}", f"{self.arm} seed {self.seed}", Text(self.phase, "cyan"), duration(now - self.since)


@dataclass
class Tally:
    """A run from its events."""

    now: Now
    title: str = ""
    boots: int = 0
    at_once: int = 1
    running: dict[int, BootState] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)

    def take(self, event: events.Event) -> None:
        match event:
            case events.RunStarted():
                self.title = f"{event.scenario} on {event.kernel}"
                self.boots, self.at_once = event.boots, max(1, event.at_once)
                self.seconds.clear()
            case events.CellStarted():
                self.running[event.number] = BootState(event.arm, event.seed, self.now())
            case events.CellPhase():
                if event.number in self.running:
                    self.running[event.number].phase = event.phase
            case events.CellFinished():
                self.running.pop(event.number, None)
                self.seconds.append(event.seconds)

    @property
    def done(self) -> int:
        return len(self.seconds)

    @property
    def to_make(self) -> int:
        """Boots that have not ended."""
        return max(0, self.boots - self.done)

    def remaining(self) -> float | None:
        """Estimated seconds to the end: what boots took so far, shared among those at once. None before the first."""
        if not self.seconds:
            return None
        usual, now = fmean(self.seconds), self.now()
        begun = sum(max(0.0, usual - (now - boot.since)) for boot in self.running.values())
        waiting = max(0, self.to_make - len(self.running))
        lanes = max(1, min(self.at_once, waiting + len(self.running)))
        return (begun + waiting * usual) / lanes

    def begun(self, event: events.Event) -> Text | None:
        """The line of what began."""
        if isinstance(event, events.RunStarted):
            return Text(f"{self.title}: {plural(event.boots, 'boot')}, up to {event.at_once} at once")
        if isinstance(event, events.CellStarted):
            return Text(f"  boot {event.number}/{self.boots}  {event.arm} seed {event.seed}: started")
        return None

    def ended(self, event: events.Event) -> Text | None:
        if not isinstance(event, events.CellFinished):
            return None
        line = Text(f"  boot {event.number}/{self.boots}  ")
        line.append(f"{event.status}", STYLES[event.status])
        line.append(f"  {event.arm} seed {event.seed}, {duration(event.seconds)}")
        if event.reason:
            line.append(f": {event.reason}")
        left = self._left()
        return line.append(f"  ({self.done} of {self.boots}{', ' + left if left else ''})")

    def __rich__(self) -> Table:
        table = Table.grid(padding=(0, 2))
        now = self.now()
        for number, boot in sorted(self.running.items()):
            table.add_row(*boot.row(f"boot {number}", now))
        table.add_row(Text(self.title, "bold"), f"{self.done} of {self.boots}", self._left(), "")
        return table

    def _left(self) -> str:
        remaining = self.remaining()
        return "" if remaining is None or self.done >= self.boots else f"about {duration(remaining)} left"


@dataclass
class MatrixTally:
    """A matrix from its events."""

    now: Now
    names: list[str] = field(default_factory=list)
    scenarios: list[str] = field(default_factory=list)
    runs: list[Tally] = field(default_factory=list)
    at_once: int = 1
    statuses: dict[int, Status] = field(default_factory=dict)

    def take(self, event: events.MatrixEvent) -> None:
        match event:
            case events.MatrixStarted():
                self.scenarios = [scenario for scenario, _, _ in event.cells]
                self.names = [f"{scenario} on {kernel}" for scenario, kernel, _ in event.cells]
                self.runs = [Tally(self.now, boots=boots) for _, _, boots in event.cells]
                self.at_once = max(1, event.at_once)
            case events.OfCell():
                self.runs[event.cell].take(event.event)
            case events.CellDecided():
                run = self.runs[event.cell]
                self.statuses[event.cell] = event.status
                run.boots = run.done
                run.running.clear()

    @property
    def running(self) -> list[tuple[int, BootState]]:
        """The boots that run, each with the number of its cell."""
        return [(cell, boot) for cell, run in enumerate(self.runs) for _, boot in sorted(run.running.items())]

    def remaining(self) -> float | None:
        """Estimated seconds to the end, None before the first boot ended.

        A boot takes what those of its scenario took, or of all where none of its own ended yet.
        """
        taken: dict[str, list[float]] = {}
        for scenario, run in zip(self.scenarios, self.runs, strict=True):
            taken.setdefault(scenario, []).extend(run.seconds)
        every = [seconds for boots in taken.values() for seconds in boots]
        if not every:
            return None
        usual = {name: fmean(boots or every) for name, boots in taken.items()}
        expected, now = [usual[scenario] for scenario in self.scenarios], self.now()
        left = sum(run.to_make * seconds for run, seconds in zip(self.runs, expected, strict=True))
        begun = sum(min(expected[cell], now - boot.since) for cell, boot in self.running)
        return max(0.0, left - begun) / max(1, min(self.at_once, self.to_make))

    @property
    def to_make(self) -> int:
        return sum(run.to_make for run in self.runs)

    def left(self) -> str:
        """How many cells are decided, and when the rest will be."""
        text = f"{len(self.statuses)} of {plural(len(self.names), 'cell')}"
        remaining = self.remaining()
        if remaining is None or len(self.statuses) == len(self.names):
            return text
        ends = datetime.now() + timedelta(seconds=remaining)
        return f"{text}, about {duration(remaining)} left, until {ends:%H:%M}"

    def begun(self, event: events.MatrixEvent) -> Text | None:
        match event:
            case events.MatrixStarted():
                boots = plural(self.to_make, "boot")
                return Text(f"{plural(len(event.cells), 'cell')}, up to {boots}, {event.at_once} at once")
            case events.OfCell(event=events.RunStarted() as begun):
                return Text(f"  {self.names[event.cell]}: {plural(begun.boots, 'boot')}")
            case events.OfCell(event=events.CellFinished() as ended) if ended.status is not Status.PASS:
                line = Text(f"  {self.names[event.cell]}: ").append(str(ended.status), STYLES[ended.status])
                return line.append(f"  {ended.arm} seed {ended.seed}: {ended.reason}")
            case _:
                return None

    def ended(self, event: events.MatrixEvent) -> Text | None:
        if not isinstance(event, events.CellDecided):
            return None
        line = Text("  ").append(f"{event.status}", STYLES[event.status])
        line.append(f"  {self.names[event.cell]}, ")
        line.append("as measured before" if event.before else duration(event.seconds))
        if event.reason:
            line.append(f": {event.reason}")
        return line.append(f"  ({self.left()})")

    def __rich__(self) -> Table:
        table = Table.grid(padding=(0, 2))
        now = self.now()
        for cell, boot in self.running:
            table.add_row(*boot.row(self.names[cell], now))
        table.add_row(Text("matrix", "bold"), self.left(), f"{plural(self.to_make, 'boot')} to go", "")
        return table


def progress(console: Console, *, now: Now = time.monotonic) -> AbstractContextManager[events.Listener]:
    """A listener that shows a run on ``console`` until the context ends."""
    return _listening(console, Tally(now))


def matrix_progress(console: Console, *, now: Now = time.monotonic) -> AbstractContextManager[events.MatrixListener]:
    """The same for a matrix."""
    return _listening(console, MatrixTally(now))
