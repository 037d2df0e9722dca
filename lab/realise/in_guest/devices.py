# SPDX-License-Identifier: GPL-2.0-only
"""A topology as devices inside the guest: pure functions from values to the guest's steps.

===========  =====================================================================================
tcm_loop     each disk a null_blk, LIO iblock on top, tcm_loop hosts whose LUNs share can_queue
scsi_debug   one host of scsi_debug, a target for each LUN, host_max_queue as the shared can_queue
tcmu         each disk modelled by the handler lab/native/diskd, tcm_loop hosts above
nvmet-tcp    each disk a null_blk behind an NVMe target, reached by TCP over the loopback device
null_blk     devices on one shared tag set (shared_tags=1), can_queue being its depth
===========  =====================================================================================
"""

from collections.abc import Iterator, Mapping, Sequence

from lab.guest.steps import Step
from lab.guest.steps.device import Module, Mount, NameBlock, device, sysfs
from lab.guest.steps.load import Meanwhile, Message, PathMark
from lab.guest.steps.setting import CGROUPS, Cgroup, Confirm, PathState, Tune
from lab.realise import stacks
from lab.realise.in_guest import null_blk, nvmet, tcm_loop, tcmu
from lab.realise.in_guest.null_blk import CONFIGFS
from lab.topology.model import Driver, Loss, StackKind, Topology

_MIB = 1 << 20


def _scsi_debug(topology: Topology) -> Iterator[Step]:
    (hba,) = topology.hbas.values()
    disks = [topology.disks[lun.disks[0]] for lun in topology.luns.values()]
    parameters = {
        "num_tgts": len(disks),
        "max_luns": 1,
        "dev_size_mb": disks[0].size // _MIB,
        "ndelay": disks[0].service,
        "submit_queues": hba.hw_queues,
        "max_queue": hba.can_queue,
        "host_max_queue": hba.can_queue,
        # Without a store no memory is used, and reads return zeroes.
        "fake_rw": 1,
    }
    yield Module("sd_mod")
    # Before 5.8 (c10fa55f5e7a) max_queue alone is the host's can_queue, and 4.4 has one queue. What the kernel made of
    # it is confirmed below.
    optional = ("host_max_queue", "submit_queues")
    yield Module("scsi_debug", " ".join(f"{key}={value}" for key, value in parameters.items()), optional)
    # scsi_debug replaces an invalid value without an error.
    yield Confirm("disk.service", "/sys/bus/pseudo/drivers/scsi_debug/ndelay", str(disks[0].service))
    host = "/sys/devices/pseudo*/adapter0/host*"
    for number, lun in enumerate(topology.luns.values()):
        yield NameBlock(lun.name, f"{host}/target*/*:0:{number}:0/block/*")
        yield from tcm_loop.queue_limits(hba, lun, f"{host}/scsi_host/host*/can_queue")


_BUILDERS = {
    Driver.TCM_LOOP: tcm_loop.steps,
    Driver.SCSI_DEBUG: _scsi_debug,
    Driver.NULL_BLK: null_blk.steps,
    Driver.TCMU: tcmu.steps,
    Driver.NVMET_TCP: nvmet.steps,
}
THROTTLE, IOCOST = "throttle/", "iocost/"
_FIRST_SCSI_DISK = "8:0"
SCHEDULER_MODULES = {
    "bfq": "bfq",
    "kyber": "kyber-iosched",
    "mq-deadline": "mq-deadline",
    "deadline": "deadline-iosched",
    "cfq": "cfq-iosched",
}


def steps(topology: Topology) -> Iterator[Step]:
    """Steps that create every LUN and stack of the topology under its name."""
    yield Module("configfs")
    yield Mount("configfs", CONFIGFS)
    yield from _BUILDERS[next(iter(topology.hbas.values())).driver](topology)
    yield from stacks.steps(topology)


def queue_settings(topology: Topology, queue: Mapping[str, str]) -> tuple[Step, ...]:
    """Steps that set and read back the queue attributes of every LUN, and those of single LUNs.

    The scheduler comes first: a change of the scheduler resets nr_requests.
    """
    attributes = {key: value for key, value in queue.items() if not key.startswith((THROTTLE, IOCOST))}
    ordered = sorted(attributes.items(), key=lambda item: item[0] != "scheduler")
    settings: list[Step] = []
    module = SCHEDULER_MODULES.get(queue.get("scheduler", ""))
    if module:
        settings.append(Module(module))
    for lun in topology.luns:
        for attribute, value in ordered:
            settings.append(Tune(f"queue.{attribute}[{lun}]", f"{sysfs(lun)}/queue/{attribute}", value))
    # The model comes first: iocost starts with what it has when it is enabled.
    for key in (key for name in ("model", "qos") if (key := f"{IOCOST}{name}") in queue):
        file = f"io.cost.{key.removeprefix(IOCOST)}"
        settings += [Cgroup(".", lun, file, queue[key]) for lun in topology.luns]
    settings += _limits(topology, {key: value for key, value in queue.items() if key.startswith(THROTTLE)})
    return tuple(settings)


def _limits(topology: Topology, limits: Mapping[str, str]) -> Iterator[Step]:
    """Limits of the root group apply to all I/O of a disk. Only cgroup v1 has them."""
    if not limits:
        return
    (lun,) = topology.luns
    yield Mount("cgroup", CGROUPS)
    yield Confirm(f"queue.{THROTTLE}device[{lun}]", f"{sysfs(lun)}/dev", _FIRST_SCSI_DISK)
    for key, limit in limits.items():
        file = f"{CGROUPS}/blkio.throttle.{key.removeprefix(THROTTLE)}_device"
        yield Tune(f"queue.{key}[{lun}]", file, f"{_FIRST_SCSI_DISK} {limit}")


def losses(topology: Topology, load: str, lost: Sequence[Loss]) -> Meanwhile:
    """The step that makes each path fail all I/O and gives it back while ``load`` runs.

    A SCSI device goes offline, a port of an NVMe target becomes inaccessible.
    """
    # One path may be lost when another one is back.
    timed = [(loss.end, step) for loss in lost for step in _give_back(topology, loss.path)]
    timed += [(loss.start, step) for loss in lost for step in _lose(topology, loss.path)]
    return Meanwhile(load, tuple(sorted(timed, key=lambda pair: pair[0])))


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
        return PathState(knob, nvmet.state_of_port(topology, hba), nvme)
    return PathState(knob, f"{sysfs(path)}/device/state", scsi)
