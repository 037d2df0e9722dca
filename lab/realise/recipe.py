# SPDX-License-Identifier: GPL-2.0-only
"""The guest's steps for a topology: devices in the guest or of QEMU, settings of queues, and paths that are lost."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from lab.guest.steps import Step
from lab.guest.steps.device import LinkStep, Module, device, sysfs
from lab.guest.steps.load import Meanwhile, Message, PathMark, Timed
from lab.guest.steps.setting import Cgroup, Confirm, PathState, Throttle, Tune
from lab.kernels.binaries import module_name
from lab.realise import drivers, inventory, stacks
from lab.topology.fields import CONFIG
from lab.topology.model import SCSI, Driver, Loss, StackKind, Topology

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
    own = inventory.steps(topology) if topology.emulated else (*drivers.steps(topology), *stacks.steps(topology))
    page_cache = (Tune(f"vm.{name}", f"/proc/sys/vm/{name}", value) for name, value in topology.vm.items())
    return (*own, *page_cache, *_parameters(topology))


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


def meanwhile(
    topology: Topology, load: str, lost: Sequence[Loss], events: Sequence[Timed], steps: Iterable[Step]
) -> tuple[Step, ...]:
    """The ``steps`` of ``load``; beside them each path fails all I/O and is given back, and ``events`` are carried out.

    A SCSI device goes offline, a port of an NVMe target becomes inaccessible.
    """
    # One path may be lost when another one is back.
    timed = [Timed(loss.end, step) for loss in lost for step in _give_back(topology, loss.path)]
    timed += [event for event in events if not isinstance(event.step, Module)]
    timed += [Timed(loss.start, step) for loss in lost for step in _lose(topology, loss.path)]
    modules = [event.step for event in events if isinstance(event.step, Module)]
    timed.sort(key=lambda event: event.at)
    beside, confirmed = [], []
    for cpu in dict.fromkeys(event.cpu for event in timed):
        own = Meanwhile(load, tuple((event.at, event.step) for event in timed if event.cpu == cpu), cpu)
        # A guest may be late. What a step records must not change while results are sent: the last one is waited for.
        done = f"/lab/{own.name}.done"
        beside.append(replace(own, timed=(*own.timed, (own.timed[-1][0], LinkStep(_ALWAYS, done)))))
        confirmed.append(Confirm(f"events of {own.name}", done, _SAYS))
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
