# SPDX-License-Identifier: GPL-2.0-only
"""The features that a scenario may have, from the loader's own tables: a new driver, stack, key or elevator joins."""

import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, cast

from harness.scenario import schema
from harness.scenario.events import ACTIONS, ENDED_BY
from harness.scenario.fio import CGROUP_FILES
from lab.topology import fields, limits
from lab.topology.emulated import CONTROLLERS
from lab.topology.model import EMULATED, Driver, StackKind
from lab.yaml.fields import Choice, Field, Flag

Draft = dict[str, Any]
"""A scenario as the mapping of its file."""
DEVICE = "device"
"""Stands for the name of the device that the role uses, until all features are applied."""


@dataclass(frozen=True)
class Feature:
    """``axis``: a scenario has at most one feature of each. ``apply`` adds it to a draft, in the order of ``_AXES``.

    ``needs``: features, one of which a scenario gets besides when it has none of their axis.
    """

    axis: str
    name: str
    apply: Callable[[Draft], None] = field(compare=False)
    needs: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.axis} {self.name}".strip()


_WINDOW = {"ramp": "20ms", "runtime": "100ms"}
_WALL: Draft = {"clock": "wall", "window": {"ramp": "1s", "runtime": "100ms"}, "pause": "7s", "windows": 1, "boots": 6}
"""Queues that rest for twice the timeout of a request are idle."""
STACK = "s"
_PATHS = (StackKind.MULTIPATH, StackKind.NVME)
_FIXED = [driver for driver, limits in CONTROLLERS.items() if limits.least == limits.most]
_MEMBERS = {"crypt": 1, "loop": 1, "md raid5": 3, "md raid4": 3, "md raid6": 4, "md raid10": 4}
"""Devices below a stack, where it has not two."""


def draft_of(driver: str, stack: str) -> Draft:
    """One role on disks of a driver below ``stack``, or on one disk that two HBAs lead to."""
    paths, last = stack in _PATHS, _MEMBERS.get(stack, 2) - 1
    speed = {"rate": "200 MB/s"} if driver == Driver.TCMU else {"service": "100us"}
    hba = {"driver": driver, "can_queue": CONTROLLERS[Driver(driver)].most if driver in _FIXED else 128}
    several = paths or driver == Driver.NVMET_TCP
    places = f"0..{last}" if last else "0"
    disk, hbas = "d0" if paths else f"d{places}", f"h{places}" if several else "h0"
    luns: Draft = {f"l{places}": {"hba": "h0", "disks": [disk]}}
    if several:
        luns = {f"l{n}": {"hba": f"h{n}", "disks": ["d0" if paths else f"d{n}"]} for n in range(last + 1)}
    stacks: Draft = {}
    if driver == Driver.NVMET_TCP and not paths:
        stacks = {f"n{number}": {"kind": "nvme", "over": [f"l{number}"]} for number in range(last + 1)}
    topology = {
        **{"topology": "pairs", "memory": "1G", "disks": {disk: {"size": "512M", **speed}}, "hbas": {hbas: hba}},
        **{"luns": luns, "stacks": stacks},
    }
    role = {"disk": DEVICE, "rw": "randread", "bs": "4k", "iodepth": 4, "size": "16M"}
    return {
        **{"scenario": "pairs", "title": "A pair of features", "schema": 1, "topology": topology},
        **{"clock": "virtual", "window": _WINDOW, "pause": "0ms", "queue": {"scheduler": "none", "io_timeout": 3000}},
        **(_WALL if driver in EMULATED else {}),
        **{"arms": {"a": {}}, "loads": {"l": {"r": role}}},
    }


def members_of(draft: Draft) -> list[str]:
    """The devices below a stack."""
    return [*(draft["topology"]["stacks"] or draft["topology"]["luns"])]


def first_member(members: list[str]) -> str:
    return members[0].partition("..")[0]


def load_of(draft: Draft) -> Draft:
    return cast(Draft, draft["loads"]["l"])


def role_of(draft: Draft) -> Draft:
    return cast(Draft, load_of(draft)["r"])


