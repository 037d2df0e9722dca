# SPDX-License-Identifier: GPL-2.0-only
"""``blklab bisect`` between packaged kernels: three made-up ones that are cached, without an archive."""

import shutil
from pathlib import Path

import pytest

from lab.base.cache import Cache
from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_MISUSE, EXIT_PASS
from lab.kernels import store
from lab.packages.apt import Package
from lab.packages.store import Pin, write_pin
from tests.process.fake_lab import CELLS, RELEASE, FakeLab
from tests.process.test_bisect_kills import Rig
from tests.unit.tree_samples import git

SERIES = ("6.1", "6.12", "6.16")
BAD = {"lopsided.victim": 10.0}


@pytest.fixture(autouse=True)
def _packaged(lab: FakeLab) -> None:
    cache = Cache(lab.folder / "cache")
    for series in SERIES:
        image = Package("trixie", f"linux-image-{series}-amd64", f"{series}.1-1", series)
        pin = Pin(f"debian-{series}", (image,))

        def fill(into: Path, series: str = series) -> None:
            unpacked = lab.folder / f"unpacked-{series}"
            shutil.copytree(lab.folder / "kernel", unpacked, symlinks=True)
            with (unpacked / "lib/modules" / RELEASE / "kernel/null_blk.ko").open("ab") as module:
                module.write(series.encode())
            store.keep(store.find_kernels(unpacked)[0], into, shutil.move)

        cache.entry(store.KIND, pin.digest, fill)
        write_pin(cache, pin)
    cache.close()


def bisect(lab: FakeLab, good: str, bad: str, *options: str) -> tuple[int, str, str]:
    ends = ["--good", good, "--bad", bad, "--results", str(lab.results)]
    done = lab.call("bisect", str(lab.scenario), *ends, *options)
    return done.returncode, done.stdout, done.stderr


def test_the_first_bad_release_is_found_without_a_tree(lab: FakeLab) -> None:
    lab.call(*lab.words("--kernel", "debian:6.16"), **lab.plan(iops=BAD))
    before = len(lab.boots())
    code, out, err = bisect(lab, "debian:6.1", "debian:6.16")
    assert code == EXIT_PASS, err
    assert "6.12 -> 6.16: 6.12 is the last good release, 6.16 the first bad one" in out
    assert "3 of 3 kernels measured" in out
    assert "distribution kernels: 0 options of their configurations differ too" in out
    assert "--tree DIR --good v6.12 --bad v6.16" in out
    assert len(lab.boots()) == before + 2 * CELLS
    again = bisect(lab, "debian:6.1", "debian:6.16")
    assert again[0] == EXIT_PASS
    assert len(lab.boots()) == before + 2 * CELLS


def test_the_good_end_may_be_the_newer_one(lab: FakeLab) -> None:
    lab.call(*lab.words("--kernel", "debian:6.1"), **lab.plan(iops=BAD))
    code, out, err = bisect(lab, "debian:6.16", "debian:6.1")
    assert code == EXIT_PASS, err
    assert "6.12 -> 6.1: 6.12 is the last good release, 6.1 the first bad one" in out


def test_ends_that_agree_and_requests_that_say_nothing(lab: FakeLab) -> None:
    code, _, err = bisect(lab, "debian:6.1", "debian:6.12")
    assert code == EXIT_CANNOT_JUDGE
    assert "no claim holds on the good end and fails on the bad one" in err
    assert bisect(lab, "debian:6.1", "v6.12")[0] == EXIT_MISUSE
    assert bisect(lab, "v6.1", "v6.12")[0] == EXIT_MISUSE
    assert bisect(lab, "debian:6.1", "debian:6.1.1-1")[0] == EXIT_MISUSE
    assert bisect(lab, "debian:6.1", "debian:trixie")[0] == EXIT_MISUSE
    assert bisect(lab, "debian:6.12", "debian:6.1", "--tree", str(lab.folder))[0] == EXIT_MISUSE
    assert bisect(lab, "debian:6.1", "debian:6.12", "--tree", str(lab.folder), "--figure", "a")[0] == EXIT_MISUSE
    assert bisect(lab, "v6.1", "v6.12", "--tree", str(lab.folder), "--figure", "a.b.c.iops")[0] == EXIT_MISUSE


def test_a_tree_without_the_tags_of_the_ends_is_refused_before_anything_boots(lab: FakeLab) -> None:
    ends = ("debian:6.1", "debian:6.12", "--tree")
    code, _, err = bisect(lab, *ends, str(lab.folder / "nowhere"))
    assert (code, "nowhere is no git repository" in err) == (EXIT_MISUSE, True), err
    tree = lab.folder / "tree"
    tree.mkdir()
    git(tree, "init", "--quiet")
    git(tree, "commit", "--quiet", "--allow-empty", "--message", "first")
    git(tree, "tag", "v6.1")
    code, _, err = bisect(lab, *ends, str(tree))
    assert (code, "has no commit v6.12" in err) == (EXIT_MISUSE, True), err
    assert not lab.boots()


def test_with_a_tree_it_goes_on_between_the_tags_of_the_two_releases(lab: FakeLab) -> None:
    lab.call(*lab.words("--kernel", "debian:6.16", "--seeds", "1"), **lab.plan(iops=BAD))
    rig = Rig(lab)
    history = rig.history
    for series, revision in zip(SERIES, (*history.commits[:30:29], "main"), strict=True):
        git(history.repository, "tag", f"v{series}", revision)
    code, out, err = bisect(
        lab, "debian:6.1", "debian:6.16", "--tree", str(history.repository), "--seeds", "1", "--jobs", "1"
    )
    assert code == EXIT_PASS, out + err
    assert "6.12 -> 6.16: 6.12 is the last good release, 6.16 the first bad one" in out
    assert f'First bad commit: {history.commits[history.culprit][:12]} ("change {history.culprit}")' in out
    assert "the configurations of" in err
    # The tree is searched between the tags of the neighbours only.
    assert all(sha in history.commits[29:] or sha not in history.commits for sha in rig.observed())
