# SPDX-License-Identifier: GPL-2.0-only
"""The clock of a scenario file, its loads and roles, and whether the devices of each arm can carry them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, islice

from harness.scenario import schema
from harness.scenario.events import read_events
from harness.scenario.fio import CGROUP_FILES
from harness.scenario.model import MIXED, PERCENT, RANDOM, READS, Arm, Load, Role, mean_size
from harness.scenario.timing import TIMINGS, Clock
from lab.base.units import parse_size, show_size, show_time
from lab.guest.steps.load import TRACE_BUFFER
from lab.topology.emulated import processors
from lab.topology.graph import Access, parts
from lab.topology.limits import COMMAND_TIMEOUT, SYSTEM_MEMORY, carries, longest_wait, tick_bytes
from lab.topology.model import PARITY, Disk, Driver, Loss, StackKind, Topology
from lab.yaml.fields import Row
from lab.yaml.strict import names, nearest

_WRITES = {"write", "randwrite"}
_ONLY_RANDOM = ("norandommap", "random_distribution")
_ONLY_WRITES = (schema.AGE, "create", "fsync", "fdatasync", "overwrite", "sync", "zero_buffers")


def role_rows(row: Row) -> Iterator[tuple[str, str, Row]]:
    """Every role that is a mapping, as (load, role, row)."""
    for load, load_row in row.get("loads", {}).items():
        yield from ((load, name, role) for name, _, role in load_row.matches() if role is not None)


def read_loads(row: Row) -> dict[str, Load]:
    """Loads by name, without those that have a mistake."""
    roles: dict[str, dict[str, Role]] = {}
    for load, name, role_row in role_rows(row):
        if role := _role(name, role_row):
            roles.setdefault(load, {})[name] = role
            if schema.AGE in role.options:
                role_row.add(schema.AGE, f"{schema.AGE}: only a step deletes files", "move the role to prepare")
    window = row.get("window")
    loads: dict[str, Load] = {}
    for name, load_row in row.get("loads", {}).items():
        own_window = load_row.get("window", window)
        if "window" not in load_row.node.entries and "window" not in row.node.entries:
            load_row.add("", f"load {name}: window is missing", "write window: {ramp: 1s, runtime: 8s}")
        if not set(load_row.node.entries) - {*schema.LOAD_KEYS}:
            remedy = "write victim: {disk: ..., rw: ..., bs: 4k, iodepth: 1}"
            load_row.add("", f"load {name}: a role is missing", remedy)
        if len(roles.get(name, ())) > schema.MOST_ROLES:
            load_row.add("", f"load {name}: expected at most {schema.MOST_ROLES} roles")
        elif (count := sum(role.jobs for role in roles.get(name, {}).values())) > schema.MOST_JOBS:
            load_row.add("", f"load {name}: expected at most {schema.MOST_JOBS} jobs, got {count}")
        elif own_window and name in roles:
            _check_stagger(load_row, roles[name].values(), own_window["ramp"])
            losses = tuple(loss for item in load_row.get("lost", ()) if (loss := item.build(Loss)))
            events = tuple(read_events(load_row, sum(own_window[key] for key in ("ramp", "runtime"))))
            prepare, warm = (tuple(_steps(load_row, key)) for key in schema.STEP_KEYS)
            folios = load_row.get(schema.FOLIOS.name)
            made = Load(name, roles[name], lost=losses, prepare=prepare, warm=warm, folios=folios, **own_window)
            loads[name] = replace(made, events=events)
    return loads


def _steps(load_row: Row, key: str) -> Iterator[Role]:
    for number, step in enumerate(load_row.get(key, ()), start=1):
        if role := _role(f"{key}{number}", step):
            yield role
            if role.numjobs > 1:
                step.add("numjobs", "numjobs: a step is one job", "write a step for each")
            if "size" not in role.options:
                step.add("", f"{key}: size is missing, at which a step ends", "write size: 64M")
            for option in sorted(role.options.keys() & CGROUP_FILES.keys()):
                step.add(option, f"{option}: a step has no cgroup", f"remove {option}")


def _check_stagger(row: Row, roles: Iterable[Role], ramp: int) -> None:
    for role in roles:
        last = role.delays[-1]
        if last > ramp:
            key = "stagger" if role.stagger else "startdelay"
            message = f"{key}: the last disk of {role.name} starts {show_time(last)} late, after the ramp"
            row.add(role.name, message, f"reduce {key} or lengthen the ramp")


def _role(name: str, row: Row) -> Role | None:
    given = row.given(schema.OPTIONS.values())
    values = {field.into or field.name: row.get(field) for field in schema.ROLE_KEYS}
    if None in values.values():
        return None
    options = {key: schema.to_fio(key, value) for key, value in given.items()}
    role = Role(name, options=options, **values)
    for key, message, remedy in (*_sizes(role), *_together(role), *_paces(role)):
        row.add(key, f"{key}: {message}", remedy)
    return role


def _sizes(role: Role) -> Iterator[tuple[str, str, str]]:
    """What is wrong with the sizes of its requests, as in ``_together``."""
    key = "bssplit" if "bssplit" in role.options else "bs"
    for size in filter(lambda size: size % 512, role.sizes):
        yield key, f"{size} is not a multiple of 512", ""
    if (whole := sum(role.sizes.values())) != PERCENT:
        yield key, f"the shares add up to {whole} %, not to {PERCENT}", ""
    elif role.bs != (mean := mean_size(role.sizes)):
        yield "bs", f"the mean of bssplit is {mean} bytes", f"write bs: {mean}"
    if key in role.options and "verify" in role.options:
        yield key, "checksums are of blocks of one size", "remove verify"
    if key in role.options and role.rw in RANDOM and role.options.get("norandommap") != "1":
        yield key, "fio cuts requests that reach a block which it did before", "write norandommap: true"


def _together(role: Role) -> Iterator[tuple[str, str, str]]:
    """What keys of a role exclude each other: (key, reason, remedy)."""
    if role.iodepth > 1 and role.ioengine in schema.ONE_IN_FLIGHT:
        yield "iodepth", f"{role.ioengine} has one request in flight", "write iodepth: 1, or ioengine: libaio"
    if role.iodepth > 1 and role.ioengine == "libaio" and not role.direct:
        yield "iodepth", "buffered libaio has one request in flight", "write iodepth: 1, or direct: true"
    if role.numjobs > 1 and "verify" in role.options and role.rw not in READS:
        yield "numjobs", "each job would overwrite what another one checks", "write a role for each, with its offset"
    if role.rw not in MIXED and "rwmixread" in role.options:
        yield "rwmixread", f"rw: {role.rw} does not mix reads and writes", "write rw: randrw"
    if role.polls and not role.direct:
        yield "hipri", "the page cache is not polled", "write direct: true"
    if role.rw == "trim" and role.iodepth > 1:
        yield "iodepth", "fio discards one block at a time", "write iodepth: 1"
    if int(role.options.get("iodepth_batch", 1)) > role.iodepth:
        yield "iodepth_batch", f"more than the iodepth of {role.iodepth}", ""
    for key in role.options:
        if key in schema.ONLY_IO_URING and role.ioengine != "io_uring":
            yield key, f"{role.ioengine} does not have it", "write ioengine: io_uring"
        if key in _ONLY_RANDOM and role.rw not in RANDOM:
            yield key, f"rw: {role.rw} is not random", f"remove {key}"
        if key in _ONLY_WRITES and role.rw in READS:
            yield key, f"rw: {role.rw} does not write", f"remove {key}"


def _paces(role: Role) -> Iterator[tuple[str, str, str]]:
    """What is wrong with when and where its requests come, as in ``_together``."""
    spin, think = (int(role.options.get(key, 0)) for key in ("thinktime_spin", "thinktime"))
    if spin > think:
        yield "thinktime_spin", f"it is a part of thinktime, which is {think} us", "lengthen thinktime"
    for key, paces in (("rate_process", ("rate", "rate_iops")), ("thinktime_blocks", ("thinktime",))):
        if key in role.options and not {*paces} & role.options.keys():
            yield key, f"the role has no {paces[0]}", f"write {' or '.join(paces)}"
    if (spread := role.options.get("random_distribution", "")).startswith("zoned:"):
        shares = [tuple(map(int, zone.split("/"))) for zone in spread.partition(":")[2].split(":")]
        requests, places = map(sum, zip(*shares, strict=True))
        if requests != PERCENT or places > PERCENT:
            why = f"its zones have {requests} % of the requests and {places} % of the places"
            yield "random_distribution", why, "write shares of requests that add up to 100, of places up to 100"


_MILLISECOND = 10**6


def read_clock(row: Row, loads: Mapping[str, Load]) -> tuple[Clock, int, int]:
    """The clock, the most boots of each arm, and how often each boot measures every load."""
    clock: Clock = row.get("clock")
    timing = TIMINGS[clock]
    for key, (reason, remedy) in timing.refuses.items():
        if key in row.node.entries:
            row.add(key, f"{key}: {reason}", remedy)
    for load in loads.values():
        if load.ramp < timing.shortest_ramp:
            least = show_time(timing.shortest_ramp)
            row.add("loads", f"load {load.name}: the {clock} clock needs a ramp of at least {least}", "write ramp: 2s")
    return clock, row.get(timing.boots_key), 1 if "windows" in timing.refuses else row.get("windows")


def read_pause(row: Row, arms: Mapping[str, Arm], windows: int) -> int:
    """The pause before each load, of which a boot measures ``windows``."""
    pause = int(row.get("pause"))
    set_to = [arm.queue.get("io_timeout") for arm in arms.values()]
    timeouts = [schema.REQUEST_TIMEOUT if each is None else int(each) * _MILLISECOND for each in set_to]
    # Without arms their topology did not load, so the request timeout is unknown.
    if windows > 1 and arms and pause <= (shortest := 2 * max(timeouts)):
        row.add(
            "pause",
            f"pause: expected more than {show_time(shortest)}, twice the request timeout: queues of the previous load"
            " would still count as active",
            "idle time is free on the virtual clock; on the wall clock write queue: {io_timeout: 5000} (ms)",
        )
    return pause


_SECOND = 10**9
_FEWEST_REQUESTS = 50
"""One more or less is 2 %."""
_PATHS = {StackKind.MULTIPATH, StackKind.NVME}
_SEQUENTIAL = {"read", "write", "rw", "readwrite"}


def check_carried(row: Row, arms: Mapping[str, Arm], loads: Mapping[str, Load]) -> None:
    """Reports, at each role, what the topology of an arm cannot carry."""
    for role_row, role, together, load in _placed(row, loads):
        # The arms that lack a CPU have the same remedy.
        for key, reason, remedy in islice(chain.from_iterable(_wrong_cpus(role, arm) for arm in arms.values()), 1):
            role_row.add(key, f"{key}: {reason}", remedy)
        for arm in arms.values():
            # Of several disks with a refusal for the same key, only the first is reported.
            refusals = [refusal for part in role.apart() for refusal in refused(part, together, arm)]
            if load is not None:
                refusals += [refusal for part in role.apart() for refusal in _not_counted(part, load, arm)]
            for key, reason, remedy in {refusal[0]: refusal for refusal in reversed(refusals)}.values():
                role_row.add(key, f"{key}: {reason}", remedy)


def check_memory(row: Row, arms: Mapping[str, Arm], loads: Mapping[str, Load]) -> None:
    """Reports, at each load, what does not fit into the memory of the guest of an arm."""
    for load in loads.values():
        every = ((arm, dict(_memory(load, arm.topology))) for arm in arms.values())
        for arm, needs in islice((pair for pair in every if sum(pair[1].values()) > pair[0].topology.memory), 1):
            text = ", ".join(f"{what} {show_size(size)}" for what, size in needs.items() if size)
            says = f"memory {show_size(arm.topology.memory)}, {show_size(sum(needs.values()))} are needed: {text}"
            remedy = "write more memory in its topology"
            row.get("loads")[load.name].add("", f"load {load.name}: arm {arm.name} has {says}", remedy)


_OF_JOB = 200 << 10
"""What fio 3.39 takes for each job: RssAnon and RssShmem of 1 and of 101 jobs."""


def _memory(load: Load, topology: Topology) -> Iterator[tuple[str, int]]:
    """The bytes of a guest's memory that a load surely takes, by what they are for."""
    yield "kernel and programs", SYSTEM_MEMORY
    depths = (max(role.sizes) * role.depth * len(role.disks) for role in load.roles.values())
    yield "buffers of fio", sum(depths) + load.jobs * _OF_JOB
    yield "the trace of folios", TRACE_BUFFER * topology.processors.cpus if load.folios else 0
    steps = [role for role in (*load.prepare, *load.warm) if role.rw in _WRITES and "norandommap" not in role.options]
    # fio writes the files that it is to read.
    files = [role for role in load.roles.values() if role.rw not in _WRITES or "overwrite" in role.options]
    files = [role for role in files if "size" in role.options and all(map(topology.is_filesystem, role.disks))]
    kept, written = topology.keeping(), 0.0
    for role in (*steps, *files):
        size = parse_size(role.options.get("size", "0")) * (1 if "files" in role.options else role.numjobs)
        for disk in {*topology.targets()}.intersection(role.disks):
            copies = parts(topology, disk, Access(0, size, role.bs, sequential=True, reads=0.0))
            written += size * sum(part.share for part in copies if part.ways[0].lun in kept)
    yield "data that the disks keep", 0 if topology.emulated else int(written)


