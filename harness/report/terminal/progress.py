# SPDX-License-Identifier: GPL-2.0-only
"""Live progress: a moving display on a terminal, one line an event elsewhere."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from harness.report.format import STYLES, duration, plural
from harness.run.events import CellFinished, CellPhase, CellStarted, Event, Listener, RunFinished, RunStarted
from harness.scenario.model import Status

Clock = Callable[[], float]
_REFRESH = 4


@dataclass
class _Running:
    arm: str
    seed: int
    since: float
    phase: str = "boot"


@dataclass
class Tally:
    """State of a run from its events. ``now`` is a monotonic clock in seconds."""

    now: Clock
    title: str = ""
    boots: int = 0
    at_once: int = 1
    running: dict[int, _Running] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    finished: dict[Status, int] = field(default_factory=dict)
    started: float = 0.0

    def take(self, event: Event) -> None:
        match event:
            case RunStarted():
                self.title = f"{event.scenario} on {event.kernel}"
                self.boots, self.at_once, self.started = event.boots, max(1, event.at_once), self.now()
                self.seconds.clear()
                self.finished.clear()
            case CellStarted():
                self.running[event.number] = _Running(event.arm, event.seed, self.now())
            case CellPhase():
                if event.number in self.running:
                    self.running[event.number].phase = event.phase
            case CellFinished():
                self.running.pop(event.number, None)
                self.seconds.append(event.seconds)
                self.finished[event.status] = self.finished.get(event.status, 0) + 1
            case RunFinished():
                self.running.clear()

    @property
    def done(self) -> int:
        return len(self.seconds)

    def remaining(self) -> float | None:
        """Estimated seconds to the end: what boots took so far, shared among those at once. None before the first."""
        if not self.seconds:
            return None
        usual = sum(self.seconds) / len(self.seconds)
        now = self.now()
        begun = sum(max(0.0, usual - (now - boot.since)) for boot in self.running.values())
        waiting = max(0, self.boots - self.done - len(self.running))
        lanes = max(1, min(self.at_once, waiting + len(self.running)))
        return (begun + waiting * usual) / lanes


class _Lines:
    """For logs: what started, what ended, and how far the run is."""

    def __init__(self, console: Console, tally: Tally) -> None:
        self._console, self._tally, self._lock = console, tally, threading.Lock()

    def __call__(self, event: Event) -> None:
        with self._lock:
            self._tally.take(event)
            line = self._line(event)
            if line is not None:
                self._console.print(line, soft_wrap=True, highlight=False)

    def _line(self, event: Event) -> Text | None:
        match event:
            case RunStarted():
                return Text(f"{self._tally.title}: {plural(event.boots, 'boot')}, up to {event.at_once} at once")
            case CellStarted():
                return Text(f"  boot {event.number}/{self._tally.boots}  {event.arm} seed {event.seed}: started")
            case CellFinished():
                return _ended(event, self._tally)
            case _:
                return None


class _Display:
    """For terminals: finished boots scroll by above a table of those that run."""

    def __init__(self, console: Console, live: Live, tally: Tally) -> None:
        self._console, self._live, self._tally, self._lock = console, live, tally, threading.Lock()

    def __call__(self, event: Event) -> None:
        with self._lock:
            self._tally.take(event)
            if isinstance(event, CellFinished):
                self._console.print(_ended(event, self._tally), highlight=False)
            self._live.refresh()


class _Picture:
    """Renders the tally afresh each time the display refreshes, so that seconds tick."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    def __rich__(self) -> RenderableType:
        tally = self._tally
        table = Table.grid(padding=(0, 2))
        now = tally.now()
        for number, boot in sorted(tally.running.items()):
            elapsed = duration(now - boot.since)
            table.add_row(f"  boot {number}", f"{boot.arm} seed {boot.seed}", Text(boot.phase, "cyan"), elapsed)
        table.add_row(Text(tally.title, "bold"), f"{tally.done} of {tally.boots}", _left(tally), "")
        return table


def _left(tally: Tally) -> str:
    remaining = tally.remaining()
    return "" if remaining is None or tally.done >= tally.boots else f"about {duration(remaining)} left"


def _ended(event: CellFinished, tally: Tally) -> Text:
    line = Text(f"  boot {event.number}/{tally.boots}  ")
    line.append(f"{event.status}", STYLES[event.status])
    line.append(f"  {event.arm} seed {event.seed}, {duration(event.seconds)}")
    if event.reason:
        line.append(f": {event.reason}")
    left = _left(tally)
    return line.append(f"  ({tally.done} of {tally.boots}{', ' + left if left else ''})")


@contextmanager
def progress(console: Console, *, now: Clock = time.monotonic) -> Iterator[Listener]:
    """A listener that shows a run on ``console`` until the context ends."""
    tally = Tally(now)
    if not console.is_terminal:
        yield _Lines(console, tally)
        return
    with Live(_Picture(tally), console=console, refresh_per_second=_REFRESH, transient=True) as live:
        yield _Display(console, live, tally)
