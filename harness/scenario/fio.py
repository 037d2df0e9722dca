# SPDX-License-Identifier: GPL-2.0-only
"""fio job files for the loads of a scenario, with the options of fio's HOWTO."""

import hashlib
from collections.abc import Iterable, Iterator
from errno import EBADE, EILSEQ, EIO, ENODATA, ENOLINK, ENOSPC, EREMOTEIO, ETIMEDOUT
from itertools import chain

from harness.scenario.events import io_may_fail
from harness.scenario.model import READS, Load, Role
from lab.base.units import parse_size
from lab.guest.steps.device import device
from lab.guest.steps.setting import CGROUPS, Cgroup
from lab.topology.model import Topology

FIO_SEEDS = 1 << 31


def job_file(load: Load, topology: Topology, seed: int) -> str:
    """The job file of one load under one seed (counted from 1).

    A role on several disks is one section for each disk, all with the role's name and in one fio group, for which fio
    reports one result: sums, and percentiles over all requests. With numjobs fio reports each job.
    """
    sections = [_section("global", chain(_timing(load), _global_options(seed), _ending(load)))]
    for role in load.roles.values():
        for place, part in enumerate(role.apart()):
            group = _group_options(place, role, load.ramp)
            options = _role_options(part, topology, group_of(load, role))
            sections.append(_section(role.name, chain(group, options, _errors(load))))
    return "\n".join(sections)


def step_file(role: Role, topology: Topology, seed: int) -> str:
    """The job file of a step before a load: once over its size, and what it wrote is on the disk when it ends."""
    synced = (("end_fsync", "1"),) if role.rw not in READS else ()
    sections = [_section("global", chain(_global_options(seed), synced))]
    sections += [_section(role.name, _role_options(part, topology, "")) for part in role.apart()]
    return "\n".join(sections)


def start_phase(scenario: str, seed: int) -> int:
    """Nanoseconds by which a seed delays the start of its loads, under 20 ms.

    null_blk refills its token bucket every 20 ms (NULL_IRQ_TIMER); a claim must hold for any phase of the load to that
    tick.
    """
    return int.from_bytes(hashlib.sha256(f"{scenario} {seed}".encode()).digest()[:4], "big") % 20_000 * 1000


def _timing(load: Load) -> Iterator[tuple[str, str]]:
    yield "time_based", "1"
    yield "runtime", f"{load.runtime // 1000}us"
    if load.ramp:
        yield "ramp_time", f"{load.ramp // 1000}us"


def _global_options(seed: int) -> Iterator[tuple[str, str]]:
    yield "randseed", str(seed * 7919 % FIO_SEEDS)
    yield "thread", "1"
    # Not the counter of CPU cycles: guests calibrate it only briefly.
    yield "clocksource", "clock_gettime"
    yield "lat_percentiles", "1"
    yield "clat_percentiles", "1"
    yield "percentile_list", "50:90:99:99.9"
    yield "group_reporting", "0"


def _ending(load: Load) -> Iterator[tuple[str, str]]:
    if load.jobs > 1:
        # A fio job's ramp ends with its first I/O after that time, so a job that waits starts its window late. It would
        # still count after the other jobs have ended.
        yield "exitall", "1"
        yield "exit_what", "all"


def _errors(load: Load) -> Iterator[tuple[str, str]]:
    if io_may_fail(load.events):
        # fio's own list has EIO and EILSEQ; the others are those of blk_errors (block/blk-core.c, 6.12).
        codes = ":".join(map(str, (EIO, EILSEQ, ENODATA, EREMOTEIO, ENOLINK, ETIMEDOUT, EBADE, ENOSPC)))
        yield from (("continue_on_error", "all"), ("ignore_error", f"{codes},{codes},{codes}"))


def _group_options(place: int, role: Role, ramp: int) -> Iterator[tuple[str, str]]:
    # Clones report one by one, so that their shares are known.
    if role.numjobs == 1 < len(role.disks):
        yield from (("new_group", "1"),) if not place else ()
        yield "group_reporting", "1"
    if late := role.delays[place]:
        # A shorter ramp, so the windows of all disks start together.
        yield "startdelay", f"{late // 1000}us"
        yield "ramp_time", f"{(ramp - late) // 1000}us"


