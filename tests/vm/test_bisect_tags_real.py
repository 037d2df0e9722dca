# SPDX-License-Identifier: GPL-2.0-only
"""Bisections on real kernels: between the tags of two packages, and the mail of one of cost."""

import re
from pathlib import Path

import pytest

from lab.base.cache import Cache
from lab.base.errors import EXIT_PASS
from lab.base.units import silent
from lab.kernels import tree
from tests.unit.tree_samples import git
from tests.vm.host import CHECKOUT, blklab
from tests.vm.kernel_history import make_history
from tests.vm.kernel_patches import write_mutant
from tests.vm.marks import building
from tests.vm.null_reads import write_reads

pytestmark = building()
SCENARIO = """\
scenario: plug-cost
title: A read behind mq-deadline costs more than 14,500 instructions
clock: virtual
schema: 1
topology: io-cost-null-blk
queue: {scheduler: mq-deadline}
seeds: 1
window: {ramp: 20ms, runtime: 50ms}
arms:
  mq-deadline: {queue.scheduler: mq-deadline}
loads:
  libaio:
    io: {disk: dev, rw: randread, bs: 4k, iodepth: 32}
claims:
  - that: a read behind mq-deadline costs at most 14,500 instructions
    ratio: mq-deadline.libaio.io.cpu.per_io / 14500
    expect: "<= 1"
controls:
  - that: a read costs more than 1,450 instructions
    ratio: mq-deadline.libaio.io.cpu.per_io / 14500
    expect: "<= 0.1"
"""
PLUG = CHECKOUT / "docs/results/timeline/linux-7.2-with-plug.patch"
COUNT, CULPRIT = 5, 3


def test_the_commit_between_the_tags_of_two_packaged_series(tmp_path: Path) -> None:
    source = tree.source_of("7.2", Cache.default(), tell=silent)
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
    done = blklab("bisect", str(scenario), *ends, "--ahead", "0", "--results", str(tmp_path))
    assert done.returncode == EXIT_PASS, done.stdout + done.stderr
    said = " ".join(done.stdout.split())
    assert "7.1 -> 7.2: 7.1 is the last good release, 7.2 the first bad one" in said
    assert f'First bad commit: {history.commits[CULPRIT][:12]} ("change {CULPRIT}")' in said
    assert "Verified. Each verdict repeats exactly" in said
    assert f"the configurations of {history.commits[0][:12]} and {history.commits[-1][:12]} agree" in done.stderr


COMMITS, EXPENSIVE, ADDED = 4, 2, 20_000


def test_the_mail_names_the_function_that_the_culprit_makes_expensive(tmp_path: Path) -> None:
    source = tree.source_of("6.12", Cache.default(), tell=silent)
    name = write_mutant(tmp_path, source, "block/mq-deadline.c", "dd_insert_requests", ADDED)
    history = make_history(
        *(tmp_path / "linux.git", source.path / "objects", source.git_tree, tmp_path / f"{name}.patch"),
        count=COMMITS,
        culprit=EXPENSIVE,
        broken=(),
    )
    ends = ["--tree", str(history.repository), "--good", history.commits[0], "--bad", "main"]
    results = ("--results", str(tmp_path / "results"))
    done = blklab("bisect", str(write_reads(tmp_path)), *ends, "--seeds", "1", *results)
    assert done.returncode == EXIT_PASS, done.stdout + done.stderr
    (path,) = tmp_path.glob("results/bisect/*/mail.txt")
    mail = path.read_text()
    print(mail)
    assert f"#regzbot introduced: {history.commits[EXPENSIVE]}\n" in mail
    row = re.search(r"delta +instructions +calls +function\n +\+([\d,]+) .* (\w+)\n", mail)
    assert row is not None, mail
    assert row[2] == "dd_insert_requests"
    assert int(row[1].replace(",", "")) == pytest.approx(ADDED, rel=0.1)
    assert re.search(r"^ +0 +0 +\+0  unexplained$", mail, re.MULTILINE)
