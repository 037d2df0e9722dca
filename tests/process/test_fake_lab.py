# SPDX-License-Identifier: GPL-2.0-only
"""How long the made-up lab waits, by a made-up clock: each look at the boots takes all of its patience."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.process import fake_lab
from tests.process.fake_lab import FakeLab

Waiting = Callable[[int], FakeLab]


@pytest.fixture
def waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Waiting]:
    """Makes a lab that boots so many times, once between two looks."""
    lab, now = FakeLab(tmp_path), [0.0]
    lab.started.append(subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], text=True))

    def booting(boots: int) -> FakeLab:
        def look(_: float) -> None:
            now[0] += lab.patience
            if len(lab.boots()) < boots:
                with lab.log.open("a") as log:
                    log.write('1 boot "x"\n')

        monkeypatch.setattr(fake_lab, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=look))
        return lab

    yield booting
    lab.stop()


def test_boots_that_go_on_are_waited_for_however_slow_they_are(waiting: Waiting) -> None:
    lab = waiting(10)
    lab.await_boots(10)
    assert len(lab.boots()) == 10


def test_boots_that_stop_coming_are_not(waiting: Waiting) -> None:
    with pytest.raises(AssertionError, match="3 boot expected"):
        waiting(2).await_boots(3)
