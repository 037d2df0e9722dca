# SPDX-License-Identifier: GPL-2.0-only
"""A topology file from a snapshot of a machine.

The hosts are devices inside the guest, so the file serves the virtual clock; ``lab.topology.emulated`` converts it for
the wall clock. What was read, and what is a guess, is in the file's ``origins``.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.intake.devices import CapturedController, CapturedDevices, CapturedLun, Notes, read_devices, slug
from harness.intake.latencies import FioResult, access_time, chosen_for
from harness.intake.over import StackReader, exact_size, same_disk, within
from harness.intake.snapshot import Snapshot
from harness.report.format import plural
from lab.base.errors import Misuse
from lab.topology.fields import DISKS, HBAS, LUNS, NODE, QUEUE_FIELDS
from lab.topology.limits import LEAST_NVME_TAGS, MOST_BUFFERED, MOST_TAGS, handler_memory
from lab.topology.model import Driver
from lab.topology.ranges import NamedRanges, in_ranges
from lab.topology.settings import revolution
from lab.yaml.fields import Choice, Integer

_MEBIBYTE = 1 << 20
_MEMORY = 512 * _MEBIBYTE
_STRIPE_PAGE = 4096
_NS = 10**9
_SEEK, _RPM, _SPINNING, _FLASH, _SERVICE = 8 * 10**6, 7200, 150 * 10**6, 500 * 10**6, 100_000
_BUFFER = 32
_GENERATIONS = {"2.5": 1, "5": 2, "8": 3, "16": 4, "32": 5}
_LANES = 32
_SAS_GBIT = ("3", "6", "12")
_CITES, _FITTED, _GUESSED = "cites", "fitted", "guessed"
_GUESS = "no latencies were given"
_QUEUE = ("scheduler", "nr_requests", "read_ahead_kb")
_STACK_READ = {
    "chunk": "read: the dm table, or chunk_size of md",
    "offset": "read: the dm table, or start of the partition",
    "size": "read: size",
    "level": "read: level",
    "queue": "read: its request queue",
    "md": "read: attributes of md",
}
_MODELS = {"megaraid_sas": "MegaRAID", "mptsas": "SAS1068", "3w-9xxx": "3ware", "3w-xxxx": "3ware", "nvme": "NVMe"}
"""Names by which ``lab.topology.emulated`` finds a controller of QEMU."""

Document = dict[str, object]


@dataclass(frozen=True)
class CapturedFigure:
    """A value of the file, and where it comes from: ``kind`` is cites, fitted or guessed."""

    of: str
    kind: str
    text: str


@dataclass(frozen=True)
class Captured:
    """``document`` is a topology file, ``notes`` are what it leaves out, ``read`` are facts that it has no key for."""

    document: Document
    notes: tuple[str, ...]
    read: tuple[str, ...]


def capture(snapshot: Snapshot, name: str, results: tuple[FioResult, ...] = ()) -> Captured:
    """The topology of a snapshot. Raises Misuse where the machine has no disk, or more than a topology holds."""
    notes = Notes()
    devices = read_devices(snapshot, same_disk(snapshot), notes)
    _demand_fitting(snapshot, devices)
    return _Writer(snapshot, devices, notes, results).write(name)


def _demand_fitting(snapshot: Snapshot, devices: CapturedDevices) -> None:
    remedy = "name the disks that matter: --disk sda --disk sdb"
    if not devices.luns:
        left = "a disk needs a controller, a size and tags" if snapshot.below("block") else "it has no block devices"
        raise Misuse(f"{snapshot.source}: no disk for a topology: {left}", remedy="capture a machine with a disk")
    counted = ((DISKS, len(devices.paths)), (LUNS, len(devices.luns)), (HBAS, len(devices.controllers)))
    for field, count in counted:
        if isinstance(field.kind, NamedRanges) and count > field.kind.most:
            raise Misuse(f"{snapshot.source}: {count} {field.name}, a topology holds {field.kind.most}", remedy=remedy)


def _driver(devices: CapturedDevices) -> Driver:
    """The driver that can play all hosts: a topology has one."""
    scsi = [lun for lun in devices.luns.values() if not devices.controllers[lun.controller].nvme]
    if not scsi:
        return Driver.NVMET_TCP
    shared = any(devices.paths[lun.disk] > 1 for lun in scsi)
    return Driver.TCMU if shared or any(lun.rotational for lun in scsi) else Driver.TCM_LOOP


class _Writer:
    def __init__(
        self, snapshot: Snapshot, devices: CapturedDevices, notes: Notes, results: tuple[FioResult, ...]
    ) -> None:
        self._snapshot, self._notes, self._results = snapshot, notes, results
        self._driver = _driver(devices)
        self._devices = devices if self._driver is Driver.NVMET_TCP else self._without_namespace_paths(devices)
        self._figures: dict[str, CapturedFigure] = {}
        self._links: dict[str, object] = {}
        self._tags = self._host_tags()

    def _without_namespace_paths(self, devices: CapturedDevices) -> CapturedDevices:
        """With SCSI hosts a namespace has one path: its first."""
        kept: dict[str, CapturedLun] = {}
        seen: set[str] = set()
        for lun in devices.luns.values():
            if not devices.controllers[lun.controller].nvme:
                kept[lun.name] = lun
            elif lun.disk not in seen:
                seen.add(lun.disk)
                kept[lun.name] = lun
                self._notes.add(lun.device, "an NVMe namespace next to SCSI disks: a SCSI host plays its controller")
            else:
                self._notes.add(lun.device, "a further NVMe path: hosts that are played by SCSI have one path each")
        used = {lun.controller for lun in kept.values()}
        return CapturedDevices({name: one for name, one in devices.controllers.items() if name in used}, kept)

    def _host_tags(self) -> dict[str, int]:
        """can_queue of each host, within the limits of the driver."""
        most = MOST_TAGS[self._driver]
        found = {name: one.tags for name, one in self._devices.controllers.items()}
        if self._driver is Driver.NVMET_TCP:
            # A queue of n entries carries n - 1 commands.
            return {name: max(LEAST_NVME_TAGS, min(most, tags + 1)) for name, tags in found.items()}
        shared = min(most, max(found.values()))
        return dict.fromkeys(found, shared)

    def write(self, name: str) -> Captured:
        disks, hbas, luns = self._disks(), self._hbas(), self._luns()
        stacks = StackReader(self._snapshot, self._devices, self._notes).read(nvme=self._driver is Driver.NVMET_TCP)
        for stack, row in stacks.items():
            for key, read in _STACK_READ.items():
                if key in row:
                    self._figure(f"stack.{stack}.{key}", _CITES, read)
        document: Document = {
            "topology": name,
            "title": self._title(),
            "memory": exact_size(self._memory(stacks)),
            "queue": self._queue(),
            "links": self._links,
            "disks": disks,
            "hbas": hbas,
            "luns": luns,
            "stacks": stacks,
            "origins": list(self._origins()),
        }
        document = {key: value for key, value in document.items() if value}
        return Captured(document, self._notes.lines, tuple(self._facts()))

    def _title(self) -> str:
        kernel = next((line[7:] for line in self._snapshot.text("about").splitlines() if line[:7] == "kernel "), "")
        return f"Captured from a machine with Linux {kernel}" if kernel else "Captured from a machine"

    def _memory(self, stacks: Mapping[str, Mapping[str, object]]) -> int:
        """Of the guest: rings of its disks, and pages of stripe caches."""
        need = handler_memory(len(self._devices.luns)) if self._driver is Driver.TCMU else 0
        for row in stacks.values():
            own, over = row.get("md"), row.get("over")
            if isinstance(own, Mapping) and isinstance(over, list):
                # As much again for the stripe heads.
                need += 2 * int(own.get("stripe_cache_size", 0)) * len(over) * _STRIPE_PAGE
        return _MEMORY * -(-max(need, _MEMORY) // _MEMORY)

    def _figure(self, of: str, kind: str, text: str) -> None:
        """Further figures of one parameter say the same."""
        self._figures.setdefault(of, CapturedFigure(of, kind, text))

    # Hosts

    def _hbas(self) -> dict[str, object]:
        return {name: self._hba(one) for name, one in self._devices.controllers.items()}

    def _hba(self, one: CapturedController) -> Document:
        tags = self._tags[one.name]
        own = [lun for lun in self._devices.luns.values() if lun.controller == one.name]
        model = _MODELS.get(one.model)
        row: Document = {"model": f"{model} ({one.model})" if model else one.model} if one.model else {}
        row |= {"driver": str(self._driver), "can_queue": tags}
        self._cite_tags(one, tags, len(own))
        row |= self._depths(one, own, tags)
        if within(NODE, one.node) is not None:
            row["node"] = one.node
            self._figure(f"hba.{one.name}.node", _CITES, "read: numa_node")
        if (link := self._link(one)) is not None:
            row["links"] = [link]
        if len(one.queues) > 1:
            why = "the virtual clock has one CPU, so the host has one queue"
            self._notes.add(one.name, f"{len(one.queues)} hardware queues, on CPUs {'; '.join(one.queues[:8])}: {why}")
        return row

    def _cite_tags(self, one: CapturedController, tags: int, luns: int) -> None:
        read = f"read: {one.read} is {one.tags}"
        if self._driver is Driver.NVMET_TCP:
            read += f", in a queue of {one.tags + 1} entries"
        if one.tags > tags:
            read += f"; {self._driver} has at most {MOST_TAGS[self._driver]}"
        elif one.tags < tags and self._driver is not Driver.NVMET_TCP:
            read += "; hosts inside a guest share one can_queue, that of the deepest"
            if luns > 1:
                self._notes.add(one.name, f"its LUNs share {one.tags} tags on the machine, and {tags} here")
        self._figure(f"hba.{one.name}.can_queue", _CITES, read)

    def _depths(self, one: CapturedController, own: Sequence[CapturedLun], tags: int) -> Document:
        """cmd_per_lun: what most LUNs of the host have as queue_depth."""
        if self._driver is Driver.NVMET_TCP:
            return {}
        depths = Counter(lun.depth or one.tags for lun in own)
        common = depths.most_common(1)[0][0]
        for lun in own:
            if (lun.depth or one.tags) != common:
                self._notes.add(lun.device, f"queue_depth {lun.depth}; the LUNs of {one.name} have one, {common}")
        depth = max(1, min(common, one.tags, tags))
        read = f"read: queue_depth is {common}" if any(lun.depth for lun in own) else "read: no queue_depth"
        self._figure(
            f"hba.{one.name}.cmd_per_lun", _CITES, read + ("" if depth == common else f"; here at most {depth}")
        )
        return {"cmd_per_lun": depth}

    def _link(self, one: CapturedController) -> str | None:
        own = f"pci/{one.pci}"
        speed = self._snapshot.line(f"{own}/current_link_speed").partition(" ")[0].removesuffix(".0")
        lanes = self._snapshot.number(f"{own}/current_link_width") or 0
        if not one.pci or not lanes:
            return None
        if speed not in _GENERATIONS or not 0 < lanes <= _LANES:
            self._notes.add(one.name, f"its PCI Express link of {lanes} lanes at {speed or 'an unknown'} GT/s")
            return None
        if self._driver is Driver.TCM_LOOP:
            self._notes.add(one.name, f"its PCI Express link, {lanes} lanes at {speed} GT/s: tcm_loop has no links")
            return None
        name = f"pcie-{one.name}"
        self._links[name] = {"pcie": {"generation": _GENERATIONS[speed], "lanes": lanes}}
        self._figure(f"link.{name}.rate", _CITES, "read: current_link_speed and current_link_width")
        return name

    # Disks

    def _luns(self) -> dict[str, object]:
        ports = {row[0]: row[1:] for row in self._snapshot.rows("sas")}
        return {
            lun.name: {"hba": lun.controller, "disks": [lun.disk], **self._ports(lun, ports)}
            for lun in self._devices.luns.values()
        }

    def _ports(self, lun: CapturedLun, ports: Mapping[str, Sequence[str]]) -> Document:
        """The links of its SAS ports."""
        names = []
        for port in (port for port in lun.ports if port in ports):
            lanes, speed = (*ports[port], "", "")[:2]
            gbit = speed.removesuffix(" Gbit").removesuffix(".0")
            if not (lanes.isdigit() and 0 < int(lanes) <= _LANES and gbit in _SAS_GBIT):
                self._notes.add(port, f"a SAS port of {lanes or 'no'} phys at {speed or 'an unknown speed'}")
            elif self._driver is not Driver.TCMU:
                self._notes.add(port, f"its SAS link, {lanes} phys at {gbit} Gbit/s: {self._driver} has no links")
            else:
                names.append(f"sas-{slug(port)}")
                self._links[names[-1]] = {"sas": {"gbit": int(gbit), "lanes": int(lanes)}}
                self._figure(f"link.{names[-1]}.rate", _CITES, "read: num_phys and negotiated_linkrate")
        return {"links": names} if names else {}

    def _disks(self) -> dict[str, object]:
        first = {lun.disk: lun for lun in reversed(list(self._devices.luns.values()))}
        order = dict.fromkeys(lun.disk for lun in self._devices.luns.values())
        for name in order:
            self._figure(f"disk.{name}.size", _CITES, "read: size")
        return {name: {"size": exact_size(first[name].size), **self._speed(first[name])} for name in order}

    def _speed(self, lun: CapturedLun) -> Document:
        if self._driver is not Driver.TCMU:
            return self._service(lun)
        stream = chosen_for(self._results, lun.device, random=False)
        rate = round(stream.rate) if stream else _SPINNING if lun.rotational else _FLASH
        rate = max(1, rate // 10**6) * 10**6
        usual = "usual for a hard disk" if lun.rotational else "usual for flash with SATA"
        self._fitted(f"disk.{lun.disk}.rate", stream, f"{usual}; {_GUESS}")
        row: Document = {"rate": f"{rate // 10**6} MB/s"}
        if not lun.rotational:
            flash = sum(not one.rotational for one in self._devices.luns.values())
            if (buffer := min(_BUFFER, MOST_BUFFERED // flash)) > 1:
                row["buffer"] = buffer
                self._figure(f"disk.{lun.disk}.buffer", _GUESSED, "flash serves many requests at once")
            return row
        jump = chosen_for(self._results, lun.device, random=True)
        seek = access_time(jump, rate, revolution(_RPM, 1)) if jump else _SEEK
        self._fitted(f"disk.{lun.disk}.seek", jump, f"usual for a hard disk; {_GUESS}")
        self._figure(f"disk.{lun.disk}.rpm", _GUESSED, "sysfs does not show the speed of rotation")
        return row | {"seek": f"{round(seek / 1000)}us", "rpm": _RPM}

    def _service(self, lun: CapturedLun) -> Document:
        found = chosen_for(self._results, lun.device, random=True)
        self._fitted(
            f"disk.{lun.disk}.service",
            found,
            f"usual for flash, which serves all of its requests at once here; {_GUESS}",
        )
        return {"service": f"{max(1, round((found.latency if found else _SERVICE) / 1000))}us"}

    def _fitted(self, of: str, result: FioResult | None, guess: str) -> None:
        self._figure(of, *((_FITTED, result.words) if result else (_GUESSED, guess)))

    # What the whole machine has

    def _queue(self) -> Document:
        """Settings of the request queues that all or most LUNs have."""
        fields = {field.name: field for field in QUEUE_FIELDS}
        found: Document = {}
        for key in _QUEUE:
            values = {lun.device: self._setting(lun.device, key) for lun in self._devices.luns.values()}
            common = Counter(value for value in values.values() if value).most_common(1)
            if not common:
                continue
            value, kind = common[0][0], fields[key].kind
            for device, other in values.items():
                if other != value:
                    self._notes.add(device, f"{key} {other or 'not shown'}; the topology has one for all LUNs, {value}")
            if isinstance(kind, Choice) and value in kind.values:
                found[key] = value
            elif isinstance(kind, Integer) and value.isdigit() and kind.low <= int(value) <= kind.high:
                found[key] = int(value)
            else:
                self._notes.add("queue", f"{key} {value} is none that a scenario can set")
                continue
            self._figure(f"queue.{key}", _CITES, f"read: {key}")
        if found.get("scheduler", "none") == "none" and "nr_requests" in found:
            self._notes.add("queue", f"nr_requests {found.pop('nr_requests')}: without an elevator it is the tags")
            del self._figures["queue.nr_requests"]
        return found

    def _setting(self, device: str, key: str) -> str:
        text = self._snapshot.line(f"block/{device}/queue/{key}")
        return text.partition("[")[2].partition("]")[0] or text if key == "scheduler" else text

    def _origins(self) -> Iterator[Document]:
        """The figures' origins, those of all disks, hosts or links together where they are equal."""
        keys: dict[str, list[CapturedFigure]] = {}
        for figure in self._figures.values():
            keys.setdefault(re.sub(r"\..*\.", ".*.", figure.of), []).append(figure)
        for every, figures in keys.items():
            if len({(one.kind, one.text) for one in figures}) == 1:
                yield _origin(replace(figures[0], of=every))
            else:
                yield from map(_origin, figures)

    def _facts(self) -> Iterator[str]:
        """What was read, for a person."""
        for key in ("max_sectors_kb", "rotational"):
            groups: dict[str, list[str]] = {}
            for lun in self._devices.luns.values():
                groups.setdefault(self._setting(lun.device, key), []).append(slug(lun.device))
            yield from (f"{key} {value}: {in_ranges(names)}" for value, names in groups.items() if value)
        for name in self._devices.controllers:
            for key in ("sg_tablesize", "cmd_per_lun"):
                if value := self._snapshot.line(f"host/{name}/{key}"):
                    yield f"{name}: {key} {value}"
        for node in self._snapshot.below("node"):
            yield f"{node}: CPUs {self._snapshot.line(f'node/{node}/cpulist')}"
        yield from interrupts(self._snapshot, self._devices)
        for line in self._snapshot.text("about").splitlines():
            if line.startswith("host "):
                yield f"machine: {line[5:]}"
        for lun in self._devices.luns.values():
            if wwid := self._snapshot.line(f"block/{lun.device}/wwid"):
                yield f"{lun.device}: {wwid}"


def _origin(figure: CapturedFigure) -> Document:
    return {"of": figure.of, figure.kind: figure.text}


def interrupts(snapshot: Snapshot, devices: CapturedDevices) -> Iterator[str]:
    """The CPUs that took interrupts of each controller."""
    lines = [line.split() for line in snapshot.text("proc/interrupts").splitlines()]
    cpus = lines[0] if lines else []
    counts = {words[0].rstrip(":"): words[1 : 1 + len(cpus)] for words in lines[1:] if words}
    for name, one in devices.controllers.items():
        own = [counts[irq] for irq in snapshot.text(f"pci/{one.pci}/interrupts").split() if irq in counts]
        taken = [
            cpu.removeprefix("CPU")
            for place, cpu in enumerate(cpus)
            if any(len(row) > place and row[place].isdigit() and int(row[place]) for row in own)
        ]
        if own:
            by = f"{'CPU' if len(taken) == 1 else 'CPUs'} {', '.join(taken)}" if taken else "no CPU"
            yield f"{name}: {plural(len(own), 'interrupt')}, taken by {by}"