def _placed(row: Row, loads: Mapping[str, Load]) -> Iterator[tuple[Row, Role, Iterable[Role], Load | None]]:
    """Every sound role with those that run at the same time and its load, None for a step before the load."""
    for name, role_name, role_row in role_rows(row):
        if name in loads and (role := loads[name].roles.get(role_name)):
            yield role_row, role, loads[name].apart().roles.values(), loads[name]
    for name, load in loads.items():
        load_row, steps = row.get("loads")[name], (*load.prepare, *load.warm)
        rows = [step for key in schema.STEP_KEYS for step in load_row.get(key, ())]
        # With a mistake in one of them nobody knows which is which.
        for step_row, step in zip(rows, steps, strict=True) if len(rows) == len(steps) else ():
            yield step_row, step, step.apart(), None


def check_lost(row: Row, arms: Mapping[str, Arm], loads: Mapping[str, Load]) -> None:
    for load in loads.values():
        for loss_row, loss in zip(row.get("loads")[load.name].get("lost", ()), load.lost, strict=False):
            refusals = [refusal for arm in arms.values() for refusal in _not_to_lose(load, loss, arm)]
            for key, reason, remedy in dict.fromkeys(refusals):
                loss_row.add(key, f"lost: {reason}", remedy)


def _not_to_lose(load: Load, loss: Loss, arm: Arm) -> Iterator[tuple[str, str, str]]:
    """Why a path cannot be lost: (key, reason, remedy)."""
    start, end, topology = show_time(loss.start), show_time(loss.end), arm.topology
    if not loss.start < loss.end <= load.ramp + load.runtime:
        yield "to", f"{end} is not after {start} and within the load", "write another time"
    groups = [stack.over for stack in topology.stacks.values() if stack.kind in _PATHS and loss.path in stack.over]
    if loss.path not in topology.luns or not groups or topology.emulated:
        known = [name for stack in topology.stacks.values() if stack.kind in _PATHS for name in stack.over]
        reason = f"{loss.path} in topology {topology.name} of arm {arm.name} is no path of a device in the guest"
        yield "path", reason, f"paths: {names(known)}" if known and not topology.emulated else ""
        return
    hba = topology.hbas[topology.luns[loss.path].hba]
    if hba.driver is Driver.NVMET_TCP and sum(lun.hba == hba.name for lun in topology.luns.values()) > 1:
        yield "path", f"the other paths of HBA {hba.name} of arm {arm.name} would be lost too", "give it its own HBA"
    gone = [other.path for other in load.lost if other.start <= loss.start < other.end]
    if any(set(gone).issuperset(group) for group in groups):
        yield "from", f"no path is left at {start}", "lose one after the other"
    if gone.count(loss.path) > 1:
        yield "from", f"{loss.path} is lost already at {start}", "write one entry for both"


