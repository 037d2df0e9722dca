# SPDX-License-Identifier: GPL-2.0-only
"""fio jobs as roles of a scenario: which options carry over, which change nothing here, and which are refused."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import PurePosixPath
from typing import TypeVar

from harness.intake.jobfile import FioJob, FioOption, fio_flag, fio_integer, fio_size, fio_time
from harness.intake.snapshot import SECTOR, slug
from harness.scenario import schema
from harness.scenario.model import MIXED, RANDOM, READS, mean_size, of_split
from lab.base.errors import InputErrors, Problem

T = TypeVar("T")

_REMEDY = "leave it out of the draft with --without {}"
_HARMLESS_WORDS = """
name description group_reporting threads? time_based runtime ramp_time randrepeat randseed allrandrepeat gtod_reduce
disable_.+ disk_util stats .+_percentiles percentile_list write_(bw|lat|iops|hist)_log write_iolog log_.+ .+avgtime
create_.+ allow_.+ pre_read unlink(_each_loop)? file_append loops number_ios io_size io_limit invalidate stonewall
new_group exit_?(all|what).* end_fsync fsync_on_close per_job_logs unified_rw_reporting status_interval
significant_figures overwrite openfiles nice rwmixwrite norandommap numjobs fill_device filesize clocksource
error_dump kb_base unit_base uid gid job_start_clock_id output(-format)? eta.+ minimal .+-(terse|version|log|fatal|prof)
max-jobs alloc-size aux-path status-interval debug
"""
_HARMLESS = re.compile("|".join(_HARMLESS_WORDS.split()))
"""Options of the output, of files, of the amount of I/O (a window ends by time), and those that are read elsewhere."""
_LEAVE = "leave this job out: a role reads or writes blocks"
_NO_BLOCKS = """
cpuio null exec falloc ftruncate filecreate filestat filedelete dircreate dirstat dirdelete e4defrag
net netsplice rdma rbd rados gfapi gfapi_async nfs http libhdfs nbd libiscsi dev-dax libpmem libpmem2 mtd
"""
_ENGINES = {
    **dict.fromkeys(_NO_BLOCKS.split(), ("does no I/O to a block device", _LEAVE)),
    **dict.fromkeys(("vsync", "pvsync", "pvsync2", "splice"), ("is none of a role's", "write ioengine=psync")),
    "mmap": ("does its I/O by page faults", "write ioengine=psync and direct=0, which use the page cache too"),
    "sg": ("sends SCSI commands", "write ioengine=libaio and the block device of that disk"),
    "io_uring_cmd": ("sends NVMe commands", "write ioengine=io_uring and the block device of that namespace"),
}
"""Why a role does not have an engine of fio, and what would change that."""
_NOTED = {
    **dict.fromkeys(("refill_buffers", "scramble_buffers"), "is left out: a role has no such option"),
    **dict.fromkeys(("random_generator", "fallocate"), "is left out: a role has no such option"),
    **dict.fromkeys(("cpumask", "cpus_allowed", "cpus_allowed_policy"), "has no effect: the guest has one CPU"),
    **dict.fromkeys(("numa_cpu_nodes", "numa_mem_policy"), "has no effect: the guest has one CPU"),
}
"""Options that a draft says to leave out."""
_ONLY_RANDOM = frozenset({"random_distribution"})
_USUAL = {"random_distribution": "random", "rate_process": "linear"}
_TIMES = ("thinktime", "thinktime_spin")
_PASSED = ("rwmixread", "thinktime_blocks", "fsync", "fdatasync", "prioclass", "prio", "force_async")


@dataclass(frozen=True)
class DraftJob:
    """A job as a role without its disks. ``keys`` are the devices, or the folder, that its ``files`` are on.

    Of a job with several files ``iodepth``, ``size`` and the paces are the part of each.
    ``shares_file``: its clones and other jobs of that file use it together. ``label`` is what fio calls it in its
    output. ``pre_read``: its file is read into the page cache first. ``size`` and ``offset`` are in bytes, None where
    the file has none.
    ``startdelay`` and ``runtime`` are in ns, ``times`` of the options in it too.
    ``stage`` counts the stonewalls before it, or is later than that of the job that it waits for.
    """

    role: str
    label: str
    source: FioJob
    keys: tuple[str, ...]
    files: tuple[str, ...]
    numjobs: int
    stage: int
    rw: str
    bs: int
    iodepth: int
    ioengine: str
    direct: bool
    size: int | None = None
    offset: int | None = None
    rate: int | None = None
    rate_iops: int | None = None
    startdelay: int = 0
    runtime: int | None = None
    shares_file: bool = False
    pre_read: bool = False
    times: Mapping[str, int] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        return f"{self.source.path}:{self.source.line}"


def draft_jobs(jobs: Sequence[FioJob], without: Collection[str] = ()) -> tuple[DraftJob, ...]:
    """All jobs. Options named in ``without`` are ignored, with a note. Raises InputErrors with all that is refused."""
    problems: list[Problem] = []
    drafts: list[DraftJob] = []
    stage = 0
    for job in jobs:
        reader = _JobReader(job, without)
        stage += bool(drafts) and reader.is_set("stonewall")
        drafts.append(reader.read(_free(slug(job.name) or "job", drafts), reader.after(drafts, stage)))
        problems += reader.problems
    if problems:
        raise InputErrors([*dict.fromkeys(problems)])
    return tuple(drafts)


def _free(name: str, drafts: Collection[DraftJob]) -> str:
    """A role's name that no job has yet; room is left for a number."""
    name = name[:30]
    names = {draft.role for draft in drafts} | {*schema.LOAD_KEYS}
    return next(each for each in (name, *(f"{name}-{number}" for number in range(2, 1000))) if each not in names)


