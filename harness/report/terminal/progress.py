# SPDX-License-Identifier: GPL-2.0-only
"""Live progress: a moving display on a terminal, one line an event elsewhere."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.report.format import STYLES, duration, plural
from harness.report.terminal.live import Clock, LiveDisplay, listening
from harness.run.events import CellFinished, CellPhase, CellStarted, Event, Listener, RunFinished, RunStarted
from harness.scenario.model import Status


@dataclass
class BootState:
    """A boot that runs; ``since`` is the clock at its start."""

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
    running: dict[int, BootState] = field(default_factory=dict)
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
                self.running[event.number] = BootState(event.arm, event.seed, self.now())
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


def _line(event: Event, tally: Tally) -> Text | None:
    match event:
        case RunStarted():
            return Text(f"{tally.title}: {plural(event.boots, 'boot')}, up to {event.at_once} at once")
        case CellStarted():
            return Text(f"  boot {event.number}/{tally.boots}  {event.arm} seed {event.seed}: started")
        case _:
            return _ended(event, tally)


def _picture(tally: Tally) -> Table:
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


def _ended(event: Event, tally: Tally) -> Text | None:
    if not isinstance(event, CellFinished):
        return None
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
    shown = LiveDisplay[Event](
        tally.take,
        lambda event: _line(event, tally),
        lambda event: _ended(event, tally),
        lambda: _picture(tally),
    )
    with listening(console, shown) as listener:
        yield listener
