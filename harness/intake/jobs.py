# SPDX-License-Identifier: GPL-2.0-only
"""fio jobs as roles of a scenario: which options carry over, which change nothing here, and which are refused."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import TypeVar

from harness.intake.documents import accepts, choices
from harness.intake.jobfile import FioJob, FioOption, fio_flag, fio_integer, fio_size, fio_time
from harness.intake.snapshot import SECTOR, slug
from harness.scenario import schema
from harness.scenario.model import MIXED, PERCENT, READS, mean_size, of_split
from lab.base.errors import InputErrors, Problem
from lab.yaml.fields import Field

T = TypeVar("T")

_RANDOM = {"randread", "randwrite", "randrw"}
_SYNCHRONOUS = {"psync", "sync"}
_REMEDY = "leave it out of the draft with --without {}"
_HARMLESS_WORDS = """
name description group_reporting thread threads time_based runtime ramp_time randrepeat randseed allrandrepeat
gtod_reduce disable_lat disable_clat disable_slat disable_bw clat_percentiles lat_percentiles slat_percentiles
percentile_list write_bw_log write_lat_log write_iops_log write_hist_log log_avg_msec log_offset log_hist_msec
create_serialize create_fsync create_on_open create_only pre_read unlink unlink_each_loop file_append loops
number_ios io_size io_limit invalidate stonewall new_group exitall exit_what exitall_on_error end_fsync
fsync_on_close per_job_logs unified_rw_reporting eta_interval status_interval significant_figures overwrite
fallocate allow_file_create allow_mounted_write openfiles nice rwmixwrite norandommap numjobs fill_device
filesize random_generator refill_buffers scramble_buffers error_dump kb_base
"""
_HARMLESS = frozenset(_HARMLESS_WORDS.split())
"""Options of the output, of files, of the amount of I/O (a window ends by time), and those that are read elsewhere."""
_CHANGING = frozenset({"refill_buffers", "scramble_buffers", "random_generator", "fallocate"})
"""Of these, those that change data or offsets: a draft says that they are left out."""
_PLACEMENT = frozenset({"cpumask", "cpus_allowed", "cpus_allowed_policy", "numa_cpu_nodes", "numa_mem_policy"})
_ONLY_RANDOM = frozenset({"random_distribution"})
_PASSED = ("rwmixread", "fsync", "fdatasync", "prioclass", "prio")


@dataclass(frozen=True)
class DraftJob:
    """A job as a role without its disk. ``key`` is the device or the folder that its file is on, ``file`` the file.

    ``shares_file``: clones and other jobs of that file use it together. ``label`` is what fio calls it in its output.
    ``pre_read``: its file is read into the page cache first. ``size`` and ``offset`` are in bytes, None where the file
    has none.
    ``thinktime`` and ``runtime`` are in ns.
    ``stage`` counts the stonewalls before it, or is later than that of the job that it waits for.
    """

    role: str
    label: str
    line: str
    key: str
    file: str
    clones: int
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
    thinktime: int | None = None
    runtime: int | None = None
    shares_file: bool = False
    pre_read: bool = False
    options: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def draft_jobs(jobs: tuple[FioJob, ...], without: Collection[str] = ()) -> tuple[DraftJob, ...]:
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
    """A role's name that no job has yet; room is left for the number of a clone."""
    name = name[:30]
    names = {draft.role for draft in drafts} | {*schema.LOAD_KEYS}
    return next(each for each in (name, *(f"{name}-{number}" for number in range(2, 1000))) if each not in names)