class _JobReader:
    def __init__(self, job: FioJob, without: Collection[str]) -> None:
        without = {*without, *job.left}
        self._job = job
        self._left = [option for option in job.options.values() if option.name in without]
        self._options = {name: option for name, option in job.options.items() if name not in without}
        self._used: set[str] = set()
        self.problems: list[Problem] = []

    def _take(self, name: str) -> FioOption | None:
        self._used.add(name)
        return self._options.get(name)

    def is_set(self, name: str) -> bool:
        option = self._take(name)
        return option is not None and self._value(option, fio_flag, False)

    def _text(self, name: str, default: str) -> str:
        option = self._take(name)
        return option.value if option else default

    def _refuse(self, option: FioOption, reason: str, remedy: str = "") -> None:
        self.problems.append(option.problem(reason, remedy or _REMEDY.format(option.name)))

    def _value(self, option: FioOption, read: Callable[[str], T], default: T) -> T:
        try:
            return read(option.value)
        except ValueError as error:
            self._refuse(option, str(error), f"write it as fio's HOWTO has it, or --without {option.name}")
            return default

    def _number(self, name: str, read: Callable[[str], int], default: int | None = None) -> int | None:
        option = self._take(name)
        return default if option is None else self._value(option, read, default)

    def after(self, drafts: Collection[DraftJob], stage: int) -> int:
        """The stage of a job that waits for another one; else ``stage``."""
        option = self._take("wait_for")
        if option is None:
            return stage
        awaited = [draft.stage for draft in drafts if draft.label == option.value]
        if not awaited:
            self._refuse(option, f"no job {option.value} above it", "write its name, or stonewall")
        return 1 + max(awaited, default=stage)

    def read(self, role: str, stage: int) -> DraftJob:
        rw = self._text("rw", "read")
        direct, buffered = self.is_set("direct"), self._options.get("buffered")
        direct = direct if buffered is None else not self.is_set("buffered")
        option = self._take("bssplit")
        split, pre_read = self._side(option, rw) if option else "", not direct and self.is_set("pre_read")
        options = dict(self._role_options(rw)) | ({"bssplit": split} if split else {})
        if split and rw in RANDOM:
            options["norandommap"] = True
        if pre_read or (not direct and "invalidate" in self._options and not self.is_set("invalidate")):
            options["invalidate"] = False
        if pre_read and "size" not in self._options:
            self._refuse(self._options["pre_read"], "the page cache does not take a whole device", "write size=64m")
        engine, depth, notes = self._engine(direct=direct)
        keys, files = self._files()
        parts = len(files)
        if depth < parts:
            why = f"{parts} files in turn share {depth} in flight, and a role has its own on each disk"
            self._refuse(self._options["filename"], why, f"write iodepth={parts} or more, or a job for each file")
        elif parts > 1:
            notes.append(f"{self._job.options['filename'].location}: iodepth={depth}: {depth // parts} on each file")
        rate, rate_iops = (self._of_side("rate", rw, fio_size), self._of_side("rate_iops", rw, fio_integer))
        size = self._number("size", fio_size, self._number("filesize", fio_size))
        for option in self._left:
            why = self._job.left.get(option.name, "")
            notes.append(f"{option.location}: {option.name}={option.value} is left out{why}")
        notes += [
            f"{option.location}: {name} {_NOTED[name]}" for name, option in self._options.items() if name in _NOTED
        ]
        label = self._options.get("name")
        job = DraftJob(
            role=role,
            label=label.value if label else self._job.name,
            source=self._job,
            keys=keys,
            files=files,
            shares_file="filename" in self._options,
            pre_read=pre_read,
            numjobs=self._number("numjobs", fio_integer, 1) or 1,
            stage=stage,
            rw=rw,
            bs=self._bs(rw, split),
            iodepth=max(1, depth // parts),
            ioengine=engine,
            direct=direct,
            size=size if size is None or parts == 1 else size // parts // SECTOR * SECTOR,
            offset=self._number("offset", fio_size),
            rate=rate and -(-rate // parts),
            rate_iops=rate_iops and -(-rate_iops // parts),
            times={name: time * parts for name in _TIMES if (time := self._number(name, partial(fio_time, unit="us")))},
            startdelay=self._number("startdelay", fio_time) or 0,
            runtime=self._number("runtime", fio_time),
            options=options,
        )
        self._check_rest()
        return replace(job, notes=(*self._job.notes, *notes))

    def _engine(self, *, direct: bool) -> tuple[str, int, list[str]]:
        """Engine and depth as they take effect, and notes where that is less than the job asks for."""
        engine = self._text("ioengine", "psync")
        if engine in _ENGINES:
            why, remedy = _ENGINES[engine]
            self._refuse(self._options["ioengine"], f"{engine} {why}", remedy)
        depth = max(1, self._number("iodepth", fio_integer, 1) or 1)
        if engine not in schema.ONE_IN_FLIGHT and (direct or engine != "libaio"):
            return engine, depth, []
        what = engine if engine in schema.ONE_IN_FLIGHT else "buffered libaio"
        return engine, 1, [f"{self._options['iodepth'].location}: {what} has one in flight"] if depth > 1 else []

    def _files(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What the job's files are on: the devices themselves, else the folder; and the files."""
        filename, directory, count = (self._take(name) for name in ("filename", "directory", "nrfiles"))
        split = re.split(r"(?<!\\):", filename.value if filename else self._job.name)
        names = tuple(dict.fromkeys(name.replace("\\:", ":") for name in split if name))
        if names and all(name.startswith("/dev/") for name in names):
            return names, names
        # fio ignores nrfiles where files are named.
        several = (filename if len(names) > 1 else None) if filename else count
        if several and (several is filename or self._value(several, fio_integer, 1) != 1):
            self._refuse(several, "several files of one job share its iodepth", "write a job for each file")
        path = PurePosixPath(directory.value if directory else ".") / (names[0] if names else self._job.name)
        return (str(path.parent),), (str(path),)

    def _bs(self, rw: str, split: str) -> int:
        option, ranged = self._take("bs"), self._take("bsrange")
        with suppress(ValueError):
            if split:
                return mean_size(of_split(split))
        if ranged is not None:
            low, _, high = ranged.value.partition("-")
            if low != high:
                self._refuse(ranged, "a role has one size of requests", "write bs=4k")
            return self._value(replace(ranged, value=low), fio_size, 4096)
        return self._value(replace(option, value=self._side(option, rw) or "4k"), fio_size, 4096) if option else 4096

    def _side(self, option: FioOption, rw: str) -> str:
        """The value for the direction of the job, of one for each of reads, writes and trims."""
        sides = option.value.split(",")
        reads, writes, trims = (sides[min(place, len(sides) - 1)].strip() for place in range(3))
        if rw in MIXED and reads != writes:
            self._refuse(option, "reads and writes differ", "write two jobs")
        return reads if rw in READS else trims if rw == "trim" else writes

    def _of_side(self, name: str, rw: str, read: Callable[[str], int]) -> int | None:
        option = self._take(name)
        side = "" if option is None else self._side(option, rw)
        return self._value(replace(option, value=side), read, 0) or None if option and side else None

    def _role_options(self, rw: str) -> Iterator[tuple[str, object]]:
        """Options that a role has too, with values that it takes."""
        for name in _PASSED:
            value = self._number(name, fio_integer)
            if value is not None and (name != "rwmixread" or rw in MIXED):
                yield name, value
        mix = self._take("rwmixwrite")
        if mix is not None and rw in MIXED and "rwmixread" not in self._options:
            yield "rwmixread", 100 - self._value(mix, fio_integer, 50)
        engine = self._options.get("ioengine")
        flags = ("overwrite", "zero_buffers", *(schema.URING_FLAGS if engine and engine.value == "io_uring" else ()))
        for name in filter(self.is_set, flags):
            if rw not in READS or name in schema.URING_FLAGS:
                yield name, True
        if rw in RANDOM and self.is_set("norandommap"):
            yield "norandommap", True
        for name, usual in _USUAL.items():
            text = self._text(name, usual)
            if text != usual and (rw in RANDOM or name not in _ONLY_RANDOM):
                yield name, text
        verify = self._take("verify")
        if verify and verify.value not in ("", "0", "null"):
            if rw in READS:
                self._refuse(verify, "it reads back what another job wrote, and each load runs by itself")
            yield "verify", verify.value

    def _check_rest(self) -> None:
        """Refuse what is left and may change what is measured."""
        base = self._options.get("kb_base")
        if base is not None and base.value != "1024":
            self._refuse(base, f"sizes in powers of 1000 (kb_base={base.value})", "write kb_base=1024 and its sizes")
        self._number("ramp_time", fio_time)
        for name, option in self._options.items():
            if name not in self._used and name not in _NOTED and not _HARMLESS.fullmatch(name):
                self._refuse(option, "the draft has nothing that does the same")
