# SPDX-License-Identifier: GPL-2.0-only
"""`blklab bisect` over 66 commits of a real kernel source, in virtual time: killed in the middle, and left alone."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.bisect.notebook import STATE
from lab.base.cache import Cache
from lab.base.errors import EXIT_PASS
from lab.kernels import build, mutants, tree
from lab.kernels.resolve import resolve
from tests.vm.host import CHECKOUT
from tests.vm.kernel_history import History, make_history
from tests.vm.marks import building

pytestmark = building()
COUNT, CULPRIT = 66, 41
BROKEN = (20, 32, 33, 34)
"""The first commit that git asks for is among them."""
KILLED_AFTER = 5
"""Commits known when the bisection is killed: both ends, one that does not build, two steps."""


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    cache = Cache.default()
    kernel = resolve(tree.DEFAULT, cache)
    made_of = str(build.facts(kernel.image.parent / build.FACTS)["tree"])
    (source,) = {
        path.parent for path in (cache.root / "sources").glob("*/tree-id") if path.read_text().strip() == made_of
    }
    patch = mutants.mutation("no-fair-tags", kernel.version, mutants.catalogue()).patch
    folder = tmp_path_factory.mktemp("history") / "linux.git"
    return make_history(folder, source / "git/objects", made_of, patch, count=COUNT, culprit=CULPRIT, broken=BROKEN)


def command(history: History, results: Path) -> list[str]:
    ends = ["--tree", str(history.repository), "--good", history.commits[0], "--bad", "main"]
    return [sys.executable, "-m", "harness", "bisect", "fair-tags", *ends, "--seeds", "1", "--results", str(results)]


def observed(results: Path) -> Mapping[str, object]:
    states = list(results.glob(f"bisect/*/{STATE}"))
    return dict(json.loads(states[0].read_text())["observations"]) if states else {}


def start(history: History, results: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        command(history, results),
        cwd=CHECKOUT,
        env=dict(os.environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def assert_found(history: History, results: Path) -> str:
    process = start(history, results)
    said, _ = process.communicate()
    culprit = history.commits[CULPRIT]
    assert process.returncode == EXIT_PASS, said
    assert f'First bad commit: {culprit[:12]} ("change {CULPRIT}")' in said
    assert "Verified. Each verdict repeats exactly" in said
    (folder,) = results.glob("bisect/*")
    assert f"#regzbot introduced: {culprit}\n" in (folder / "mail.txt").read_text()
    return said


def test_the_culprit_is_found_after_a_kill_and_again_without(history: History, tmp_path: Path) -> None:
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    process = start(history, killed)
    while len(observed(killed)) < KILLED_AFTER and process.poll() is None:
        time.sleep(0.1)
    process.kill()
    process.communicate()
    before = observed(killed)
    said = " ".join(assert_found(history, killed).split())
    assert "#error change 32 does not build" in said
    after = observed(killed)
    assert {sha: after[sha] for sha in before} == before
    assert 2 + 6 <= len(after) <= 2 + 6 + len(BROKEN) + 2

    assert_found(history, whole)
    assert figures(observed(whole)) == figures(after), "in virtual time a kill changes no digit"


def figures(observations: Mapping[str, object]) -> Mapping[str, object]:
    return {sha: seen["claims"] for sha, seen in observations.items() if isinstance(seen, dict)}
