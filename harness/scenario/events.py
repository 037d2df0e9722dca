# SPDX-License-Identifier: GPL-2.0-only
"""Settings that change while a load runs."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from lab.base.units import show_time
from lab.topology.fields import CONFIG
from lab.topology.limits import OF_ELEVATORS
from lab.topology.model import EMULATED, SCSI, Driver, StackKind, Topology
from lab.yaml.fields import Row
from lab.yaml.strict import names, nearest

_MOST_EVENTS = 1000
_Queues = tuple[Topology, Mapping[str, str]]
_MAPPED = (StackKind.LINEAR, StackKind.STRIPE, StackKind.MULTIPATH, StackKind.SNAPSHOT, StackKind.CRYPT)
ACTIONS: Mapping[str, tuple[StackKind, ...]] = {
    "suspend": _MAPPED,
    "resume": _MAPPED,
    "freeze": (StackKind.FILESYSTEM,),
    "thaw": (StackKind.FILESYSTEM,),
    "fail": (StackKind.MD,),
    "remove": (StackKind.MD,),
    "re-add": (StackKind.MD,),
    "add": (StackKind.MD,),
    "delete": (),
    "rescan": (),
}
"""What is done to a stack, by the kinds that have it: dmsetup, fsfreeze, mdadm with a member; without: a SCSI LUN."""
_FORMS = {frozenset({"queue"}), frozenset({"disk", "write", "to"}), frozenset({"disk", "do"})}
ENDED_BY = {"suspend": "resume", "freeze": "thaw", "delete": "rescan"}


@dataclass(frozen=True)
class Event:
    """What is set while a load runs, ``at`` ns from the start of its ramp, and again ``every`` ns until it ends.

    ``queue`` are settings of every LUN's queue; ``write`` is an attribute below /sys/block/``disk`` that is set ``to``
    a value, ``do`` one of ``ACTIONS``, with an array's ``member``; the kernel may refuse both. It waits until ``disk``
    has completed ``ios`` more. With ``errors`` I/O of ``disk`` may fail from then on. A task on ``cpu`` carries it out,
    beside those of other CPUs.
    """

    at: int
    every: int = 0
    queue: Mapping[str, str] = field(default_factory=dict)
    disk: str = ""
    write: str = ""
    to: str = ""
    do: str = ""
    member: str = ""
    ios: int = 0
    errors: bool = False
    cpu: int | None = None

    @property
    def text(self) -> str:
        """As in ``queue.scheduler=kyber at 20 ms and every 5 ms``."""
        settings = [f"queue.{key}={value}" for key, value in self.queue.items()]
        done = f"{self.do} {self.target}" if self.do else f"{self.disk}/{self.write}={self.to}"
        again = f" and every {show_time(self.every)}" if self.every else ""
        behind = f" and {self.ios} I/Os" if self.ios else ""
        by = "" if self.cpu is None else f" by CPU {self.cpu}"
        return f"{' '.join(settings) or done} at {show_time(self.at)}{behind}{again}{by}"

    @property
    def target(self) -> str:
        """The disk, with the member."""
        return f"{self.disk}/{self.member}" if self.member else self.disk

    def times(self, end: int) -> range:
        return range(self.at, end, self.every or end)


def io_may_fail(events: Iterable[Event]) -> bool:
    return any(event.errors for event in events)


def read_events(load_row: Row, end: int) -> Iterator[Event]:
    """The events of a load that lasts until ``end``."""
    for row in load_row.get("events", ()):
        given = frozenset(key for key in ("queue", "disk", "write", "to", "do") if row.get(key))
        if given not in _FORMS:
            row.add("", "events: expected queue, or disk with write and to or do", "write queue: {scheduler: none}")
        elif (key := next(filter(row.get, ("ios", "errors")), "")) and not row.get("disk"):
            row.add(key, "events: the I/Os of which disk?", "write disk: NAME, with write and to or with do")
        elif row.get("member") and not row.get("do"):
            actions = names(action for action, kinds in ACTIONS.items() if StackKind.MD in kinds)
            row.add("member", "events: what is done to the member?", f"write do: {actions}")
        elif (event := row.build(Event, queue=queue_attributes(row.get("queue")))) is not None:
            if event.at >= end or len(event.times(end)) > _MOST_EVENTS:
                says = f"{len(event.times(end))} times" if event.at < end else "after the load"
                row.add("at", f"events: {says}", f"write 1 to {_MOST_EVENTS} times before {show_time(end)}")
            yield event


def queue_attributes(row: Row | None, prefix: str = "") -> dict[str, str]:
    """Attributes of /sys/block/DEV/queue by name, of the keys with ``prefix``; of an elevator iosched/NAME."""
    if row is None:
        return {}
    given = ((key, row.get(key)) for key in row.node.entries if key.startswith(prefix))
    return {key.removeprefix(prefix).replace(".", "/"): str(value) for key, value in given if value is not None}


def check_events(load_row: Row, events: tuple[Event, ...], role_disks: set[str], arms: Mapping[str, _Queues]) -> None:
    """Reports at each event the first problem of an arm: its topology lacks the disk, its queues have no elevator."""
    set_to = {event.queue.get("scheduler", "none") for event in events}
    topologies = [topology for topology, _ in arms.values()]
    stacks = [stack for topology in topologies for stack in topology.stacks.values()]
    multipath = {stack.name for stack in stacks if stack.kind is StackKind.MULTIPATH}
    used = {lun for each in topologies for stack in each.stacks for lun in each.leaves(stack)}
    used |= {lun.name for each in topologies for lun in each.luns.values() if role_disks & {lun.name, *lun.disks}}
    for row, event in zip(load_row.get("events", ()), events, strict=False):
        problems = (problem for arm, queues in arms.items() for problem in _problems(event, arm, queues, set_to))
        for problem in islice(problems, 1):
            row.add(*problem)
        if event.do == "suspend" and event.disk in multipath and load_row.get("lost"):
            # multipath_message of 6.12: EBUSY.
            row.add("do", f"events: {event.disk} is told of a lost path, and not while it is suspended", "remove lost")
        if event.do == "delete" and event.disk in used:
            fails = f"events: a role or a stack uses {event.disk}, and its I/O would fail"
            row.add("disk", fails, "lost: takes a path away, do: fail a member of an array")
        ends = [other.at for other in events if other.do == ENDED_BY.get(event.do) and other.disk == event.disk]
        if event.do in ENDED_BY and max(ends, default=0) <= event.at:
            row.add("do", f"events: nothing ends this {event.do}", f"write do: {ENDED_BY[event.do]} behind it")


def _problems(event: Event, arm: str, queues: _Queues, set_to: set[str]) -> Iterator[tuple[str, str, str]]:
    """The key, message and remedy of what an arm does not allow; ``set_to`` are the elevators that events set."""
    topology, queue = queues
    needs = next((key for key in event.queue if key.startswith(OF_ELEVATORS)), "")
    if needs and set_to | {queue.get("scheduler", "none")} == {"none"}:
        yield "queue", f"events: {needs.replace('/', '.')} needs an elevator, and arm {arm} has none", ""
    if event.disk and event.disk not in (known := {*topology.luns, *topology.stacks}):
        message = f"events: arm {arm} has no LUN or stack {event.disk}{nearest(event.disk, known)}"
        yield "disk", message, f"known: {names(sorted(known))}"
    lun = topology.luns.get(event.disk)
    driver = topology.hbas[lun.hba].driver if lun else None
    if event.write.startswith(CONFIG) and driver not in {Driver.NULL_BLK, Driver.SCSI_DEBUG}:
        yield "disk", f"events: in arm {arm} {event.disk} is no LUN of null_blk or scsi_debug", "write a file of sysfs"
    if event.do and (message := _misfit(event, topology, driver)):
        yield "do", f"events: in arm {arm} {message}", ""
    if event.do == "delete" and lun and driver in {Driver.TCM_LOOP, Driver.TCMU}:
        # tcm_loop_driver_probe of 6.12 sets max_lun to 0, so a scan adds no LUN beyond it.
        first = next(other.name for other in topology.luns.values() if other.hba == lun.hba)
        if event.disk != first:
            message = f"events: in arm {arm} a rescan adds LUN 0 of {driver} alone, and that of {lun.hba} is {first}"
            yield "do", message, f"write an HBA of its own for {event.disk}"
    if event.ios and lun and queue.get("iostats") == "0":
        yield "ios", f"events: arm {arm} does not count the I/Os of {event.disk}", "leave out iostats: 0"
    if event.cpu is not None and event.cpu >= topology.processors.cpus:
        yield "cpu", f"events: arm {arm} has no CPU {event.cpu}", f"write machine: {{cpus: {event.cpu + 1}}}"


def _misfit(event: Event, topology: Topology, driver: Driver | None) -> str:
    """Why an action cannot be done to its disk."""
    kinds, stack = ACTIONS[event.do], topology.stacks.get(event.disk)
    if not kinds:
        # Scans of virtio-scsi and megasas outlast a load by 5 s, and mptsas's new disk has other counters.
        fits, wanted = driver in SCSI - EMULATED, "a SCSI LUN made in the guest"
    else:
        fits, wanted = stack is not None and stack.kind in kinds, f"a stack of kind {' or '.join(kinds)}"
    if not fits:
        return f"{event.disk} is not {wanted}, which {event.do} needs"
    members = stack.over if stack and stack.kind is StackKind.MD else ()
    if members and event.member not in members:
        return f"{event.do} needs a member of {event.disk}: {names(members)}"
    return f"{event.do} takes no member" if event.member and not members else ""
