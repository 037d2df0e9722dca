# SPDX-License-Identifier: GPL-2.0-only
"""The guest's steps for a topology: devices in the guest or of QEMU, stacks, settings of queues, and lost paths.

Stacks are device-mapper tables, md arrays, loop devices and filesystems over LUNs, named as in the topology. A striped
LVM volume is a dm-stripe table with the offset of a physical extent; the data path is the same.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count

from lab.guest.steps import Step
from lab.guest.steps.device import Array, Filesystem, LinkStep, LocklessArray, Loop, Module, TableStep, device, sysfs
from lab.guest.steps.load import Meanwhile, Message, PathMark, Timed
from lab.guest.steps.setting import Cgroup, Confirm, PathState, Throttle, Try, Tune
from lab.kernels.binaries import module_name
from lab.realise import drivers, inventory
from lab.topology.fields import CONFIG, CRYPT_FLAGS, LOCKLESS, REPEAT_COUNT
from lab.topology.model import NEAR, SCSI, Driver, Loss, Stack, StackKind, Topology, build_order

THROTTLE, IOCOST = "throttle/", "iocost/"
_ALWAYS, _SAYS = "/proc/sys/kernel/ostype", "Linux"
"""A file of every guest, and what it contains."""
SCHEDULER_MODULES = {
    "bfq": "bfq",
    "kyber": "kyber-iosched",
    "mq-deadline": "mq-deadline",
    "deadline": "deadline-iosched",
    "cfq": "cfq-iosched",
}


def devices(topology: Topology) -> tuple[Step, ...]:
    """Steps that create every LUN and stack of the topology under its name."""
    luns = inventory.steps(topology) if topology.emulated else drivers.steps(topology)
    recorded = inventory.records(topology) if topology.emulated else ()
    page_cache = (Tune(f"vm.{name}", f"/proc/sys/vm/{name}", value) for name, value in topology.vm.items())
    return (*luns, *_stack_steps(topology), *recorded, *page_cache, *_parameters(topology))


def _parameters(topology: Topology) -> Iterator[Step]:
    """Read back the module parameters among the kernel words; the command line is confirmed as a whole."""
    for word in topology.kernel_words:
        name, _, value = word.partition("=")
        module, dot, parameter = name.partition(".")
        if dot:
            path = f"/sys/module/{module_name(module)}/parameters/{parameter}"
            yield Confirm(word_knob(name), path, value)


def word_knob(name: str) -> str:
    """The knob under which the value of a module parameter on the command line is confirmed."""
    return f"kernel_words[{name}]"


def watches(topology: Topology) -> dict[str, str]:
    """Files of the guest with the number of queued requests, by name: ``inflight[LUN]``, ``device_busy[LUN]``,
    ``host_busy[HBA]``. A file with several numbers counts as their sum.
    """
    files = {f"inflight[{name}]": f"{sysfs(name)}/inflight" for name in (*topology.luns, *topology.stacks)}
    scsi = [lun for lun in topology.luns.values() if topology.hbas[lun.hba].driver in SCSI]
    files |= {f"device_busy[{lun.name}]": f"{sysfs(lun.name)}/device/device_busy" for lun in scsi}
    # The parent folder of a LUN's target belongs to the host.
    hosts = {lun.hba: f"{sysfs(lun.name)}/device/../.." for lun in scsi}
    if topology.emulated:
        hosts = {hba: inventory.scsi_host(topology, hba) for hba in topology.hbas if hba in hosts}
    return files | {f"host_busy[{hba}]": f"{host}/scsi_host/host*/host_busy" for hba, host in hosts.items()}


def attribute_file(topology: Topology, name: str, path: str) -> str:
    """The file of an attribute of a LUN or stack: in sysfs, or below ``config/`` of null_blk or scsi_debug."""
    if not path.startswith(CONFIG):
        return f"{sysfs(name)}/{path}"
    null_blk = topology.hbas[topology.luns[name].hba].driver is Driver.NULL_BLK
    folder = f"{drivers.CONFIGFS}/nullb/nullb{[*topology.luns].index(name)}" if null_blk else drivers.SCSI_DEBUG
    return f"{folder}/{path.removeprefix(CONFIG)}"


def elevator(name: str) -> tuple[Step, ...]:
    """What loads a scheduler: ``none`` and those that every kernel has need nothing."""
    return (Module(SCHEDULER_MODULES[name]),) if name in SCHEDULER_MODULES else ()


def queue_settings(topology: Topology, queue: Mapping[str, str]) -> tuple[Step, ...]:
    """Steps that set and read back the queue attributes of every LUN, and those of single LUNs.

    The scheduler comes first: a change of the scheduler resets nr_requests.
    """
    attributes = {key: value for key, value in queue.items() if not key.startswith((THROTTLE, IOCOST))}
    ordered = sorted(attributes.items(), key=lambda item: item[0] != "scheduler")
    settings: list[Step] = [*elevator(queue.get("scheduler", ""))]
    for lun in topology.luns:
        for attribute, value in ordered:
            settings.append(Tune(f"queue.{attribute}[{lun}]", f"{sysfs(lun)}/queue/{attribute}", value))
    # The model comes first: iocost starts with what it has when it is enabled.
    for key in (key for name in ("model", "qos") if (key := f"{IOCOST}{name}") in queue):
        file = f"io.cost.{key.removeprefix(IOCOST)}"
        settings += [Cgroup(".", lun, file, queue[key]) for lun in topology.luns]
    # Limits of the root group apply to all I/O of a disk. Only cgroup v1 has them.
    for key in (key for key in queue if key.startswith(THROTTLE)):
        file = f"blkio.throttle.{key.removeprefix(THROTTLE)}_device"
        settings += [Throttle(f"queue.{key}[{lun}]", lun, f"{file} {queue[key]}") for lun in topology.luns]
    return tuple(settings)


def losses(topology: Topology, lost: Sequence[Loss]) -> Iterator[Timed]:
    """Each path fails all I/O and is given back: a SCSI device goes offline, a port of an NVMe target inaccessible."""
    # One path may be lost when another one is back.
    yield from (Timed(loss.end, step) for loss in lost for step in _give_back(topology, loss.path))
    yield from (Timed(loss.start, step) for loss in lost for step in _lose(topology, loss.path))


def meanwhile(load: str, jobs: int, events: Iterable[Timed], steps: Iterable[Step]) -> tuple[Step, ...]:
    """The ``steps`` of ``load``; beside them, from the time at which its ``jobs`` begin, ``events`` are carried out."""
    every = sorted(events, key=lambda event: event.at)
    modules = [event.step for event in every if isinstance(event.step, Module)]
    timed = [event for event in every if not isinstance(event.step, Module)]
    beside, confirmed = [], []
    for cpu in dict.fromkeys(event.cpu for event in timed):
        own = [(event.at, event.step) for event in timed if event.cpu == cpu]
        # A guest may be late. What a step records must not change while results are sent: the last one is waited for.
        name = load if cpu is None else f"{load}.{cpu}"
        done = f"/lab/{name}.done"
        beside.append(Meanwhile(name, jobs, (*own, (own[-1][0], LinkStep(_ALWAYS, done))), cpu))
        confirmed.append(Confirm(f"events of {name}", done, _SAYS))
    return (*modules, *beside, *steps, *confirmed)


def _lose(topology: Topology, path: str) -> Iterator[Step]:
    yield PathMark(path, "lost")
    yield _state(topology, path, scsi="offline", nvme="inaccessible")


def _give_back(topology: Topology, path: str) -> Iterator[Step]:
    yield _state(topology, path, scsi="running", nvme="optimized")
    yield PathMark(path, "back")
    for stack in topology.stacks.values():
        if stack.kind is StackKind.MULTIPATH and path in stack.over:
            # Without multipathd nobody else finds out.
            yield Message(stack.name, f"reinstate_path {device(path)}")


def _state(topology: Topology, path: str, *, scsi: str, nvme: str) -> Step:
    knob, hba = f"path[{path}]", topology.luns[path].hba
    if topology.hbas[hba].driver is Driver.NVMET_TCP:
        return PathState(knob, drivers.state_of_port(topology, hba), nvme)
    return PathState(knob, f"{sysfs(path)}/device/state", scsi)


_SECTOR = 512
_SELECTOR_MODULES = {
    "round-robin": "dm-round-robin",
    "queue-length": "dm-queue-length",
    "service-time": "dm-service-time",
    "historical-service-time": "dm-historical-service-time",
}
_SELECTOR_ARGUMENTS = {"round-robin": "1 {count}", "queue-length": "1 {count}", "service-time": "2 {count} {weight}"}
"""Selector arguments of each path in a table: their number, the repeat count, service-time's relative throughput."""
_UUID = "11111111-2222-4333-8444-{:012}"
"""A random UUID would make each boot write other bytes, and its hash seed another order of directories."""
_FIRST_UUID = 555_555_555_555
_MKFS_WORDS = {
    "ext4": "-q -F -U {uuid} -E hash_seed={uuid}",
    # mkfs.xfs 6.13 would make counters of extents that kernels before 5.19 do not mount.
    "xfs": "-q -f -m uuid={uuid} -i nrext64=0",
    "btrfs": "-q -f -U {uuid}",
}
_KEY = bytes(range(64)).hex()
"""The two halves of a key of aes-xts must differ."""
# dm-crypt asks modprobe for its cipher, which the guest does not have.
_MODULES: Mapping[StackKind, tuple[str, ...]] = {
    StackKind.SNAPSHOT: ("dm-snapshot",),
    StackKind.CRYPT: ("dm-crypt", "aesni-intel"),
}
_MD_MODULES = {"raid0": "raid0", "raid1": "raid1", "raid10": "raid10"}


