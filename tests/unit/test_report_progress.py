# SPDX-License-Identifier: GPL-2.0-only
"""Live progress from events, with a clock that the test holds."""

import io
import threading

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from harness.report.terminal.progress import Tally, progress
from harness.run.events import CellFinished, CellPhase, CellStarted, Event, RunStarted
from harness.scenario.model import Status


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def events(boots: int, seconds: float = 10.0) -> list[Event]:
    run: list[Event] = [RunStarted("shared-queue", "6.1.0-18-amd64", boots, 2)]
    for number in range(1, boots + 1):
        run.append(CellStarted(number, "limited", number))
        run += [CellPhase(number, phase) for phase in ("boot", "setup", "load solo", "send")]
        run.append(CellFinished(number, "limited", number, Status.PASS, seconds))
    return run


def test_a_log_gets_plain_lines_with_why_a_boot_went_wrong() -> None:
    out = io.StringIO()
    with progress(Console(file=out, width=80)) as listen:
        for event in events(2):
            listen(event)
    assert out.getvalue().splitlines() == [
        "shared-queue on 6.1.0-18-amd64: 2 boots, up to 2 at once",
        "  boot 1/2  limited seed 1: started",
        "  boot 1/2  PASS  limited seed 1, 10 s  (1 of 2, about 10 s left)",
        "  boot 2/2  limited seed 2: started",
        "  boot 2/2  PASS  limited seed 2, 10 s  (2 of 2)",
    ]
    out = io.StringIO()
    reason = "the guest could not be set up as asked: queue.scheduler: asked for bfq, read [none] " * 2
    with progress(Console(file=out, width=40)) as listen:
        listen(RunStarted("s", "6.1", 1, 1))
        listen(CellFinished(1, "bfq", 1, Status.ERROR, 3.0, reason.strip()))
    assert f"ERROR  bfq seed 1, 3.0 s: {reason.strip()}" in out.getvalue().splitlines()[1]


def test_a_terminal_shows_the_phase_of_each_running_boot_and_leaves_the_finished() -> None:
    out = io.StringIO()
    console = Console(file=out, width=100, force_terminal=True, color_system=None)
    with progress(console, now=Clock()) as listen:
        for event in events(1)[:4]:
            listen(event)
        assert "load solo" not in out.getvalue()
        listen(CellPhase(1, "load solo"))
        assert "load solo" in out.getvalue()
        listen(CellFinished(1, "limited", 1, Status.PASS, 9.5))
    assert "boot 1/1  PASS  limited seed 1, 9.5 s" in out.getvalue()


def test_the_rest_is_estimated_from_what_boots_took() -> None:
    clock = Clock()
    tally = Tally(clock)
    tally.take(RunStarted("s", "6.1", 6, 2))
    tally.take(CellStarted(1, "a", 1))
    assert tally.remaining() is None
    clock.seconds = 10.0
    tally.take(CellFinished(1, "a", 1, Status.PASS, 10.0))
    assert tally.remaining() == 25.0
    tally.take(CellStarted(2, "a", 2))
    clock.seconds = 14.0
    assert tally.remaining() == (6.0 + 4 * 10.0) / 2
    clock.seconds = 100.0
    assert tally.remaining() == 20.0


@given(st.integers(1, 30), st.floats(0.1, 1000))
def test_nothing_remains_when_all_is_done(boots: int, seconds: float) -> None:
    tally = Tally(Clock())
    for event in events(boots, seconds):
        tally.take(event)
    assert len(tally.runs[0].seconds) == boots
    assert tally.remaining() == 0
    assert not tally.runs[0].running


def test_boots_may_report_from_several_threads() -> None:
    out = io.StringIO()
    with progress(Console(file=out, width=80)) as listen:
        listen(RunStarted("s", "6.1", 40, 8))

        def boot(first: int) -> None:
            for number in range(first, first + 5):
                listen(CellStarted(number, "a", number))
                listen(CellFinished(number, "a", number, Status.PASS, 1.0))

        threads = [threading.Thread(target=boot, args=(1 + 5 * n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    lines = out.getvalue().splitlines()
    assert len(lines) == 81
    assert lines[-1].endswith("(40 of 40)")