def refused(role: Role, together: Iterable[Role], arm: Arm) -> Iterator[tuple[str, str, str]]:
    """Why the arm cannot carry a role on one disk together with the others: (key of the role, reason, remedy)."""
    topology, targets = arm.topology, arm.topology.targets()
    if role.disk not in targets:
        yield "disk", _no_target(role.disk, arm), f"known: {names(targets)}"
        return
    yield from _wrong_place(role, topology)
    yield from _zones(role, topology)
    yield from _cgroups(role, arm)
    yield from _polling(role, together, topology)
    size = topology.region(role.disk).size
    used, start = _extent(role, size)
    largest = max(role.sizes)
    if start + used > size or largest > used:
        yield "disk", f"{role.disk} of {show_size(size)} is too small for this role", "reduce size, offset or bs"
    if role.disk not in topology.disks:
        return
    disk = topology.disks[role.disk]
    unserved = list(_token_bucket(role, disk, topology.driver(disk.name)))
    yield from unserved
    if unserved:
        return
    in_flight = _in_flight(role, together, topology)
    wait = longest_wait(disk, largest, in_flight, topology)
    timeout = int(arm.queue["io_timeout"]) * _MILLISECOND if "io_timeout" in arm.queue else COMMAND_TIMEOUT
    if wait >= timeout:
        says = f"{in_flight} requests in {show_time(wait)}, the command timeout is {timeout / _SECOND:g} s"
        yield "iodepth", f"disk {disk.name} serves {says}", "reduce iodepth or use a faster disk"