def _stack_steps(topology: Topology) -> Iterator[Step]:
    """Steps that create every stack under its name, over the LUNs that are there."""
    numbers = {kind: count() for kind in StackKind}
    for stack in build_order(topology):
        number = next(numbers[stack.kind])
        if stack.kind is StackKind.MD:
            yield from _array(stack, number)
        elif stack.kind is StackKind.FILESYSTEM:
            yield from _filesystem(stack, number)
        elif stack.kind is StackKind.LOOP:
            yield from _loop(topology, stack, number)
        elif stack.kind is not StackKind.NVME:
            yield Module("dm-mod")
            yield from map(Module, _modules(stack))
            yield from _tables(topology, stack)
        for attribute, value in stack.settings.items():
            yield Tune(f"stack.{attribute.replace('/', '.')}[{stack.name}]", f"{sysfs(stack.name)}/{attribute}", value)
        for attribute, value in stack.tried.items():
            if attribute == REPEAT_COUNT.name:
                continue  # in the table
            knob = attribute.replace("/", ".")
            yield Try(f"stack.{stack.name}.{knob}", f"{sysfs(stack.name)}/{attribute}", value)


def _modules(stack: Stack) -> tuple[str, ...]:
    if stack.kind is StackKind.MULTIPATH:
        return ("dm-multipath", _SELECTOR_MODULES[stack.selector])
    return _MODULES.get(stack.kind, ())


