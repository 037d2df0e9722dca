# SPDX-License-Identifier: GPL-2.0-only
"""`blklab bisect --good debian:7.1 --bad debian:7.2 --tree DIR`: from two packages to the commit between their tags."""

import subprocess
import sys
from pathlib import Path

import pytest

from lab.base import host
from lab.base.cache import Cache
from lab.base.errors import EXIT_PASS
from lab.base.units import silent
from lab.kernels import packaged
from tests.unit.tree_samples import git
from tests.vm.kernel_history import make_history

pytestmark = [
    pytest.mark.network,
    pytest.mark.vm,
    pytest.mark.slow,
    pytest.mark.timeout(2 * 3600),
    pytest.mark.skipif(bool(host.missing_needs(host.BUILD_NEEDS)), reason="needs scripts/host-packages --build"),
]
CHECKOUT = Path(__file__).parents[2]
SCENARIO = """\
scenario: plug-cost
title: An I/O behind mq-deadline costs more than 16,000 instructions
clock: virtual
schema: 1
topology: null-shared-tags
queue: {scheduler: mq-deadline}
seeds: 1
window: {ramp: 1s, runtime: 2s}
arms:
  mq-deadline: {queue.scheduler: mq-deadline}
loads:
  together:
    fast: {disk: fast, rw: randread, bs: 4k, iodepth: 64}
    slow: {disk: slow, rw: randread, bs: 4k, iodepth: 64}
claims:
  - that: an I/O behind mq-deadline costs at most 16,000 instructions
    ratio: mq-deadline.together.fast.cpu.per_io / 16000
    expect: "<= 1"
controls:
  - that: the slow device completes less than the fast one
    ratio: mq-deadline.together.slow.iops / mq-deadline.together.fast.iops
    expect: "<= 0.1"
"""
PLUG = CHECKOUT / "docs/results/timeline/linux-7.2-with-plug.patch"
COUNT, CULPRIT = 5, 3


def test_the_commit_between_the_tags_of_two_packaged_series(tmp_path: Path) -> None:
    source = packaged.source_of("7.2", Cache.default(), tell=silent)
    history = make_history(
        tmp_path / "linux.git",
        source.path / "objects",
        source.git_tree,
        PLUG,
        count=COUNT,
        culprit=CULPRIT,
        removed=True,
    )
    for tag, commit in (("v7.1", history.commits[0]), ("v7.2", history.commits[-1])):
        git(history.repository, "tag", tag, commit)
    scenario = tmp_path / "plug-cost.yaml"
    scenario.write_text(SCENARIO)
    ends = ["--good", "debian:7.1", "--bad", "debian:7.2", "--tree", str(history.repository)]
    done = subprocess.run(
        [sys.executable, "-m", "harness", "bisect", str(scenario), *ends, "--ahead", "0", "--results", str(tmp_path)],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == EXIT_PASS, done.stdout + done.stderr
    said = " ".join(done.stdout.split())
    assert "7.1 -> 7.2: 7.1 is the last good release, 7.2 the first bad one" in said
    assert f'First bad commit: {history.commits[CULPRIT][:12]} ("change {CULPRIT}")' in said
    assert "Verified. Each verdict repeats exactly" in said
    assert f"the configurations of {history.commits[0][:12]} and {history.commits[-1][:12]} agree" in done.stderr
