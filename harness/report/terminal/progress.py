# SPDX-License-Identifier: GPL-2.0-only
"""Live progress of a run or a matrix: a moving display on a terminal, one line an event elsewhere."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from statistics import fmean

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from harness.report.format import STYLES, duration, plural
from harness.run import events
from harness.run.events import Event, MatrixEvent, MatrixListener
from harness.scenario.model import Status

Now = Callable[[], float]
"""A monotonic clock in seconds."""
_REFRESH = 4
_NEARLY = 0.9  # of its usual time has passed at most, while a boot runs


@contextmanager
def progress(console: Console, *, now: Now = time.monotonic) -> Iterator[MatrixListener]:
    """A listener that shows events on ``console`` until the context ends; threads may call it.

    On a terminal rich renders the tally at each refresh, so that seconds tick; only what ended has a line above it. One
    that cannot move its cursor (TERM=dumb) has lines alone, like a file.
    """
    lock, tally = threading.Lock(), Tally(now)
    renewed = console.is_terminal and not console.is_dumb_terminal
    live = Live(tally, console=console, refresh_per_second=_REFRESH, transient=True) if renewed else None

    def show(event: MatrixEvent) -> None:
        with lock:
            tally.take(event)
            line = tally.ended(event) or (None if live else tally.begun(event))
            if line is not None:
                console.print(line, soft_wrap=live is None)
            if live:
                live.refresh()

    with live or nullcontext():
        yield show


@dataclass
class RunningBoot:
    """``since`` is the clock at its start."""

    arm: str
    seed: int
    since: float
    phase: str = "boot"


@dataclass
class RunTally:
    """A run, alone or as a cell of a matrix. ``running`` by number; ``slower`` is what each boot that ended took over
    what is ``modelled`` for its arm, 1 s where that is not known."""

    scenario: str
    name: str
    boots: int
    modelled: Mapping[str, float] = field(default_factory=dict)
    running: dict[int, RunningBoot] = field(default_factory=dict)
    slower: list[float] = field(default_factory=list)

    def usual(self, arm: str = "") -> float:
        return self.modelled.get(arm) or fmean(self.modelled.values() or (1.0,))

    @property
    def to_make(self) -> int:
        """Boots that have not ended."""
        return max(0, self.boots - len(self.slower))

    def take(self, event: Event, now: float) -> None:
        match event:
            case events.RunStarted():
                self.boots = event.boots
                self.slower.clear()
            case events.CellStarted():
                self.running[event.number] = RunningBoot(event.arm, event.seed, now)
            case events.CellPhase():
                if event.number in self.running:
                    self.running[event.number].phase = event.phase
            case events.CellFinished():
                self.running.pop(event.number, None)
                self.slower.append(event.seconds / self.usual(event.arm))


@dataclass
class Tally:
    """A run or a matrix from its events; ``decided`` counts the cells of a matrix, None for a run."""

    now: Now
    runs: list[RunTally] = field(default_factory=list)
    at_once: int = 1
    decided: int | None = None

    def take(self, event: MatrixEvent) -> None:
        match event:
            case events.MatrixStarted():
                self.runs = [RunTally(name, f"{name} on {kernel}", *of) for name, kernel, of in event.cells]
                self.at_once, self.decided = event.at_once, 0
            case events.CellDecided():
                run = self.runs[event.cell]
                run.boots = len(run.slower)
                run.running.clear()
                self.decided = (self.decided or 0) + 1
            case events.RunStarted() if self.decided is None:
                # Boots of other runs may report here at the same time.
                running = self.runs[0].running if self.runs else {}
                name, seconds = f"{event.scenario} on {event.kernel}", event.seconds
                self.runs = [RunTally(event.scenario, name, event.boots, seconds, running)]
                self.at_once = event.at_once
            case _:
                self.runs[event.cell].take(event, self.now())

    @property
    def to_make(self) -> int:
        return sum(run.to_make for run in self.runs)

    def remaining(self) -> float | None:
        """Estimated seconds to the end, None before the first boot ended.

        A boot takes what is modelled for its arm times what those of its scenario (all where none of them ended) took
        over their models. One that takes longer is near its end.
        """
        taken: dict[str, list[float]] = {}
        for run in self.runs:
            taken.setdefault(run.scenario, []).extend(run.slower)
        every = [slower for boots in taken.values() for slower in boots]
        if not every:
            return None
        left = 0.0
        for run in self.runs:
            slower = fmean(taken[run.scenario] or every)
            left += slower * run.usual() * max(0, run.to_make - len(run.running))
            for boot in run.running.values():
                usual = slower * run.usual(boot.arm)
                left += usual - min(usual * _NEARLY, self.now() - boot.since)
        return max(0.0, left) / max(1, min(self.at_once, self.to_make))

    def left(self) -> str:
        """How much has ended, and when the rest will have."""
        if self.decided is None:
            text, over = f"{len(self.runs[0].slower)} of {self.runs[0].boots}", not self.to_make
        else:
            text, over = f"{self.decided} of {plural(len(self.runs), 'cell')}", self.decided == len(self.runs)
        remaining = self.remaining()
        return text if remaining is None or over else f"{text}, about {duration(remaining)} left"

    def begun(self, event: MatrixEvent) -> Text | None:
        """The line of what began, in a matrix also of a boot that went wrong."""
        match event:
            case events.RunStarted() if self.decided is None:
                boots = f"{plural(event.boots, 'boot')} of a guest, each an arm (a setting) under a seed"
                text = f"{self.runs[0].name}: {boots}; up to {event.at_once} at once"
            case events.CellStarted() if self.decided is None:
                text = f"  boot {event.number}/{self.runs[0].boots}  {event.arm} seed {event.seed}: started"
            case events.MatrixStarted():
                text = f"{plural(len(event.cells), 'cell')}, up to {plural(self.to_make, 'boot')}"
                text += f", {event.at_once} at once"
            case events.RunStarted():
                text = f"  {self.runs[event.cell].name}: {plural(event.boots, 'boot')}"
            case events.CellFinished() if event.status is not Status.PASS:
                line = Text(f"  {self.runs[event.cell].name}: ").append(str(event.status), STYLES[event.status])
                return line.append(f"  {event.arm} seed {event.seed}: {event.reason}")
            case _:
                return None
        return Text(text)

    def ended(self, event: MatrixEvent) -> Text | None:
        """The line of a boot of a run, or of a cell of a matrix, that ended."""
        match event:
            case events.CellFinished() if self.decided is None:
                line, name = Text(f"  boot {event.number}/{self.runs[0].boots}"), f"{event.arm} seed {event.seed}"
                took = duration(event.seconds)
            case events.CellDecided():
                line, name = Text(), self.runs[event.cell].name
                took = "as measured before" if event.before else duration(event.seconds)
            case _:
                return None
        line.append("  ").append(str(event.status), STYLES[event.status]).append(f"  {name}, {took}")
        return line.append(f": {event.reason}" if event.reason else "").append(f"  ({self.left()})")

    def __rich__(self) -> Table:
        table = Table.grid(padding=(0, 2))
        for run in self.runs:
            for number, boot in sorted(run.running.items()):
                name = f"boot {number}" if self.decided is None else run.name
                took = duration(self.now() - boot.since)
                table.add_row(f"  {name}", f"{boot.arm} seed {boot.seed}", Text(boot.phase, "cyan"), took)
        if self.runs:
            title = self.runs[0].name if self.decided is None else "matrix"
            table.add_row(Text(title, "bold"), self.left(), f"{plural(self.to_make, 'boot')} to go", "")
        return table
