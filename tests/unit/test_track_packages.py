# SPDX-License-Identifier: GPL-2.0-only
"""Packaged kernels, each new version against the one before."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.grid.lines import Trend
from harness.track.night import Packages, mentions
from harness.track.site import Site
from harness.track.state import Alarm, Folder
from lab.kernels.debian import changelog
from lab.kernels.model import Kernel, Release
from lab.kernels.tree import KernelSource
from tests.unit.track_samples import Effect, History, MadeUpTracker, made_up, patched_lab

OLD, NEW = (f"Debian bookworm, linux-image-6.1.0-{abi}-amd64 6.1.{minor}-1" for abi, minor in ((44, 164), (45, 170)))
CHANGELOG = """\
linux-signed-amd64 (6.1.170+1) bookworm; urgency=medium

  * Sign kernel from linux 6.1.170-1

  * New upstream stable update:
    - block: fix a tag that is lost
    - [arm64] dts: something else
    - null_blk: fix a wrong depth
    - net: not of the block layer
    - blk-mq: wake one waiter

linux-signed-amd64 (6.1.164+1) bookworm; urgency=medium

  * New upstream stable update:
    - block: of before
"""


@pytest.fixture
def tracked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MadeUpTracker:
    made = made_up(
        tmp_path, History(tmp_path / "linux"), {"starves": Effect(together=0.5), "slower": Effect(together=0.97)}
    )
    patched_lab(monkeypatch, made)
    return made


def night(
    tracked: MadeUpTracker, version: str, commit: str, *, stable: bool = False
) -> tuple[Folder, tuple[Alarm, ...]]:
    tracker = tracked.tracker()
    runs = tracker.runs
    source = KernelSource(tracked.history.folder, "debian:6.1", "", revision=commit)
    kernel = replace(tracked.bench.built(source, tell=tracked.told.append), build="")
    runs.holds(version, kernel)
    more = CHANGELOG, replace(tracker, line="debian:6.1") if stable else None
    done = Packages(runs, "debian:6.1", 1e9, lambda _: 1.0, *more).night(version)
    order = [each.head for each in runs.folder.track.nights]
    Site(runs.folder, tracked.root / "runs", str(tracked.history.folder) if stable else "", order).write(done)
    return runs.folder, runs.folder.track.of_night(done)


def test_a_new_version_is_compared_with_the_one_before(tracked: MadeUpTracker) -> None:
    first = tracked.history.git("rev-parse", "HEAD")
    assert night(tracked, OLD, first)[1] == ()
    second = tracked.history.commit("6.1.170", {"block/alpha/1.c": "effect starves", "block/beta/1.c": "effect slower"})
    folder, (alarm,) = night(tracked, NEW, second)
    assert (alarm.culprit, alarm.parent, alarm.trend, alarm.name) == (NEW, OLD, Trend.WORSE, NEW)
    # 3 % of beta are less than the 5 % between kernels of different configurations.
    assert alarm.scenarios == ("alpha",)
    assert [note for note in alarm.notes if note.startswith("changelog")] == [
        "changelog: block: fix a tag that is lost",
        "changelog: null_blk: fix a wrong depth",
        "changelog: blk-mq: wake one waiter",
    ]
    page = (tracked.root / "site/alarm-1.html").read_text()
    assert "blklab run alpha --kernel debian:6.1.164-1" in page and "regzbot" not in page
    # The same version again: nothing is measured.
    made = dict(tracked.bench.made)
    assert night(tracked, NEW, second)[1] == () and dict(tracked.bench.made) == made
    assert folder.track.last_night("debian:6.1") is not None


def releases(tracked: MadeUpTracker, *changes: dict[str, str]) -> tuple[str, str, list[str]]:
    """The commits of both tags, and those between them."""
    history = tracked.history
    first = history.git("rev-parse", "HEAD")
    history.git("tag", "v6.1.164")
    made = [history.commit(f"change {number}", files) for number, files in enumerate(changes)]
    history.git("tag", "v6.1.170")
    return first, made[-1], made


def test_the_commit_between_two_releases_is_named_where_a_tree_has_them(tracked: MadeUpTracker) -> None:
    harmless, culprit = {"drivers/net.c": "one"}, {"block/alpha/1.c": "effect starves"}
    old, new, made = releases(tracked, harmless, culprit, {"drivers/net.c": "two"})
    assert night(tracked, OLD, old, stable=True)[1] == ()
    folder, (package, commit) = night(tracked, NEW, new, stable=True)
    assert (package.culprit, package.number, package.scenarios) == (NEW, 1, ("alpha",))
    assert (commit.culprit, commit.parent, commit.number, commit.verified) == (made[1], made[0], 2, True)
    assert (commit.line, commit.moves[0].key) == ("debian:6.1", package.moves[0].key)
    page = (tracked.root / "site/alarm-2.html").read_text()
    assert f"blklab run alpha --kernel tree:{tracked.history.folder}@{made[1][:12]}" in page
    assert f"#regzbot introduced: {made[1]}" in page
    assert "regzbot" not in (tracked.root / "site/alarm-1.html").read_text()
    assert folder.track.nights[-1].builds == len({*tracked.bench.built_commits}) - 2  # the packages themselves


def test_what_does_not_move_between_the_tags_is_of_the_packages(tracked: MadeUpTracker) -> None:
    old, _, _ = releases(tracked, {"drivers/net.c": "one"}, {"drivers/net.c": "two"})
    patched = tracked.history.commit("a patch of the distribution", {"block/alpha/1.c": "effect starves"})
    night(tracked, OLD, old, stable=True)
    folder, (package,) = night(tracked, NEW, patched, stable=True)
    assert package.culprit == NEW
    assert [note.partition(":")[0] for note in folder.track.nights[-1].notes] == [
        "no change between v6.1.164 and v6.1.170 of the tree, both built alike"
    ]


def test_a_tree_without_the_releases_is_not_searched(tracked: MadeUpTracker) -> None:
    old = tracked.history.git("rev-parse", "HEAD")
    night(tracked, OLD, old, stable=True)
    new = tracked.history.commit("untagged", {"block/alpha/1.c": "effect starves"})
    folder, (package,) = night(tracked, NEW, new, stable=True)
    assert package.culprit == NEW
    (note,) = folder.track.nights[-1].notes
    assert note.startswith("no commit is searched for between v6.1.164 and v6.1.170: ") and "v6.1.164" in note[66:]


def test_a_run_that_is_gone_is_compared_with_nothing(tracked: MadeUpTracker) -> None:
    folder, _ = night(tracked, OLD, tracked.history.git("rev-parse", "HEAD"))
    for base in folder.track.bases["debian:6.1"].values():
        (tracked.root / "runs" / base.run / "run.json").unlink()
    second = tracked.history.commit("6.1.170", {"block/alpha/1.c": "effect starves"})
    folder, alarms = night(tracked, NEW, second)
    assert alarms == ()
    assert "alpha: the run of 6.1.164-1 is gone, so it is compared with nothing" in folder.track.nights[-1].notes


def test_lines_of_the_changelog_end_at_the_version_before() -> None:
    assert mentions(CHANGELOG, "6.1.170-1", ()) == []
    assert len(mentions(CHANGELOG, "6.1.100-1", ())) == 4
    assert "null_blk: fix a wrong depth" in mentions(CHANGELOG, "6.1.164-1", ("null_blk",))


def test_a_kernel_without_a_kept_changelog_has_none(tmp_path: Path) -> None:
    version = Release.parse("6.1.0")
    kernel = Kernel("debian:6.1", "6.1.0", version, OLD, tmp_path / "vmlinuz", None, tmp_path, {}, "k" * 64)
    assert changelog(kernel) == ""