def _tables(topology: Topology, stack: Stack) -> Iterator[Step]:
    if stack.kind is not StackKind.SNAPSHOT:
        yield TableStep(stack.name, _rows(topology, stack))
        return
    sectors, (origin, store) = topology.stack_size(stack.name) // _SECTOR, map(device, stack.over)
    # P: the store is persistent, as that of LVM.
    row = f"0 {sectors} snapshot {origin} {store} P {stack.chunk // _SECTOR}"
    if stack.side == "snapshot":
        yield TableStep(stack.name, (row,))
        return
    yield TableStep(f"{stack.name}-snapshot", (row,))
    yield TableStep(stack.name, (f"0 {sectors} snapshot-origin {origin}",))


def _rows(topology: Topology, stack: Stack) -> tuple[str, ...]:
    if stack.kind is StackKind.LINEAR:
        return tuple(drivers.linear((device(name), stack.offset, _part(topology, stack, name)) for name in stack.over))
    sectors = topology.stack_size(stack.name) // _SECTOR
    if stack.kind is StackKind.STRIPE:
        members = "".join(f" {device(member)} 0" for member in stack.over)
        return (f"0 {sectors} striped {len(stack.over)} {stack.chunk // _SECTOR}{members}",)
    if stack.kind is StackKind.CRYPT:
        flags = [flag.name for flag in CRYPT_FLAGS if getattr(stack, flag.name)]
        options = " ".join(("", str(len(flags)), *flags)) if flags else ""
        return (f"0 {sectors} crypt aes-xts-plain64 {_KEY} 0 {device(stack.over[0])} 0{options}",)
    return (f"0 {sectors} multipath {_multipath(stack)}",)