def _stack(draft: Draft) -> Draft:
    """The stack that features are about; a loop device's below a filesystem."""
    return cast(Draft, draft["topology"]["stacks"][STACK])


_CHUNKED = ("stripe", "snapshot", "raid0", "raid10", "raid4", "raid5", "raid6")


def _add_stack(kind: str, level: str = "") -> Callable[[Draft], None]:
    def apply(draft: Draft) -> None:
        own = {"level": level} if level else {}
        chunk = {"chunk": "64k"} if (level or kind) in _CHUNKED else {}
        over = list(draft["topology"]["luns"]) if kind in _PATHS else members_of(draft)
        draft["topology"]["stacks"][STACK] = {"kind": kind, "over": over, **own, **chunk}

    return apply


def _set(part: Callable[[Draft], Draft], key: str, value: object) -> Callable[[Draft], None]:
    def apply(draft: Draft) -> None:
        part(draft)[key] = value
        if key.startswith(limits.OF_ELEVATORS) and part(draft).get("scheduler", "none") == "none":
            part(draft)["scheduler"] = "mq-deadline"
        draft["topology"] |= {"kernel_words": "scsi_mod.use_blk_mq=N"} if value in ("noop", "deadline", "cfq") else {}

    return apply


def _add_filesystem(kind: str, *, image: bool = False) -> Callable[[Draft], None]:
    def apply(draft: Draft) -> None:
        stacks = draft["topology"]["stacks"]
        below = STACK if STACK in stacks else first_member(members_of(draft))
        stacks["f"] = {"kind": "filesystem", "type": kind, "over": [below]}
        if image:
            stacks["image"] = {"kind": "loop", "size": "64M", "over": ["f"]}

    return apply


def _step(rw: str, **more: object) -> Draft:
    return {"disk": DEVICE, "rw": rw, "bs": "64k", "iodepth": 1, "size": "1M", **more}


def _add_steps(key: str, *steps: Draft) -> Callable[[Draft], None]:
    def apply(draft: Draft) -> None:
        load_of(draft).setdefault(key, []).extend(json.loads(json.dumps(steps)))

    return apply


def _verify(draft: Draft) -> None:
    load_of(draft).setdefault("prepare", []).insert(0, _step("write", verify="crc32c"))
    role_of(draft).update(size="1M", verify="crc32c", bs="64k")


def _trim(draft: Draft) -> None:
    for disk in draft["topology"]["disks"].values():
        disk["discard"] = True
    role_of(draft).update(rw="trim", iodepth=1)


def _adapters(draft: Draft) -> None:
    """An adapter for each LUN, where one has several."""
    topology = draft["topology"]
    for lun in topology["luns"].values():
        if topology["hbas"].keys() == {"h0"} and ".." in (places := next(iter(topology["luns"]))):
            topology["hbas"] = {f"h{places[1:]}": topology["hbas"]["h0"]}
            lun["hba"] = f"h{places[1:]}"


def _behind(draft: Draft) -> None:
    _stack(draft).update(bitmap="internal", write_mostly=1, write_behind=2)


def _shared_files(draft: Draft) -> None:
    role_of(draft).update(numjobs=2, files="shared", nrfiles=2)


def _zones(draft: Draft) -> None:
    for disk in draft["topology"]["disks"].values():
        disk.update({key.name: _example(key) for key in fields.ZONE_FIELDS if key.name != "zone_max_active"})
    role_of(draft).update(rw="randwrite", zonemode="zbd", max_open_zones=4, offset="64M")


def _emulated_zones(draft: Draft) -> None:
    role_of(draft).update(rw="write", zonemode="zbd", zonesize="4M", size="16M")


def _machine(key: str, value: object) -> Callable[[Draft], None]:
    def apply(draft: Draft) -> None:
        draft["topology"].setdefault("machine", {})[key] = value
        if key in ("cpus", "nodes"):
            draft["topology"]["machine"]["cpus"] = 2

    return apply


def _iocost(draft: Draft) -> None:
    draft["queue"]["iocost.qos"] = "enable=1"


