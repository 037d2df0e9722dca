# SPDX-License-Identifier: GPL-2.0-only
"""Turns of boots: as many as there are lanes, within the memory, in order, alone where asked."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.run.bench import Boots as RunBoots
from harness.run.bench import Lanes, Stopped
from lab.base.host import GUEST_OVERHEAD

GIB = 1 << 30


class Boots:
    """Boots that end when the test says so."""

    def __init__(self, lanes: Lanes) -> None:
        self.lanes = lanes
        self.running: dict[str, threading.Event] = {}
        self.began: list[str] = []
        self.pool = ThreadPoolExecutor(16)

    def start(self, name: str, memory: int = GIB, **how: int) -> "Future[None]":
        return self.pool.submit(self._boot, name, memory, **how)

    def _boot(self, name: str, memory: int, **how: int) -> None:
        end = threading.Event()
        with self.lanes.taken(memory, rank=how.get("rank", 0), alone=bool(how.get("alone")), abort=threading.Event()):
            self.running[name] = end
            self.began.append(name)
            end.wait(30)
            del self.running[name]

    def end(self, name: str) -> None:
        self.await_state(lambda: name in self.running)
        self.running[name].set()

    def await_state(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 30
        while not holds():
            assert time.monotonic() < deadline, (self.began, self.lanes)
            time.sleep(0.001)


@pytest.fixture
def boots() -> Boots:
    """Two lanes in memory for three guests of 1 GiB."""
    return Boots(Lanes(2, 3 * (GIB + GUEST_OVERHEAD)))


def waiting(boots: Boots, count: int) -> None:
    boots.await_state(lambda: len(boots.lanes._waiting) == count)


def test_the_lowest_rank_goes_first(boots: Boots) -> None:
    boots.start("a")
    boots.start("b")
    boots.await_state(lambda: len(boots.began) == 2)
    boots.start("late", rank=2)
    waiting(boots, 1)
    boots.start("early", rank=1)
    waiting(boots, 2)
    boots.end("a")
    boots.await_state(lambda: len(boots.began) == 3)
    assert boots.began[2] == "early"
    for name in ("early", "b", "late"):
        boots.end(name)
    boots.pool.shutdown()


def test_a_boot_that_does_not_fit_does_not_block_one_that_does(boots: Boots) -> None:
    boots.start("small")
    boots.await_state(lambda: boots.began == ["small"])
    boots.start("large", memory=3 * GIB)
    waiting(boots, 1)
    boots.start("other", rank=9)
    boots.await_state(lambda: boots.began == ["small", "other"])
    boots.end("small")
    boots.end("other")
    boots.await_state(lambda: boots.began[-1] == "large")
    boots.end("large")
    boots.pool.shutdown()


def test_a_boot_alone_excludes_all_others(boots: Boots) -> None:
    boots.start("a")
    boots.await_state(lambda: boots.began == ["a"])
    boots.start("wall", alone=True)
    waiting(boots, 1)
    boots.end("a")
    boots.await_state(lambda: boots.began == ["a", "wall"])
    boots.start("b")
    waiting(boots, 1)
    boots.end("wall")
    boots.await_state(lambda: boots.began == ["a", "wall", "b"])
    boots.end("b")
    boots.pool.shutdown()


def test_a_guest_larger_than_everything_runs_alone() -> None:
    with Lanes(4, GIB).taken(64 * GIB, abort=threading.Event()):
        pass


def test_after_stop_no_boot_begins_and_all_are_aborted() -> None:
    lanes, abort = Lanes(1, GIB), threading.Event()
    with lanes.taken(GIB, abort=abort), ThreadPoolExecutor(1) as pool:

        def boot() -> None:
            with lanes.taken(GIB, abort=threading.Event()):
                raise AssertionError("it began")

        future = pool.submit(boot)
        lanes.stop()
        assert abort.is_set()
        with pytest.raises(Stopped):
            future.result(30)
    with pytest.raises(Stopped), lanes.taken(GIB, abort=threading.Event()):
        pass


def test_a_run_that_gives_up_takes_those_that_wait_along() -> None:
    lanes, abort = Lanes(1, GIB), threading.Event()
    with lanes.taken(GIB, abort=threading.Event()), ThreadPoolExecutor(1) as pool:

        def boot() -> None:
            with lanes.taken(GIB, abort=abort):
                raise AssertionError("it began")

        future = pool.submit(boot)
        abort.set()
        lanes.nudge()
        with pytest.raises(Stopped):
            future.result(30)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 4), st.booleans()), min_size=1, max_size=12), st.integers(1, 3))
def test_no_order_of_boots_breaks_the_limits(wanted: list[tuple[int, bool]], at_once: int) -> None:
    lanes, lock = Lanes(at_once, 4 * (GIB + GUEST_OVERHEAD)), threading.Lock()
    now: list[tuple[int, bool]] = []
    wrong: list[list[tuple[int, bool]]] = []

    def boot(gibs: int, alone: bool) -> None:
        with lanes.taken(gibs * GIB, alone=alone, abort=threading.Event()):
            with lock:
                now.append((gibs, alone))
                used = sum(one * GIB + GUEST_OVERHEAD for one, _ in now)
                if len(now) > 1 and (len(now) > at_once or used > lanes.memory or any(one for _, one in now)):
                    wrong.append(list(now))
            with lock:
                now.remove((gibs, alone))

    with ThreadPoolExecutor(len(wanted)) as pool:
        for future in [pool.submit(boot, *one) for one in wanted]:
            future.result(30)
    assert wrong == []
    assert not lanes._running
    assert not lanes._waiting


def test_an_interrupt_while_boots_are_started_leaves_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that the pool does not know yet is waited for when Python ends, and nothing would wake it."""
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        if thread.name.startswith("boot"):
            raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    lanes = SimpleNamespace(nudge=lambda: None)
    run: Any = SimpleNamespace(abort=threading.Event(), made=0, turns=SimpleNamespace(lanes=lanes))
    run.at_once, run._boot = (lambda _: 1), (lambda *_: None)
    cells: Any = ["cell"]
    with pytest.raises(KeyboardInterrupt):
        RunBoots.make(run, cells)
    left = [thread for thread in threading.enumerate() if thread.name.startswith("boot")]
    for thread in left:
        thread.join(timeout=10)
    assert run.abort.is_set() and not any(thread.is_alive() for thread in left)