def _wrong_cpus(role: Role, arm: Arm) -> Iterator[tuple[str, str, str]]:
    emulated = arm.topology.emulated
    count = processors(arm.topology) if emulated else arm.topology.processors.cpus
    if (text := role.options.get("cpus")) and not role.cpus:
        yield "cpus", f"{text} has no CPU", "write a list such as 0-3,5"
    elif unknown := [cpu for cpu in role.cpus if cpu >= count]:
        remedy = f"its machine has CPUs 0 to {count - 1}" if emulated else f"write machine: {{cpus: {unknown[0] + 1}}}"
        yield "cpus", f"arm {arm.name} has no CPU {unknown[0]}", remedy
    elif count > 1 and not role.cpus and not emulated:
        yield "cpus", f"arm {arm.name} has {count} CPUs, and the role does not say which it runs on", "write cpus: 0"


def _not_counted(role: Role, load: Load, arm: Arm) -> Iterator[tuple[str, str, str]]:
    """Whether its folios are not told apart, or too few requests pass a QEMU throttle in a window for a ratio."""
    stack = arm.topology.stacks.get(role.disk)
    # The files of btrfs have a device number that is not a disk's.
    if load.folios and (stack is None or stack.type not in ("ext4", "xfs")):
        yield "disk", f"the folios of {role.disk} are not counted, only those of files on ext4 and xfs", "remove folios"
    disk = arm.topology.disks.get(role.disk)
    if not arm.topology.emulated or disk is None or disk.rate is None:
        return
    count = disk.rate * load.runtime // (role.bs * _SECOND)
    if count < _FEWEST_REQUESTS:
        says = f"{count} requests in a window of {show_time(load.runtime)}, too few for a ratio ({_FEWEST_REQUESTS})"
        remedy = "reduce bs, lengthen the window or use a faster disk"
        yield "bs", f"the throttle of disk {disk.name} passes {says}", remedy