def _weighted(option: str) -> Callable[[Draft], None]:
    def apply(draft: Draft) -> None:
        role_of(draft)[option] = {"io_max": "riops=1000", "io_latency": "2ms"}.get(option, 300)
        if option == "io_weight":
            _iocost(draft)
        if option == "bfq_weight":
            draft["queue"]["scheduler"] = "bfq"

    return apply


def _lose(draft: Draft) -> None:
    load_of(draft)["lost"] = [{"path": "l0", "from": "30ms", "to": "60ms"}]


def _poll(draft: Draft) -> None:
    for hba in draft["topology"]["hbas"].values():
        hba["poll_queues"] = 1
    role_of(draft).update(ioengine="io_uring", hipri=True)


def _nothing(draft: Draft) -> None:
    """What is not in the file: a way to boot it."""


def _example(described: Field) -> object:
    return json.loads(described.example) if described.example.isdecimal() else described.example


def _values(described: Field) -> Iterator[tuple[str, object]]:
    """The values of a key other than its default, by name."""
    if isinstance(described.kind, Choice):
        yield from ((value, value) for value in described.kind.values if value != described.default)
    elif isinstance(described.kind, Flag):
        yield "", True
    elif described.name == fields.WRITE_MOSTLY.name:
        yield "", 1


_OTHERWISE = (fields.KIND, fields.LEVEL, fields.FS_TYPE)
"""Choices of a stack that are features by themselves."""
_KIND_OF = {
    StackKind.MD: ("md raid1", "md raid5"),
    StackKind.FILESYSTEM: (),
}
_ANY_STACK = ("linear", "md raid1", "md raid5", "multipath", "nvme", "snapshot")


def _stacks() -> Iterator[Feature]:
    for kind in StackKind:
        if kind is StackKind.MD:
            levels = fields.LEVEL.kind
            assert isinstance(levels, Choice)
            yield from (Feature("stack", f"md {level}", _add_stack(kind, level)) for level in levels.values)
        elif kind is not StackKind.FILESYSTEM:
            yield Feature("stack", kind, _add_stack(kind))


def _stack_keys() -> Iterator[Feature]:
    for kind in StackKind:
        own = (described for described in fields.STACK_KEYS[kind] if described not in _OTHERWISE)
        for described in sorted(own, key=lambda described: described.name):
            for name, value in _values(described):
                needs = ("md raid10",) if described is fields.LAYOUT else _KIND_OF.get(kind, (str(kind),))
                yield Feature(described.name, name, _set(_stack, described.name, value), needs)


def _queues() -> Iterator[Feature]:
    scheduler, *others = fields.QUEUE_FIELDS
    assert isinstance(scheduler.kind, Choice)
    queue: Callable[[Draft], Draft] = lambda draft: draft["queue"]  # noqa: E731
    for value in scheduler.kind.values:
        if value != "none":
            yield Feature("elevator", value, _set(queue, "scheduler", value))
    own: Callable[[Draft], Draft] = lambda draft: _stack(draft).setdefault("queue", {})  # noqa: E731
    yield Feature("own elevator", "mq-deadline", _set(own, "scheduler", "mq-deadline"), _ANY_STACK)
    for described in others:
        yield Feature("attribute", described.name, _set(queue, described.name, _example(described)))
        if f"queue/{described.name}" not in limits._OF_DRIVERS:
            yield Feature(
                "attribute", f"own {described.name}", _set(own, described.name, _example(described)), _ANY_STACK
            )
    md: Callable[[Draft], Draft] = lambda draft: _stack(draft).setdefault("md", {})  # noqa: E731
    for described in fields.MD_FIELDS:
        yield Feature("attribute", f"md {described.name}", _set(md, described.name, _example(described)), ("md raid5",))
    memory: Callable[[Draft], Draft] = lambda draft: draft["topology"].setdefault("vm", {})  # noqa: E731
    for described in fields.VM_FIELDS:
        yield Feature("attribute", f"vm {described.name}", _set(memory, described.name, _example(described)))