class _JobReader:
    def __init__(self, job: FioJob, without: Collection[str]) -> None:
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

    def _choice(self, name: str, field: Field, default: str, remedy: str) -> str:
        """The value of an option that is one of the field's."""
        option = self._take(name)
        if option is None or accepts(field, option.value):
            return option.value if option else default
        self._refuse(option, f"{option.value} is not among {', '.join(choices(field))}", remedy)
        return default

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
        rw = self._choice("rw", schema.RW, "read", "write another rw")
        direct, buffered = self.is_set("direct"), self._options.get("buffered")
        direct = direct if buffered is None else not self.is_set("buffered")
        split, pre_read = self._split(rw), not direct and self.is_set("pre_read")
        options = dict(self._role_options(rw)) | ({"bssplit": split} if split else {})
        if split and rw in _RANDOM:
            options["norandommap"] = True
        if pre_read or (not direct and "invalidate" in self._options and not self.is_set("invalidate")):
            options["invalidate"] = False
        if pre_read and "size" not in self._options:
            self._refuse(self._options["pre_read"], "the page cache does not take a whole device", "write size=64m")
        engine, depth, notes = self._engine(direct=direct)
        key, file = self._file()
        notes += [f"{option.location}: {option.name}={option.value} is left out" for option in self._left]
        changing = [option for name, option in self._options.items() if name in _CHANGING]
        notes += [f"{option.location}: {option.name} is left out: a role has no such option" for option in changing]
        placement = [option for name, option in self._options.items() if name in _PLACEMENT]
        notes += [f"{option.location}: {option.name} has no effect: the guest has one CPU" for option in placement]
        label = self._options.get("name")
        job = DraftJob(
            role=role,
            label=label.value if label else self._job.name,
            line=f"{self._job.path}:{self._job.line}",
            key=key,
            file=file,
            shares_file="filename" in self._options,
            pre_read=pre_read,
            clones=self._clones(),
            stage=stage,
            rw=rw,
            bs=self._bs(rw, split),
            iodepth=depth,
            ioengine=engine,
            direct=direct,
            size=self._number("size", fio_size, self._number("filesize", fio_size)),
            offset=self._number("offset", fio_size),
            rate=self._of_side("rate", rw, fio_size),
            rate_iops=self._of_side("rate_iops", rw, fio_integer),
            thinktime=self._number("thinktime", lambda text: fio_time(text, "us")),
            runtime=self._number("runtime", lambda text: fio_time(text, "s")),
            options=options,
        )
        self._check_rest()
        return replace(job, notes=tuple(notes))

    def _engine(self, *, direct: bool) -> tuple[str, int, list[str]]:
        """Engine and depth as they take effect, and notes where that is less than the job asks for."""
        engine = self._choice("ioengine", schema.IOENGINE, "psync", "write the nearest of them")
        depth = max(1, self._number("iodepth", fio_integer, 1) or 1)
        if engine not in _SYNCHRONOUS and (direct or engine != "libaio"):
            return engine, depth, []
        what = engine if engine in _SYNCHRONOUS else "buffered libaio"
        return engine, 1, [f"{self._options['iodepth'].location}: {what} has one in flight"] if depth > 1 else []

    def _file(self) -> tuple[str, str]:
        """What the job's file is on: the device itself, else the folder; and the file."""
        filename, directory = self._take("filename"), self._take("directory")
        files = self._take("nrfiles")
        several = files if files is not None and self._value(files, fio_integer, 1) != 1 else None
        for option in (several, filename if filename and ":" in filename.value else None):
            if option:
                self._refuse(option, "several files of one job share its iodepth", "write a job for each file")
        name = filename.value if filename else self._job.name
        if name.startswith("/dev/"):
            return name, name
        path = PurePosixPath(directory.value if directory else ".") / name
        return str(path.parent), str(path)

    def _clones(self) -> int:
        count = self._number("numjobs", fio_integer, 1) or 1
        if count > schema.MOST_ROLES:
            self._refuse(self._options["numjobs"], f"a load has at most {schema.MOST_ROLES} roles", "reduce numjobs")
        return count

    def _bs(self, rw: str, split: str) -> int:
        option, ranged = self._take("bs"), self._take("bsrange")
        if split:
            return mean_size(of_split(split))
        if ranged is not None:
            low, _, high = ranged.value.partition("-")
            if low != high:
                self._refuse(ranged, "a role has one size of requests", "write bs=4k")
            return self._value(replace(ranged, value=low), fio_size, 4096)
        if option is None:
            return 4096
        size = self._value(replace(option, value=self._side(option, rw) or "4k"), fio_size, 4096)
        if size % SECTOR or not SECTOR <= size <= 1 << 26:
            self._refuse(option, f"{size} bytes are no multiple of 512 up to 64 MiB", "write another bs")
        return size

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
        flags = ("overwrite", "zero_buffers", *(schema.ONLY_IO_URING if engine and engine.value == "io_uring" else ()))
        for name in filter(self.is_set, flags):
            if rw not in READS or name in schema.ONLY_IO_URING:
                yield name, True
        if rw in _RANDOM and self.is_set("norandommap"):
            yield "norandommap", True
        spread = self._take("random_distribution") if rw in _RANDOM else None
        if spread and not accepts(schema.OPTIONS["random_distribution"].field, spread.value):
            self._refuse(spread, f"{spread.value} is none that a role has")
        elif spread and spread.value != "random":
            yield "random_distribution", spread.value
        verify = self._take("verify")
        if verify is None or verify.value in ("", "0", "null"):
            return
        if rw in READS:
            self._refuse(verify, "it reads back what another job wrote, and each load runs by itself")
        elif not accepts(schema.OPTIONS["verify"].field, verify.value):
            self._refuse(verify, f"{verify.value} is none of a role's checksums", "write verify=crc32c")
        else:
            yield "verify", verify.value

    def _split(self, rw: str) -> str:
        option = self._take("bssplit")
        if option is None:
            return ""
        text = self._side(option, rw)
        sizes = of_split(text) if accepts(schema.OPTIONS["bssplit"].field, text) else {}
        if sum(sizes.values()) == PERCENT and not any(size % SECTOR for size in sizes):
            return text
        self._refuse(option, "no sizes in sectors whose shares add up to 100", "write bssplit=4k/60:64k/40")
        return ""

    def _check_rest(self) -> None:
        """Refuse what is left and may change what is measured."""
        base = self._options.get("kb_base")
        if base is not None and base.value != "1024":
            self._refuse(base, f"sizes in powers of 1000 (kb_base={base.value})", "write kb_base=1024 and its sizes")
        delay = self._take("startdelay")
        if delay is not None and self._value(delay, fio_time, 0):
            self._refuse(delay, "the roles of a load start together")
        for name, option in self._options.items():
            if name not in self._used and name not in _PLACEMENT and name not in _HARMLESS and name not in _ONLY_RANDOM:
                self._refuse(option, "the draft has nothing that does the same")