CGROUP_FILES = {"io_max": "io.max", "io_latency": "io.latency", "io_weight": "io.weight", "bfq_weight": "io.bfq.weight"}
"""Limits, targets and weights of a role, which runs in a cgroup of its own, and the files of that cgroup."""


def group_of(load: Load, role: Role) -> str:
    return f"{load.name}.{role.name}"


def of_processes(load: Load) -> bool:
    """Whether each role runs in a cgroup of its own. Version 2 has processes in them, so that no job is a thread."""
    return all(CGROUP_FILES.keys() & role.options.keys() for role in load.roles.values())


def cgroups(load: Load, topology: Topology) -> Iterator[Cgroup]:
    """The limits of the roles of ``load``, on each of their devices."""
    for role in load.roles.values():
        devices = dict.fromkeys(topology.region(disk).lun for disk in role.disks)
        for key, file in CGROUP_FILES.items():
            if key in role.options:
                yield from (Cgroup(group_of(load, role), name, file, role.options[key]) for name in devices)


def _role_options(role: Role, topology: Topology, group: str) -> Iterator[tuple[str, str]]:
    options = dict(role.options)
    yield from _files(role, options) if topology.is_filesystem(role.disk) else _extent(role, topology, options)
    yield "rw", role.rw
    yield "bs", str(role.bs)
    yield "iodepth", str(role.iodepth)
    yield "ioengine", role.ioengine
    yield "direct", "1" if role.direct else "0"
    if role.numjobs > 1:
        yield from (("numjobs", str(role.numjobs)), ("cpus_allowed_policy", "split"))
    if cpus := options.pop("cpus", ""):
        yield "cpus_allowed", cpus
    if CGROUP_FILES.keys() & options.keys():
        # fio's thread would take all roles with it.
        yield "thread", "0"
        yield "exec_prerun", f"echo $PPID | tee {CGROUPS}/{group}/cgroup.procs"
    if batch := options.get("iodepth_batch"):
        # fio would submit again after the first completion, however few requests may be added by then.
        yield "iodepth_low", str(max(1, role.iodepth - int(batch)))
    yield from sorted((key, value) for key, value in options.items() if key not in CGROUP_FILES)
    if "verify" in options:
        # Readers count bad blocks and go on. A time-based window does not end at a block after which everything that
        # was written could be read back.
        yield ("continue_on_error", "verify") if role.rw in READS else ("do_verify", "0")


def _extent(role: Role, topology: Topology, options: dict[str, str]) -> Iterator[tuple[str, str]]:
    region = topology.region(role.disk)
    offset = region.offset + parse_size(options.pop("offset", "0"))
    yield "filename", device(region.lun)
    yield "offset", str(offset)
    yield "size", str(min(parse_size(options.pop("size", str(region.size))), region.offset + region.size - offset))


def _files(role: Role, options: dict[str, str]) -> Iterator[tuple[str, str]]:
    yield "directory", device(role.disk)
    prefix = f"{role.name}-$jobnum" if role.numjobs > 1 else role.name
    files = options.pop("files", prefix)
    if role.numjobs > 1 and files != prefix:
        # A clone has no file where filename_format makes a name that another one has (fio 3.39, add_file).
        yield "filename", ":".join(f"{files}.{number}" for number in range(int(options.pop("nrfiles", "1"))))
    else:
        yield "filename_format", f"{files}.$filenum"
    yield "size", str(parse_size(options.pop("size")))
    if options.pop("create", "0") == "1":
        each = {"create_on_open": "1", "openfiles": "1", "file_service_type": "sequential", "unlink_each_loop": "1"}
        yield from each.items()
    if options.pop("age", "0") == "1":
        # One after another, so that files with neighbouring numbers are neighbours on the disk.
        yield from {"openfiles": "1", "file_service_type": "sequential"}.items()
        yield "exec_postrun", f"rm {device(role.disk)}/{files}.*[13579]"
    # fio would reserve the blocks, which a program that writes a file does not.
    yield "fallocate", "none"


def _section(name: str, options: Iterable[tuple[str, str]]) -> str:
    return f"[{name}]\n" + "".join(f"{key}={value}\n" for key, value in options)