def _act(action: str, kinds: Collection[StackKind]) -> Callable[[Draft], None]:
    """On a stack of these kinds, or on a LUN that no role uses, and what ends it."""

    def apply(draft: Draft) -> None:
        topology = draft["topology"]
        disk = {(): "spare", (StackKind.FILESYSTEM,): "f"}.get((*kinds,), STACK)
        if not kinds:
            topology["disks"]["spare"] = dict(next(iter(topology["disks"].values())))
            topology["hbas"]["hs"] = dict(next(iter(topology["hbas"].values())))
            topology["luns"]["spare"] = {"hba": "hs", "disks": ["spare"]}
        member = {"member": first_member(_stack(draft)["over"])} if StackKind.MD in kinds else {}
        steps = [{"at": "40ms", "disk": disk, "do": action, **member}]
        if action in ENDED_BY:
            steps.append({"at": "60ms", "disk": disk, "do": ENDED_BY[action]})
        _add_steps("events", *steps)(draft)

    return apply


def _actions() -> Iterator[Feature]:
    for action, kinds in ACTIONS.items():
        if action not in ENDED_BY.values():
            needs = {(): (), (StackKind.FILESYSTEM,): ("ext4",), (StackKind.MD,): ("md raid1",)}
            yield Feature("events", action, _act(action, kinds), needs.get(kinds, (*map(str, kinds),)))


def _tried(draft: Draft) -> None:
    draft["arms"]["a"]["try"] = {f"stack.{STACK}.queue.read_ahead_kb": 64}


@cache
def features() -> tuple[Feature, ...]:
    """Every feature, in the order in which they are applied."""
    filesystems = fields.FS_TYPE.kind
    assert isinstance(filesystems, Choice)
    return (
        *(Feature("driver", driver, _nothing) for driver in Driver),
        *_stacks(),
        *_stack_keys(),
        *(Feature("filesystem", kind, _add_filesystem(kind)) for kind in filesystems.values),
        Feature("filesystem", "with an image", _add_filesystem("ext4", image=True)),
        *(Feature("machine", name, _machine(name, value)) for name, value in _MACHINES.items()),
        *_queues(),
        Feature("iocost", "", _iocost),
        Feature("throttle", "", _set(lambda draft: draft["queue"], "throttle.read_iops", 1000)),
        *(Feature("cgroup", option, _weighted(option)) for option in CGROUP_FILES),
        Feature("verify", "", _verify),
        Feature("trim", "", _trim),
        Feature("adapters", "one for each LUN", _adapters, ("linear", "md raid1")),
        Feature("bitmap", "write-behind", _behind, ("md raid1",)),
        Feature("zones", "of the disk", _zones, ("null_blk", "scsi_debug")),
        Feature("zones", "of the role", _emulated_zones),
        Feature("jobs", "of a role", _set(role_of, "numjobs", 2)),
        Feature("jobs", "of a role with shared files", _shared_files, ("ext4",)),
        Feature("hipri", "", _poll),
        Feature("lost", "", _lose, ("multipath", "nvme")),
        Feature("prepare", "", _add_steps("prepare", _step("write"))),
        Feature("age", "", _add_steps("prepare", _step("write", nrfiles=8, age=True)), ("ext4",)),
        Feature("warm", "", _add_steps("warm", _step("read", direct=False)), ("ext4",)),
        Feature("folios", "", _set(load_of, schema.FOLIOS.name, True), ("ext4",)),
        Feature("events", "of all queues", _add_steps("events", _QUEUES_CHANGE)),
        Feature("events", "of a device, on a CPU", _add_steps("events", _DEVICE_CHANGES)),
        *_actions(),
        Feature("try", "", _tried, _ANY_STACK),
        Feature("wall", "", lambda draft: draft.update(_WALL)),
    )


_QUEUES_CHANGE: Draft = {"at": "30ms", "every": "40ms", "queue": {"scheduler": "mq-deadline", "nr_requests": 32}}
_DEVICE_CHANGES: Draft = {"at": "30ms", "disk": DEVICE, "write": "queue/read_ahead_kb", "to": "64", "ios": 3, "cpu": 0}
_MACHINES = {fields.CPUS.name: 2, fields.COUNTED.name: True, fields.NODES.name: 2}
