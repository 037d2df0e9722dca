# SPDX-License-Identifier: GPL-2.0-only
"""Which element of the way to the disks limits a load: the precedence, the sentence, and what raised limits give.

What is nearer to the work comes first, for whatever is before it fills up behind it (docs/why.md, Precedence).
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import ceil

from harness import fitted
from harness.figures.samples import LoadUse, mean_use
from harness.limits.elements import elements, narrowest
from harness.limits.limits import shares_of_bound
from harness.limits.queues import QUEUES, SYNCS, Element, ElementKind
from harness.scenario.model import Arm, Load
from lab.base.errors import Misuse
from lab.topology.limits import refusals
from lab.topology.model import Hba, Stack, Topology
from lab.topology.parameters import multiplied
from lab.topology.ranges import in_ranges

PRECEDENCE = tuple(ElementKind)
NOTHING = "nothing is saturated"
UNCOUNTED = "not known"
_OTHERS = 3
_DEVICES = (ElementKind.DISK, ElementKind.LINK)
_QUEUES = (ElementKind.HOST_QUEUE, ElementKind.LUN_DEPTH)


@dataclass(frozen=True)
class Bottleneck:
    """What limits one load of one arm. ``binding`` is None when nothing is known to be saturated.

    ``elements`` are all that the load's requests pass, in the order of PRECEDENCE. ``reached`` is the throughput
    over what the topology allows, None where it sets no bound. ``roles`` say what limits each role, as ``LOAD.ROLE``,
    where they get unequal shares of their own bounds and not all for the same reason.
    """

    arm: str
    load: str
    binding: Element | None
    elements: tuple[Element, ...]
    reached: float | None = None
    roles: tuple["Bottleneck", ...] = ()

    @property
    def label(self) -> str:
        if self.binding is None:
            return UNCOUNTED if self._uncounted else NOTHING
        return self.binding.label

    @property
    def _uncounted(self) -> tuple[Element, ...]:
        return tuple(element for element in self.elements if not element.counted)

    @property
    def besides(self) -> tuple[Element, ...]:
        """Elements at their limits besides the one that is named: devices next to a device, queues next to a queue.

        They limit other roles, or are as tight.
        """
        kinds = next((kinds for kinds in (_DEVICES, _QUEUES) if self.binding and self.binding.kind in kinds), ())
        full = (element for element in self.elements if element.binds and element.kind in kinds)
        return tuple(element for element in full if element != self.binding)

    @property
    def others(self) -> tuple[Element, ...]:
        """The fullest of the rest, fullest first."""
        named = (self.binding, *self.besides, *(each for each in self.elements if each.kind is ElementKind.LATENCY))
        rest = [element for element in self.elements if element not in named and element.share > 0]
        return tuple(sorted(rest, key=lambda element: -element.share)[:_OTHERS])

    @property
    def figure(self) -> str:
        """The figure of the binding element, and how full the next ones are."""
        beside = ", ".join(f"{element.short} {100 * element.share:.0f} %" for element in self.others)
        if self.binding is None:
            return "; ".join(f"{element.label} {element.figure}" for element in self._uncounted) or f"fullest: {beside}"
        if self.besides:
            beside = f"{', '.join(element.short for element in self.besides)} at the limit too; {beside}"
        alone = self.binding.kind is ElementKind.LATENCY or not beside
        return self.binding.figure if alone else f"{self.binding.figure}; {beside}"


def bottleneck(arm: Arm, load: Load, uses: Sequence[LoadUse], bw: Mapping[str, float]) -> Bottleneck:
    """From the uses of all boots of an arm, of which there is one at least: their mean decides.

    ``bw`` is the mean of what each role moved, in bytes per second.
    """
    use = mean_use(uses)
    synced = any(not SYNCS.isdisjoint(role.options) for role in load.roles.values())

    def of(role: str, name: str, reached: float | None) -> Bottleneck:
        every = elements(arm, load, use, bw, role)
        ordered = sorted(every, key=lambda element: PRECEDENCE.index(element.kind))
        binding = next((element for element in ordered if element.binds), None)
        if role and reached and not binding and reached >= fitted.DELIVERED and ordered[-1].share:
            # Whose requests a LUN holds is not known. A role at its bound, with nothing full, has its own depth there.
            binding = replace(ordered[-1], share=reached, figure=f"{100 * reached:.0f} % of its bound")
            ordered[-1] = binding
        elif binding and binding is ordered[-1] and reached is not None and reached < fitted.DELIVERED and not synced:
            # Little's law: fewer are at the disks than the queues hold.
            says = f"{100 * binding.share:.0f} % of it in the queues, {100 * reached:.0f} % of the bound"
            served = reached >= fitted.SERVED
            ordered[-1] = replace(binding, binds=served, counted=served, figure=says)
            binding = ordered[-1] if served else None
        return Bottleneck(arm.name, name, binding, tuple(ordered), reached)

    alike, reached, shares = None, None, dict[str, float | None](dict.fromkeys(load.roles))
    with suppress(Misuse):
        reached, known = shares_of_bound(arm, load, bw)
        alike, shares = min(known.values()) >= fitted.ALIKE * max(known.values()), dict(known)
    whole = of("", load.name, reached)
    roles = tuple(of(role, f"{load.name}.{role}", share) for role, share in shares.items())
    kinds = {each.binding and each.binding.kind for each in (whole, *roles)}
    # Its own limit is named although others get as much for another reason.
    own, differ = not kinds.isdisjoint({ElementKind.LIMIT, ElementKind.PACE}), len(kinds) > 1
    apart = (differ and (own or not alike)) or (alike is False and ElementKind.LATENCY in kinds)
    return replace(whole, roles=roles) if len(roles) > 1 and apart else whole


def by_role(bottlenecks: Iterable[Bottleneck]) -> list[Bottleneck]:
    """Loads, or their roles where something else limits each."""
    return [part for load in bottlenecks for part in load.roles or (load,)]


# A limit is a capacity: bytes per second, tags, requests. Where a depth binds, throughput is depth over latency, so a
# shorter latency (a seek, a service time) always helps, and is not tried. A processor a quarter faster is the same as
# devices a quarter slower with throughput counted in their own, longer seconds.
RAISE = 1.25
_DISK_RATES, _DISK_TIMES = ("rate", "rpm"), ("seek", "service")
_MOST_WEIGHT = 100
"""ST_MAX_RELATIVE_THROUGHPUT of drivers/md/dm-ps-service-time.c."""


@dataclass(frozen=True)
class Alteration:
    """One limit a quarter higher: the arm and load to run instead, and what their throughput is multiplied with.

    ``named`` is the bottleneck itself. ``gain`` is relative: 0.25 is a quarter more. None before it is measured;
    ``refused`` says why it cannot be, and is empty otherwise.
    """

    label: str
    says: str
    arm: Arm
    load: Load
    named: bool = False
    times: float = 1.0
    refused: str = ""
    gain: float | None = None

    @property
    def agrees(self) -> bool:
        """Whether it is as the name of the bottleneck has it; what was not measured agrees."""
        if self.gain is None:
            return True
        return self.gain > fitted.LEAST_GAIN if self.named else self.gain < fitted.LEAST_GAIN


@dataclass(frozen=True)
class Proof:
    """What each raised limit makes of the throughput of one arm and load."""

    bottleneck: Bottleneck
    rows: tuple[Alteration, ...]

    @property
    def named(self) -> Alteration:
        return next(row for row in self.rows if row.named)

    @property
    def proven(self) -> bool:
        """False also where the named limit could not be raised: see ``named``."""
        return self.named.gain is not None and all(row.agrees for row in self.rows)


def changes(arm: Arm, load: Load, bottleneck: Bottleneck) -> tuple[Alteration, ...]:
    """One for each limit that the load meets, the named one first. Raises ValueError when nothing is named."""
    if bottleneck.binding is None:
        raise ValueError(f"{bottleneck.arm}.{bottleneck.load} has no bottleneck")
    raised, every = _Raise(arm, load, bottleneck.binding), list[Alteration]()
    for element in bottleneck.elements:
        row = _RAISED[element.kind](raised, element) if element.kind in _RAISED else None
        # Those of a kind that bind and the others get deeper queues together.
        if row and row.label not in [other.label for other in every]:
            every.append(replace(row, named=element == bottleneck.binding))
    every += raised.parallel_disks()
    if not any(row.named for row in every):
        refused = "it is no limit that can be raised"
        every.append(Alteration(bottleneck.label, "", arm, load, named=True, refused=refused))
    known = [replace(row, refused=row.refused or "; ".join(map(str, refusals(row.arm.topology)))) for row in every]
    return tuple(sorted(known, key=lambda change: not change.named))


def _multiply(topology: Topology, kind: str, names: Iterable[str], factors: Mapping[str, float]) -> Topology:
    for name in names:
        for key, factor in factors.items():
            topology = multiplied(topology, f"{kind}.{name}.{key}", factor)
    return topology


@dataclass(frozen=True)
class _Raise:
    """Raises limits of one arm and load, of which ``binding`` is the bottleneck, by the elements of the load."""

    arm: Arm
    load: Load
    binding: Element

    def _alter(self, label: str, says: str, topology: Topology) -> Alteration:
        return Alteration(label, says, replace(self.arm, topology=topology), self.load)

    def disks(self, element: Element) -> Alteration:
        if self.binding.kind in QUEUES:
            topology = _multiply(self.arm.topology, "disk", element.names, {"rate": RAISE})
            return self._alter(f"{element.label}.rate", "a quarter higher", topology)
        faster = dict.fromkeys(_DISK_RATES, RAISE) | dict.fromkeys(_DISK_TIMES, 1 / RAISE)
        topology = _multiply(self.arm.topology, "disk", element.names, faster)
        return self._alter(element.label, "a quarter faster", topology)

    def parallel_disks(self) -> Iterator[Alteration]:
        """Disks that serve any number of requests at once have no limit, but a latency."""
        topology = self.arm.topology
        luns = [lun for role in self.load.roles.values() for disk in role.disks for lun in topology.leaves(disk)]
        behind = dict.fromkeys(disk for lun in luns for disk in topology.luns[lun].disks)
        parallel = [name for name in behind if topology.disks[name].service]
        if parallel and self.binding.kind not in QUEUES:
            faster = _multiply(topology, "disk", parallel, {"service": 1 / RAISE})
            yield self._alter(f"disk.{in_ranges(parallel)}", "a quarter faster", faster)

    def links(self, element: Element) -> Alteration | None:
        # What the selector overloads is part of what is said of it.
        if element.binds and self.binding.kind is ElementKind.SELECTOR:
            return None
        topology = _multiply(self.arm.topology, "link", element.names, {"rate": RAISE, "cost": 1 / RAISE})
        return self._alter(element.label, "a quarter faster", topology)

    def selectors(self, element: Element) -> Alteration:
        topology = self.arm.topology
        adaptive = {name: _adaptive(topology, topology.stacks[name]) for name in element.names}
        better = replace(topology, stacks={**topology.stacks, **adaptive})
        return self._alter(element.label, "service-time, weighted by links", better)

    def cpu(self, element: Element) -> Alteration:
        slower = dict.fromkeys(_DISK_RATES, 1 / RAISE) | dict.fromkeys(_DISK_TIMES, RAISE)
        topology = _multiply(self.arm.topology, "disk", self.arm.topology.disks, slower)
        topology = _multiply(topology, "link", topology.links, {"rate": 1 / RAISE, "cost": RAISE})
        absolute = self.binding.kind in (ElementKind.LIMIT, ElementKind.PACE)
        refused = "a limit in requests or bytes a second does not become slower with the devices" if absolute else ""
        row = self._alter(element.label, "a quarter faster, to the devices", topology)
        return replace(row, times=RAISE, refused=refused)

    def host_queues(self, element: Element) -> Alteration:
        def deeper(hba: Hba) -> dict[str, int]:
            # A LUN can hold no more than its host has.
            return dict.fromkeys(
                ("can_queue", *(("cmd_per_lun",) if hba.cmd_per_lun == hba.can_queue else ())),
                ceil(hba.can_queue * RAISE),
            )

        return self._depths("can_queue", deeper)

    def lun_depths(self, element: Element) -> Alteration:
        row = self._depths("cmd_per_lun", lambda hba: {"cmd_per_lun": ceil(hba.cmd_per_lun * RAISE)})
        queue = dict(row.arm.queue)
        if "nr_requests" in queue:
            queue["nr_requests"] = str(ceil(int(queue["nr_requests"]) * RAISE))
        return replace(row, arm=replace(row.arm, queue=queue))

    def _depths(self, key: str, deeper: Callable[[Hba], dict[str, int]]) -> Alteration:
        """All hosts with other depths, of which ``key`` is the one that is named."""
        was = self.arm.topology.hbas
        now = {name: replace(hba, **deeper(hba)) for name, hba in was.items()}  # type: ignore[arg-type]
        says = _from_to(*([getattr(hba, key) for hba in hbas.values()] for hbas in (was, now)))
        return self._alter(f"hba.{key}", says, replace(self.arm.topology, hbas=now))

    def limits(self, element: Element) -> Alteration | None:
        """Limits of blk-throttle; how much more a weight is to give is not known."""
        queue, roles = dict(self.arm.queue), dict(self.load.roles)
        for key in (key for key in queue if f"queue.{key.replace('/', '.')}" in element.names):
            queue[key] = _raise_numbers(queue[key])
        for name, role in self.load.roles.items():
            if f"role.{name}.io_max" in element.names:
                higher = _raise_numbers(role.options["io_max"])
                roles[name] = replace(role, options={**role.options, "io_max": higher})
        arm, load = replace(self.arm, queue=queue), replace(self.load, roles=roles)
        return (
            Alteration(element.label, "a quarter higher", arm, load) if (arm, load) != (self.arm, self.load) else None
        )

    def iodepths(self, element: Element) -> Alteration | None:
        roles = self.load.roles
        # More in flight is what a latency is proven by, unless a lock holds it back.
        single = self.binding.kind is ElementKind.LATENCY and all(role.iodepth == 1 for role in roles.values())
        if element.kind is (ElementKind.IODEPTH if single else ElementKind.LATENCY):
            return None
        deeper = {
            name: replace(role, iodepth=ceil(role.iodepth * RAISE))
            if role.ioengine == "io_uring" or (role.ioengine == "libaio" and role.direct)
            else role
            for name, role in roles.items()
        }
        refused = "" if deeper != roles else "its roles have one request in flight each"
        says = _from_to(*([role.iodepth for role in each.values()] for each in (roles, deeper)))
        return Alteration(element.label, says, self.arm, replace(self.load, roles=deeper), refused=refused)

    def paces(self, element: Element) -> Alteration:
        """Roles that pace themselves, a quarter faster: a higher rate, or a shorter thinktime."""
        was = {name: self.load.roles[name].options for name in element.names}
        now = {name: _faster(options) for name, options in was.items()}
        changed = dict.fromkeys(
            f"{key} {was[name][key]} -> {value}"
            for name, options in now.items()
            for key, value in options.items()
            if value != was[name][key]
        )
        roles = {name: replace(self.load.roles[name], options=options) for name, options in now.items()}
        load = replace(self.load, roles={**self.load.roles, **roles})
        return Alteration(element.label, "; ".join(changed), self.arm, load)


def _raise_numbers(text: str) -> str:
    return re.sub(r"[0-9]+", lambda number: str(ceil(int(number[0]) * RAISE)), text)


def _adaptive(topology: Topology, stack: Stack) -> Stack:
    """All paths at once, each with as much in flight as its narrowest link carries."""
    rates = [narrowest(topology, path) for path in stack.over]
    weights = tuple(max(1, round(_MOST_WEIGHT * rate / max(rates))) for rate in rates)
    return replace(stack, selector="service-time", policy="multibus", throughput=weights)


def _faster(options: Mapping[str, str]) -> Mapping[str, str]:
    changed = dict(options)
    for key in ("rate", "rate_iops"):
        if key in options:
            changed[key] = str(ceil(int(options[key]) * RAISE))
    if "thinktime" in options:
        changed["thinktime"] = str(int(int(options["thinktime"]) / RAISE))
    return changed


def _from_to(before: Iterable[int], after: Iterable[int]) -> str:
    return ", ".join(dict.fromkeys(f"{was} -> {now}" for was, now in zip(before, after, strict=True)))


_RAISED = {
    ElementKind.SELECTOR: _Raise.selectors,
    ElementKind.DISK: _Raise.disks,
    ElementKind.LINK: _Raise.links,
    ElementKind.CPU: _Raise.cpu,
    ElementKind.HOST_QUEUE: _Raise.host_queues,
    ElementKind.LUN_DEPTH: _Raise.lun_depths,
    ElementKind.LIMIT: _Raise.limits,
    ElementKind.PACE: _Raise.paces,
    ElementKind.LATENCY: _Raise.iodepths,
    ElementKind.IODEPTH: _Raise.iodepths,
}
