# SPDX-License-Identifier: GPL-2.0-only
"""``blklab track`` over the first two of six nights of linux-source-6.12: 20 commits, of which four change a figure.

The first night with changes is killed once its search has begun.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.track.state import Folder, Night
from lab.base.cache import Cache
from lab.base.errors import EXIT_FAIL, EXIT_PASS
from tests.vm.host import CHECKOUT
from tests.vm.marks import building
from tests.vm.track_history import NIGHTS, SCENARIOS, Written, unlike, write

pytestmark = building()
SEARCHING = "suspects left"
DEADLINE = 3600
TRIED = 2


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Written:
    return write(tmp_path_factory.mktemp("history") / "linux.git", Cache.default())


def start(history: Written, head: str, results: Path, log: Path) -> "subprocess.Popen[bytes]":
    subprocess.run(["git", "-C", str(history.folder), "update-ref", "refs/heads/main", head], check=True)
    command = [sys.executable, "-m", "harness", "track", *SCENARIOS, "--tree", str(history.folder), "--ref", "main"]
    with log.open("ab") as told:
        options = ["--seeds", "1", "--results", str(results)]
        return subprocess.Popen([*command, *options], cwd=CHECKOUT, env=dict(os.environ), stdout=told, stderr=told)


def state(results: Path) -> Folder:
    folder = Folder(results / "track")
    folder.load()
    return folder


def test_two_nights_name_the_commits_after_a_kill(history: Written, tmp_path: Path) -> None:
    log, results = tmp_path / "log", tmp_path / "results"
    assert start(history, history.base, results, log).wait(DEADLINE) == EXIT_PASS
    process, began = start(history, history.heads[0], results, log), time.monotonic()
    while SEARCHING not in log.read_text() and process.poll() is None and time.monotonic() - began < DEADLINE:
        time.sleep(1)
    process.kill()
    process.wait()
    assert not state(results).track.nights[-1].ended
    for head in history.heads[:TRIED]:
        assert start(history, head, results, log).wait(DEADLINE) == EXIT_FAIL
    track = state(results).track
    commits = {
        sha: change
        for night, of in zip(history.commits[:TRIED], NIGHTS, strict=False)
        for sha, change in zip(night, of, strict=True)
    }
    wanted = {sha: change.wanted for sha, change in commits.items() if change.wanted}
    assert {alarm.culprit for alarm in track.alarms} == wanted.keys()
    assert [said for alarm in track.alarms if (said := unlike(alarm, wanted[alarm.culprit]))] == []
    nights: tuple[Night, ...] = track.nights
    assert [night.commits for night in nights] == [0, 10, 10]