def _no_target(name: str, arm: Arm) -> str:
    topology = arm.topology
    paths = [lun.name for lun in topology.luns.values() if name in lun.disks]
    if paths:
        return f"disk {name} in topology {topology.name} has several paths: name one of {names(paths)}"
    return f"no disk {name} in topology {topology.name} of arm {arm.name}{nearest(name, topology.targets())}"


def _cgroups(role: Role, arm: Arm) -> Iterator[tuple[str, str, str]]:
    if CGROUP_FILES.keys() & role.options.keys() and any(key.startswith("throttle/") for key in arm.queue):
        yield "disk", f"arm {arm.name} has queue.throttle, which uses cgroups of version 1", "use io_max alone"
    if "bfq_weight" in role.options and arm.queue.get("scheduler") != "bfq":
        yield "bfq_weight", f"arm {arm.name} does not use bfq", "write queue: {scheduler: bfq}"
    devices = [stack.name for stack in arm.topology.below(role.disk) if stack.kind is not StackKind.FILESYSTEM]
    for key in ("bfq_weight", "io_latency", "io_weight"):
        if key in role.options and devices:
            reason = f"elevator, io.latency and iocost are those of the disks below {devices[0]}"
            yield key, reason, f"remove {key}, or use io_max"
    if "io_weight" in role.options and "enable=1" not in arm.queue.get("iocost/qos", "").split():
        yield "io_weight", f"arm {arm.name} does not enable iocost", 'write queue: {iocost.qos: "enable=1"}'


def _polling(role: Role, together: Iterable[Role], topology: Topology) -> Iterator[tuple[str, str, str]]:
    if not role.polls:
        return
    hba = topology.hbas[topology.luns[topology.leaves(role.disk)[0]].hba]
    if role.disk in topology.stacks or not hba.poll_queues:
        remedy = f"write poll_queues: 1 at an HBA of driver {Driver.NULL_BLK}; a draft: --topology, or --without hipri"
        yield "hipri", f"{role.disk} has no poll queues", remedy
    elif not all(other.polls for other in together):
        yield "hipri", "roles of this load that do not poll have other tags, which no bound knows", "let all poll"


