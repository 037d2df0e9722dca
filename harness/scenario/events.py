# SPDX-License-Identifier: GPL-2.0-only
"""Settings that change while a load runs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from lab.base.units import show_time
from lab.topology.fields import CONFIG
from lab.topology.limits import OF_ELEVATORS
from lab.topology.model import Driver, Topology
from lab.yaml.fields import Row
from lab.yaml.strict import names, nearest

_MOST_EVENTS = 1000
_Queues = tuple[Topology, Mapping[str, str]]


@dataclass(frozen=True)
class Event:
    """What is set while a load runs, ``at`` ns from the start of its ramp, and again ``every`` ns until it ends.

    ``queue`` are settings of every LUN's queue; ``write`` is an attribute below /sys/block/``disk`` that is set ``to``
    a value, which the kernel may refuse. A task on ``cpu`` writes it, beside those of other CPUs.
    """

    at: int
    every: int = 0
    queue: Mapping[str, str] = field(default_factory=dict)
    disk: str = ""
    write: str = ""
    to: str = ""
    cpu: int | None = None

    @property
    def text(self) -> str:
        """As in ``queue.scheduler=kyber at 20 ms and every 5 ms``."""
        settings = {f"queue.{key}": value for key, value in self.queue.items()} or {
            f"{self.disk}/{self.write}": self.to
        }
        again = f" and every {show_time(self.every)}" if self.every else ""
        by = "" if self.cpu is None else f" by CPU {self.cpu}"
        return f"{' '.join(map('='.join, settings.items()))} at {show_time(self.at)}{again}{by}"

    def times(self, end: int) -> range:
        return range(self.at, end, self.every or end)


def read_events(load_row: Row, end: int) -> Iterator[Event]:
    """The events of a load that lasts until ``end``."""
    for row in load_row.get("events", ()):
        keys = ("disk", "write", "to")
        given = [key for key in keys if row.get(key)]
        if bool(row.get("queue")) == bool(given) or (given and len(given) < len(keys)):
            row.add("", "events: expected either queue or disk, write and to", "write queue: {scheduler: none}")
        elif (event := row.build(Event, queue=_queue(row.get("queue")))) is not None:
            if event.at >= end or len(event.times(end)) > _MOST_EVENTS:
                says = f"{len(event.times(end))} times" if event.at < end else "after the load"
                row.add("at", f"events: {says}", f"write 1 to {_MOST_EVENTS} times before {show_time(end)}")
            yield event


def _queue(row: Row | None) -> dict[str, str]:
    """Attributes of /sys/block/DEV/queue by name; those of an elevator start with ``iosched/``."""
    return {key.replace(".", "/"): str(row.get(key)) for key in (row.node.entries if row else ()) if row}


def check_events(load_row: Row, events: tuple[Event, ...], arms: Mapping[str, _Queues]) -> None:
    """Reports, at each event, an arm whose topology lacks its disk, or whose queues have no elevator for it."""
    set_to = {event.queue.get("scheduler", "none") for event in events}
    for row, event in zip(load_row.get("events", ()), events, strict=False):
        needs = next((key for key in event.queue if key.startswith(OF_ELEVATORS)), "")
        for arm, (topology, queue) in arms.items():
            if needs and set_to | {queue.get("scheduler", "none")} == {"none"}:
                row.add("queue", f"events: {needs.replace('/', '.')} needs an elevator, and arm {arm} has none")
                break
            known = {*topology.luns, *topology.stacks}
            if event.disk and event.disk not in known:
                message = f"events: arm {arm} has no LUN or stack {event.disk}{nearest(event.disk, known)}"
                row.add("disk", message, f"known: {names(sorted(known))}")
                break
            lun = topology.luns.get(event.disk)
            if event.write.startswith(CONFIG) and not (lun and topology.hbas[lun.hba].driver is Driver.NULL_BLK):
                row.add("disk", f"events: in arm {arm} {event.disk} is no LUN of null_blk", "write a file of sysfs")
                break
            if event.cpu is not None and event.cpu >= topology.processors.cpus:
                row.add("cpu", f"events: arm {arm} has no CPU {event.cpu}", f"write machine: {{cpus: {event.cpu + 1}}}")
                break
