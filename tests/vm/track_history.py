# SPDX-License-Identifier: GPL-2.0-only
"""A git history over linux-source-6.12 for ``blklab track``: 60 commits in six nights, with what must be reported.

45 are harmless, ten regressions of different kinds, three improvements, two undo an earlier regression.

python -m tests.vm.track_history FOLDER [RESULTS]    writes it, and prints the head of each night, and what
                                                     `blklab track --results RESULTS` reported
python -m tests.vm.track_history --harmless FOLDER   writes HARMLESS, of which nothing may be reported
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.grid.lines import Trend
from harness.track.state import Alarm, Folder, Track
from lab.base.cache import Cache
from lab.base.units import silent
from lab.kernels.mutants import MUTANTS
from lab.kernels.tree import source_of
from tests.vm.kernel_history import Git

SCENARIOS = (
    "fair-tags",
    "page-cache-writes",
    "elevator-submit",
    "tag-lines",
    "mirror-reads",
    "last-tag",
    "deadline-expire",
    "verified-data",
    "split-order",
    "iocost-weights",
)


@dataclass(frozen=True)
class Wanted:
    """What the alarm of a commit must say: its trend, and a claim, arm or figure of a scenario whose name ends so.

    ``ratio`` are bounds of a figure after the commit to the figure before it.
    """

    trend: Trend
    scenario: str
    moves: str
    ratio: tuple[float, float] | None = None


@dataclass(frozen=True)
class Change:
    """One commit: a ``mutant`` is applied or ``removed``, and in each file an old text replaced by a new one, which is
    added at the end where the old one is empty. ``side``: by a merge of a branch of one commit.
    """

    subject: str
    put: Mapping[str, tuple[str, str]]
    mutant: str = ""
    removed: bool = False
    side: bool = False
    wanted: Wanted | None = None


def _comment(file: str) -> Change:
    text = f"\n.. more on {file}\n" if file.endswith(".rst") else f"\n/* more on {file} */\n"
    return Change(f"{file}: a comment", {file: ("", text)})


def _unused(file: str, name: str, constant: int) -> Change:
    """A function that nothing calls, which moves all code behind it."""
    text = f"\nint {name}(int first, int second);\nint {name}(int first, int second)\n{{\n"
    text += f"\treturn first * {constant} + second / {constant};\n}}\nEXPORT_SYMBOL({name});\n"
    return Change(f"{file}: a function that nothing calls", {file: ("", text)})


def _table(file: str, name: str, size: int) -> Change:
    """Constants that nothing reads, which move all data behind them."""
    text = f"\nstatic const char {name}[{size}] __used = {{ 1 }};\n"
    return Change(f"{file}: a table that nothing reads", {file: ("", text)})


def _edit(subject: str, file: str, old: str, new: str, wanted: Wanted | None = None) -> Change:
    return Change(subject, {file: (old, new)}, wanted=wanted)


def _mutant(subject: str, name: str, wanted: Wanted) -> Change:
    return Change(subject, {}, mutant=name, wanted=wanted)


def _undone(subject: str, of: Change, wanted: Wanted | None = None) -> Change:
    put = {file: (new, old) for file, (old, new) in of.put.items()}
    return Change(subject, put, of.mutant, removed=bool(of.mutant) and not of.removed, wanted=wanted)


WORSE, BETTER = Trend.WORSE, Trend.BETTER
_LOCK, _ENDED = "static DEFINE_SPINLOCK({name});\n\n", "void bio_endio(struct bio *bio)\n{\nagain:\n"
_NOACCT = "void submit_bio_noacct(struct bio *bio)\n{\n\tstruct block_device *bdev = bio->bi_bdev;\n"
_NOACCT += "\tstruct request_queue *q = bdev_get_queue(bdev);\n\tblk_status_t status = BLK_STS_IOERR;\n\n"
_PRIORITY = "\tbio_set_ioprio(bio);\n\tsubmit_bio_noacct(bio);\n"
_ISSUE = "void blk_mq_start_request(struct request *rq)\n{\n\tstruct request_queue *q = rq->q;\n\n"
_CACHED = "\t/*\n\t * If the plug has a cached request for this queue, try to use it.\n"


def _locked(name: str) -> str:
    return f"\tspin_lock_irqsave(&{name}, flags);\n\tspin_unlock_irqrestore(&{name}, flags);\n"


_ENDED_LOCKED = (
    _LOCK.format(name="ended_lock")
    + _ENDED.replace("again:\n", "\tunsigned long flags;\n\n")
    + (_locked("ended_lock") + "again:\n")
)
_TURNS = "\t/* 75 turns of two instructions in each submission. */\n\tfor (int turn = 0; turn < 75; turn++)\n"
_TURNS += "\t\tbarrier();\n\n"

BASE = (
    Change("block: submit the rest of a split first", {}, mutant="split-order-kept"),
    Change("md: read from the first disk", {}, mutant="raid1-first-disk"),
    _edit("bio: a lock at the end of each I/O", "block/bio.c", _ENDED, _ENDED_LOCKED),
    _edit("block: turns in each submission", "block/blk-core.c", _PRIORITY, _TURNS + _PRIORITY),
)
"""What the first commit has; later ones remove it."""

# shared.lopsided: the victim keeps 0.997 of its IOPS by the fair share, a few per cent without it.
SHARE = _mutant(
    "blk-mq: share all tags",
    "no-fair-tags",
    Wanted(WORSE, "fair-tags", "shared.lopsided.victim.iops", (0.01, 0.15)),
)
# The queue that waits for the only tag is not run again.
STALL = _mutant("blk-mq: run the waiting queue once", "shared-tag-stall", Wanted(WORSE, "last-tag", "one-tag"))
_BROKEN = _edit("block: break the build", "block/blk-settings.c", "", "\n#error this does not build\n")
_TRIES = _edit(
    "block: count down to zero",
    "block/blk-merge.c",
    "\tint checked = 8;\n\n\tlist_for_each_entry_reverse(rq, list, queuelist) {\n\t\tif (!checked--)\n",
    "\tint tries = 8;\n\n\tlist_for_each_entry_reverse(rq, list, queuelist) {\n\t\tif (tries-- == 0)\n",
)

NIGHTS: tuple[tuple[Change, ...], ...] = (
    (
        _comment("block/bio.c"),
        _unused("lib/sort.c", "sort_unused", 3),
        SHARE,
        _comment("drivers/md/dm-linear.c"),
        _edit("kyber: half as many reads", "block/kyber-iosched.c", "[KYBER_READ] = 256,", "[KYBER_READ] = 128,"),
        _comment("Documentation/block/index.rst"),
        # All bios of a plug become requests of their own: 0.95 of them were merged, now none.
        _mutant(
            "block: merge nothing in the plug",
            "no-plug-merge",
            Wanted(WORSE, "page-cache-writes", "large.write.writer.disk.merges", (0.0, 0.01)),
        ),
        _TRIES,
        _comment("drivers/block/loop.c"),
        _table("block/badblocks.c", "badblocks_table", 192),
    ),
    (
        _comment("block/elevator.c"),
        _undone("Revert block: count down to zero", _TRIES),
        # A read takes about 9 locks, of which one is the base's: (9 + 1) / 9.
        _edit(
            "block: a lock for each bio",
            "block/blk-core.c",
            _NOACCT,
            _LOCK.format(name="submit_lock")
            + _NOACCT.removesuffix("\n")
            + "\tunsigned long flags;\n\n"
            + _locked("submit_lock"),
            Wanted(WORSE, "tag-lines", "many.four.guest.locks", (1.08, 1.14)),
        ),
        _BROKEN,
        _comment("drivers/nvme/host/core.c"),
        _undone("block: mend the build", _BROKEN),
        replace(_TRIES, subject="Revert Revert block: count down to zero"),
        # All random reads went to the first of two disks; now half of them do.
        Change(
            "md: read from both disks",
            {},
            mutant="raid1-first-disk",
            removed=True,
            wanted=Wanted(BETTER, "mirror-reads", "random reads use both disks"),
        ),
        _unused("block/ioctl.c", "ioctl_unused", 7),
        _comment("fs/ext4/super.c"),
    ),
    (
        _comment("block/ioctl.c"),
        Change("Merge a comment", {"block/genhd.c": ("", "\n/* on the side */\n")}, side=True),
        STALL,
        _edit(
            "raid1: name the mirror",
            "drivers/md/raid1.c",
            "\treturn conf->mirrors[disk].next_seq_sect == r1_bio->sector ||\n"
            "\t       conf->mirrors[disk].head_position == r1_bio->sector;\n",
            "\tconst struct raid1_info *mirror = &conf->mirrors[disk];\n\n"
            "\treturn mirror->next_seq_sect == r1_bio->sector ||\n"
            "\t       mirror->head_position == r1_bio->sector;\n",
        ),
        _comment("lib/sbitmap.c"),
        # A far read waits for its expiry and up to 30 ms: 505 to 530 ms before, 1,005 to 1,030 ms since.
        _edit(
            "mq-deadline: a read expires after a second",
            "block/mq-deadline.c",
            "static const int read_expire = HZ / 2;",
            "static const int read_expire = HZ;",
            Wanted(WORSE, "deadline-expire", "default.reads.far.clat.mean", (1.85, 2.1)),
        ),
        _table("lib/list_sort.c", "list_sort_table", 4160),
        _comment("block/bfq-iosched.c"),
        _comment("drivers/scsi/scsi_debug.c"),
        _unused("block/badblocks.c", "badblocks_unused", 11),
    ),
    (
        _comment("block/blk-mq.c"),
        # 4 instructions more of the few hundred of this function and of the 15,600 of a read (0.03 %).
        _edit(
            "blk-mq: wait a little",
            "block/blk-mq.c",
            _CACHED,
            '\tasm volatile("nop; nop; nop; nop");\n\n' + _CACHED,
            Wanted(WORSE, "elevator-submit", "blk_mq_submit_bio", (1.005, 1.05)),
        ),
        _comment("drivers/nvme/host/tcp.c"),
        _unused("lib/list_sort.c", "list_sort_unused", 5),
        _undone("Revert blk-mq: run the waiting queue once", STALL, Wanted(BETTER, "last-tag", "one-tag")),
        _comment("block/blk-merge.c"),
        _edit(
            "block: name the status",
            "block/blk-core.c",
            "\tint idx = (__force int)status;\n\n\tif (WARN_ON_ONCE(idx >= ARRAY_SIZE(blk_errors)))\n"
            "\t\treturn -EIO;\n\treturn blk_errors[idx].errno;\n",
            "\tint at = (__force int)status;\n\n\tif (WARN_ON_ONCE(at >= ARRAY_SIZE(blk_errors)))\n"
            "\t\treturn -EIO;\n\treturn blk_errors[at].errno;\n",
        ),
        # Each second row of chunks is written over the one before it.
        _mutant(
            "dm-stripe: two rows in one place",
            "stripe-overlap",
            Wanted(WORSE, "verified-data", "a stripe returns what was written"),
        ),
        _comment("drivers/md/raid5.c"),
        _comment("mm/readahead.c"),
    ),
    (
        _table("block/blk-lib.c", "lib_table", 640),
        # 1,500 of 2,000 reads by a weight of 300 of 400, 1,000 by equal weights.
        _mutant(
            "iocost: the default weight for all",
            "iocost-weights-ignored",
            Wanted(WORSE, "iocost-weights", "plain.weighted.heavy.iops", (0.62, 0.72)),
        ),
        _comment("block/blk-iocost.c"),
        # About 10 locks of a read before.
        _edit(
            "bio: no lock at the end of an I/O",
            "block/bio.c",
            _ENDED_LOCKED,
            _ENDED,
            Wanted(BETTER, "tag-lines", "many.four.guest.locks", (0.87, 0.93)),
        ),
        _comment("drivers/md/dm-stripe.c"),
        _edit(
            "elevator: fewer lines",
            "block/elevator.c",
            "\tif (!blk_rq_merge_ok(rq, bio))\n\t\treturn false;\n\n"
            "\tif (!elv_iosched_allow_bio_merge(rq, bio))\n\t\treturn false;\n\n\treturn true;\n",
            "\treturn blk_rq_merge_ok(rq, bio) && elv_iosched_allow_bio_merge(rq, bio);\n",
        ),
        _undone(
            "Revert blk-mq: share all tags",
            SHARE,
            Wanted(BETTER, "fair-tags", "shared.lopsided.victim.iops", (7, 100)),
        ),
        _comment("block/blk-throttle.c"),
        _unused("block/blk-lib.c", "lib_unused", 13),
        _comment("drivers/md/dm-snap.c"),
    ),
    (
        _comment("block/mq-deadline.c"),
        # A RAID5 of eight disks seeks for a quarter of the requests, and for nearly all where splits are mixed.
        Change(
            "block: submit the rest of a split last",
            {},
            mutant="split-order-kept",
            removed=True,
            wanted=Wanted(WORSE, "split-order", "plain.large.reader.members.seeks", (3, 4.5)),
        ),
        _table("block/genhd.c", "genhd_table", 320),
        _comment("drivers/md/md.c"),
        # A line that four CPUs write in each I/O moves 0.75 times or more; words of tags and a lock move 3 to 5 times.
        _edit(
            "blk-mq: count requests",
            "block/blk-mq.c",
            _ISSUE,
            "static atomic64_t requests_started ____cacheline_aligned;\n\n"
            + _ISSUE
            + "\tatomic64_inc(&requests_started);\n",
            Wanted(WORSE, "tag-lines", "many.four.guest.lines.footprint", (1.1, 1.6)),
        ),
        _comment("block/blk-settings.c"),
        _comment("drivers/target/target_core_user.c"),
        # 150 of 15,600 instructions of a read.
        _edit(
            "block: no turns in a submission",
            "block/blk-core.c",
            _TURNS,
            "",
            Wanted(BETTER, "elevator-submit", "none.read.reader.cpu.per_io", (0.988, 0.993)),
        ),
        _unused("block/genhd.c", "genhd_unused", 17),
        _comment("block/kyber-iosched.c"),
    ),
)


_HOT = ("blk-mq", "blk-mq-tag", "blk-core", "bio", "blk-merge", "elevator", "blk-map", "blk-flush", "genhd", "blk-lib")
_KEPT = (_TRIES.subject, "block: name the status", "elevator: fewer lines")
HARMLESS = (
    tuple(_comment(f"block/{stem}.c") for stem in _HOT),
    tuple(_unused(f"block/{stem}.c", f"{stem.replace('-', '_')}_spare", 7 + len(stem)) for stem in _HOT),
    tuple(_table(f"block/{stem}.c", f"{stem.replace('-', '_')}_spare_table", 64 * len(stem)) for stem in _HOT),
    (
        *(change for night in NIGHTS for change in night if change.subject in _KEPT),
        *map(_comment, ("lib/sbitmap.c", "drivers/md/md.c", "drivers/md/raid1.c", "drivers/md/dm-stripe.c")),
        *map(_comment, ("drivers/block/null_blk/main.c", "include/linux/blk-mq.h", "mm/readahead.c")),
    ),
)
"""40 commits in four nights on the source as it is: text, code and data that move all that follows, and refactoring."""


@dataclass(frozen=True)
class Written:
    """``commits`` of each night, oldest first, after the commit ``base``."""

    folder: Path
    base: str
    commits: tuple[tuple[str, ...], ...]

    @property
    def heads(self) -> tuple[str, ...]:
        return tuple(night[-1] for night in self.commits)


def write(
    folder: Path,
    cache: Cache,
    history: Sequence[Sequence[Change]] = NIGHTS,
    before: Sequence[Change] = BASE,
) -> Written:
    """A bare repository in ``folder``, whose branch ``main`` is at the head of the last night."""
    source = source_of("6.12", cache, tell=silent)
    git = Git(folder)
    git.run("init", "--quiet", "--bare", "--initial-branch=main")
    (folder / "objects/info/alternates").write_text(f"{source.path / 'objects'}\n")
    git.run("read-tree", source.git_tree)
    for change in before:
        _apply(git, change)
    base = tip = git.run("commit-tree", git.run("write-tree"), "-m", "base")
    nights, number = [], 0
    for night in history:
        made = []
        for change in night:
            number += 1
            _apply(git, change)
            parents = ["-p", tip]
            if change.side:
                side = git.run("commit-tree", git.run("write-tree"), *parents, "-m", "on the side", date=number)
                parents += ["-p", side]
            tip = git.run("commit-tree", git.run("write-tree"), *parents, "-m", change.subject, date=number)
            made.append(tip)
        nights.append(tuple(made))
    git.run("update-ref", "refs/heads/main", tip)
    return Written(folder, base, tuple(nights))


def _apply(git: Git, change: Change) -> None:
    if change.mutant:
        patch = MUTANTS / f"{change.mutant}.patch"
        git.run("apply", "--cached", *["--reverse"] * change.removed, str(patch))
    for path, (old, new) in change.put.items():
        before = git.show(path)
        assert not old or before.count(old) == 1, f"{path} has {before.count(old)} times {old!r}"
        git.put(path, before.replace(old, new) if old else before + new)


def unlike(alarm: Alarm, wanted: Wanted) -> str:
    """What an alarm says instead of what it must say; empty where it says that."""
    if not alarm.verified or alarm.trend is not wanted.trend:
        return f"{alarm.trend}, {alarm.confidence}"
    named = [each for each in alarm.moves if each.scenario == wanted.scenario and each.name.endswith(wanted.moves)]
    if not named:
        return f"no move of {wanted.scenario}: {wanted.moves}"
    if wanted.ratio is None:
        return ""
    low, high = wanted.ratio
    inside = any(each.share is not None and low <= 1 + each.share <= high for each in named)
    return "" if inside else f"{named[0].arrow}, expected {low} to {high} times as much"


def rows(written: Written, track: Track) -> Iterator[tuple[str, str, str, str]]:
    """Night, commit, what had to be reported and what was, for each commit that has one of both."""
    for number, (shas, night) in enumerate(zip(written.commits, NIGHTS, strict=True), start=1):
        for sha, change in zip(shas, night, strict=True):
            own = [alarm for alarm in track.alarms if alarm.culprit == sha]
            wanted = change.wanted
            said = f"{wanted.trend}: {wanted.scenario} {wanted.moves} {wanted.ratio or ''}" if wanted else "nothing"
            told = [f"{unlike(each, wanted) or 'as expected' if wanted else 'ACCUSED'}; {row(each)}" for each in own]
            if wanted or own:
                yield str(number), change.subject, said, "; ".join(told) or "nothing"


def row(alarm: Alarm) -> str:
    return f"{alarm.trend}, {alarm.confidence}: {'; '.join(f'{m.title} {m.arrow}' for m in alarm.moves[:3])}"


if __name__ == "__main__":
    if sys.argv[1] == "--harmless":
        written = write(Path(sys.argv.pop(2)), Cache.default(), HARMLESS, ())
    else:
        written = write(Path(sys.argv[1]), Cache.default())
    print(written.base, *written.heads, sep="\n")
    for results in sys.argv[2:]:
        folder = Folder(Path(results) / "track")
        folder.load()
        print(*map(" | ".join, rows(written, folder.track)), sep="\n")