_NO_DISCARD = (StackKind.SNAPSHOT, StackKind.CRYPT, StackKind.LOOP)
_OF_ZONES = ("zonesize", "max_open_zones")
_ONLY_FILES = ("files", "nrfiles", "create", "overwrite", schema.AGE)


def _wrong_place(role: Role, topology: Topology) -> Iterator[tuple[str, str, str]]:
    """Keys that belong to files and not to devices, or the other way round; discards that a disk does not take."""
    if role.rw == "trim":
        disks = [topology.disks[name] for lun in topology.leaves(role.disk) for name in topology.luns[lun].disks]
        below = topology.below(role.disk)
        stacks = [stack.name for stack in below if stack.kind in _NO_DISCARD or stack.level in PARITY]
        if stacks or topology.is_filesystem(role.disk) or not all(disk.discard for disk in disks):
            yield "rw", f"{(*stacks, role.disk)[0]} takes no discards", "name a device whose disks have discard: true"
    if not topology.is_filesystem(role.disk):
        for key in filter(role.options.get, _ONLY_FILES):
            yield key, f"{role.disk} is not a filesystem", f"remove {key}"
        return
    if "offset" in role.options:
        yield "offset", f"a file of {role.disk} is used from its start", "remove offset"
    if "size" not in role.options:
        yield "disk", f"a role on the filesystem {role.disk} needs a size", "write size: 64M"


def _zones(role: Role, topology: Topology) -> Iterator[tuple[str, str, str]]:
    """Keys of zones on a disk that has none, and writes to a zoned disk that its zones do not take."""
    zoned = topology.zoned(role.disk)
    zone, conventional = (zoned.zone_size, zoned.zone_nr_conv * zoned.zone_size) if zoned else (0, 0)
    used, start = _extent(role, topology.region(role.disk).size)
    own = parse_size(role.options.get("zonesize", str(zone)))
    if "zonemode" not in role.options:
        yield from ((key, "zonemode is missing", "write zonemode: zbd") for key in _OF_ZONES if key in role.options)
        if zone and role.rw not in READS and start + used > conventional:
            yield "zonemode", f"{role.disk} is zoned", "write zonemode: zbd, or a size within its conventional zones"
    elif topology.is_filesystem(role.disk):
        yield "zonemode", f"{role.disk} is a filesystem", "remove zonemode"
    elif not own or zone not in (0, own):
        yield "zonesize", f"zones of {role.disk} have {show_size(zone)}", "give its disk a zone_size"
    elif start % own or used % own:
        yield "zonemode", f"size and offset are not whole zones of {show_size(own)}", "write size: and offset:"
    elif zoned and 0 < zoned.zone_max_open < int(role.options.get("max_open_zones", 0)):
        yield "max_open_zones", f"fio refuses more than the {zoned.zone_max_open} of {role.disk}", "write less"


def _extent(role: Role, whole: int) -> tuple[int, int]:
    """Bytes that the role uses, and their offset on its disk."""
    start = parse_size(role.options.get("offset", "0"))
    size = role.options.get("size")
    return (parse_size(size) if size else max(whole - start, 0)), start


def _token_bucket(role: Role, disk: Disk, driver: Driver) -> Iterator[tuple[str, str, str]]:
    if tick_bytes(disk, driver) is None:
        return
    largest = carries(disk, 1 << 40, driver)
    if len(role.sizes) > 1:
        yield "bssplit", f"disk {disk.name} serves whole requests of one size in a tick", "give the disk a service time"
    elif reason := carries(disk, role.bs, driver):
        yield "bs", reason, "reduce bs or use a faster disk"
    elif not role.direct:
        remedy = "write direct: true, or give the disk a service time"
        yield "direct", f"the page cache makes requests of any size: {largest}", remedy
    elif role.rw in _SEQUENTIAL and carries(disk, role.bs * role.depth, driver):
        remedy = "a smaller iodepth, random requests, or a disk with service"
        yield "rw", f"sequential requests in flight together are merged: {largest}", remedy


def _in_flight(role: Role, together: Iterable[Role], topology: Topology) -> int:
    """Requests that all roles on this role's disk can have at the device at once."""
    depth = sum(other.depth for other in together if other.disk == role.disk)
    return min(depth, topology.hbas[topology.luns[topology.region(role.disk).lun].hba].cmd_per_lun)