def _part(topology: Topology, stack: Stack, member: str) -> int:
    """Bytes of a member that a linear stack uses."""
    whole = topology.stack_size(member) if member in topology.stacks else topology.lun_size(member)
    return stack.size or whole - stack.offset


def _multipath(stack: Stack) -> str:
    every = tuple(zip(stack.over, stack.throughput or (1,) * len(stack.over), strict=True))
    groups = [every] if stack.policy == "multibus" else [(path,) for path in every]
    features = "2 queue_mode bio" if stack.mode == "bio" else "0"
    return f"{features} 0 {len(groups)} 1 " + " ".join(_group(stack, group) for group in groups)


def _group(stack: Stack, paths: tuple[tuple[str, int], ...]) -> str:
    """``paths`` with their relative throughput."""
    arguments = _SELECTOR_ARGUMENTS.get(stack.selector, "0")
    each = []
    for path, weight in paths:
        repeats, *values = arguments.format(count=stack.repeat_count, weight=weight).split()
        each.append(" ".join((device(path), *values)))
    return f"{stack.selector} 0 {len(paths)} {repeats} {' '.join(each)}"


def _filesystem(stack: Stack, number: int) -> Iterator[Step]:
    yield Module(stack.type)
    words = (_MKFS_WORDS[stack.type].format(uuid=_UUID.format(_FIRST_UUID + number)), *stack.mkfs.split())
    yield Filesystem(stack.name, stack.over[0], " ".join((stack.type, stack.mount or "defaults", *words)))


def _loop(topology: Topology, stack: Stack, number: int) -> Iterator[Step]:
    (below,) = stack.over
    file = f"{device(below)}/{stack.name}.loop" if topology.is_filesystem(below) else device(below)
    yield Module("loop")
    mode = "on" if stack.direct_io else "off"
    yield Loop(stack.name, number, f"{file} {stack.size} --direct-io={mode}")
    # The kernel goes through the page cache where the file cannot be read directly.
    yield Confirm(f"stack.direct_io[{stack.name}]", f"{sysfs(stack.name)}/loop/dio", str(int(stack.direct_io)))


def _array(stack: Stack, number: int) -> Iterator[Step]:
    yield Module("md-mod")
    yield Module(_MD_MODULES.get(stack.level, "raid456"))
    lockless = stack.bitmap == LOCKLESS
    bitmap = "internal" if lockless else stack.bitmap
    arguments = [f"--level={stack.level}", f"--raid-devices={len(stack.over)}", f"--bitmap={bitmap}"]
    if stack.chunk:
        arguments.append(f"--chunk={stack.chunk >> 10}K")
    if stack.size:
        arguments.append(f"--size={stack.size >> 10}K")
    if stack.layout != NEAR:
        arguments.append(f"--layout={stack.layout[0]}2")
    if stack.write_behind:
        arguments.append(f"--write-behind={stack.write_behind}")
    if not stack.resync and stack.level != "raid0":
        arguments.append("--assume-clean")
    members, first = tuple(map(device, stack.over)), len(stack.over) - stack.write_mostly
    flag = ("--write-mostly",) if stack.write_mostly else ()
    made = LocklessArray if lockless else Array
    yield made(stack.name, number, " ".join((*arguments, *members[:first], *flag, *members[first:])))
    if stack.write_behind:
        backlog = f"{sysfs(stack.name)}/md/bitmap/backlog"
        yield Confirm(f"stack.write_behind[{stack.name}]", backlog, str(stack.write_behind))
    if lockless:
        yield Confirm(f"stack.bitmap[{stack.name}]", f"{sysfs(stack.name)}/md/bitmap_type", "llbitmap")
