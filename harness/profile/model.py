# SPDX-License-Identifier: GPL-2.0-only
"""The profile of one load in one boot, and two of them function by function.

Per I/O the deltas add up to the difference of the totals.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from itertools import groupby, pairwise

BLIND = "Lock contention and cache misses are invisible here: every instruction counts the same."
KERNEL_IMAGE = "vmlinux"
DEVICE_MODELS = frozenset(
    {
        *("null_blk", "scsi_debug", "loop", "brd", "diskd"),
        *("tcm_loop", "target_core_mod", "target_core_iblock", "target_core_user"),
        *("nvmet", "nvmet_tcp", "nvme_loop"),
    }
)
"""Modules and programs that play the device: what they execute is not a cost of the block layer."""
MEASURING = frozenset({"sampler"})


class Context(StrEnum):
    """Where a function ran: a program, the kernel for a process or a kernel thread, an interrupt (until its iret,
    softirqs included), the idle task."""

    USER = "user"
    KERNEL = "kernel"
    INTERRUPT = "interrupt"
    IDLE = "idle"


class Group(StrEnum):
    """The parts that add up to a profile."""

    PROGRAMS = "fio and its libraries"
    KERNEL = "kernel"
    INTERRUPTS = "interrupts"
    MODELS = "device models"
    MEASURING = "measuring (sampler)"
    IDLE = "idle task"


_GROUPS = {Context.KERNEL: Group.KERNEL, Context.INTERRUPT: Group.INTERRUPTS, Context.IDLE: Group.IDLE}


@dataclass(frozen=True, order=True)
class Function:
    """``owner`` is the module or program, "vmlinux" for the kernel's image."""

    context: Context
    owner: str
    name: str

    @property
    def group(self) -> Group:
        if self.owner in DEVICE_MODELS:
            return Group.MODELS
        if self.context is Context.USER:
            return Group.MEASURING if self.owner in MEASURING else Group.PROGRAMS
        return _GROUPS[self.context]

    @property
    def title(self) -> str:
        """The name, with its owner unless that is the kernel's image."""
        return self.name if self.owner == KERNEL_IMAGE else f"{self.name} [{self.owner.strip('[]')}]"


@dataclass(frozen=True)
class PathNode:
    """A function by the path of calls to it: ``parent`` is an index of ``Profile.nodes``, None at the beginning of a
    path. A user function has no callers."""

    parent: int | None
    function: Function
    calls: int
    instructions: int


@dataclass(frozen=True)
class Cost:
    """Whole numbers of a window, or rational ones per I/O."""

    calls: Fraction | int = 0
    instructions: Fraction | int = 0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.calls + other.calls, self.instructions + other.instructions)


@dataclass(frozen=True)
class Code:
    """The executed instructions of a function of the kernel in all contexts: how often, by offset from ``address``.

    ``owner`` is the module, "vmlinux" for the kernel's image.
    """

    owner: str
    name: str
    address: int
    counts: Mapping[int, int] = field(hash=False)


@dataclass(frozen=True)
class Head:
    """What was profiled. ``per_io`` is the figure cpu.per_io of the stored run (ns), None where it has none."""

    scenario: str
    arm: str
    load: str
    seed: int
    release: str
    origin: str
    digest: str
    per_io: float | None = None

    @property
    def cell(self) -> str:
        return f"{self.arm}.{self.load}"


@dataclass(frozen=True)
class Profile:
    """``total`` instructions in a window in which ``ios`` I/Os were done, a rational number.

    ``surprises`` is the number of returns in the window that the followed calls do not explain: stacks are exact
    where it is 0. Parents come before their children in ``nodes``.
    """

    head: Head
    ios: Fraction
    total: int
    surprises: int
    nodes: tuple[PathNode, ...]
    code: tuple[Code, ...] = ()

    @cached_property
    def costs(self) -> Mapping[Function, Cost]:
        costs: dict[Function, Cost] = defaultdict(Cost)
        for node in self.nodes:
            costs[node.function] += Cost(node.calls, node.instructions)
        return dict(costs)

    @property
    def unexplained(self) -> int:
        return self.total - sum(node.instructions for node in self.nodes)

    @cached_property
    def inclusive(self) -> tuple[int, ...]:
        """Instructions of each node and all below it."""
        sums = [node.instructions for node in self.nodes]
        for index, node in reversed(list(enumerate(self.nodes))):
            if node.parent is not None:
                sums[node.parent] += sums[index]
        return tuple(sums)

    @cached_property
    def edges(self) -> Mapping[tuple[Function, Function], Cost]:
        """Calls from one function to another, with the instructions of the callee and all that it called.

        Calls within a recursion are counted, their instructions once, with the outermost call.
        """
        edges: dict[tuple[Function, Function], Cost] = defaultdict(Cost)
        for stack, node, below in zip(self.stacks, self.nodes, self.inclusive, strict=True):
            for edge in [*pairwise(stack)][-1:]:
                edges[edge] += Cost(node.calls, 0 if edge in [*pairwise(stack[:-1])] else below)
        return dict(edges)

    @cached_property
    def stacks(self) -> tuple[tuple[Function, ...], ...]:
        """The functions from the beginning of each node's path to the node."""
        stacks: list[tuple[Function, ...]] = []
        for node in self.nodes:
            stacks.append((*(() if node.parent is None else stacks[node.parent]), node.function))
        return tuple(stacks)

    def per_io(self, instructions: Fraction | int) -> Fraction:
        return Fraction(instructions) / self.ios


_PARTS = re.compile(r"(_noprof)?(\.(isra|part|constprop|cold|llvm|lto_priv)(\.[0-9]+)?)*$")
"""Suffixes of the compiler, and of allocators that became macros (linux/alloc_tag.h, Linux 6.10)."""
_MAIN = Fraction(9, 10)
"""The share of a function's calls that come from the caller into which it may have been inlined."""
_SAME = Fraction(1, 4)
"""A function's cost is shifted when at most this share of it is left over in the sum with its caller's delta."""


@dataclass(frozen=True)
class FunctionChange:
    """What a function itself cost per I/O, and its calls from other functions.

    ``inlined`` are functions that one side has within it and the other apart.
    """

    function: Function
    before: Cost
    after: Cost
    inlined: tuple[Function, ...] = ()

    @property
    def delta(self) -> Fraction:
        return Fraction(self.after.instructions - self.before.instructions)

    @property
    def note(self) -> str:
        if not self.before.instructions:
            return "only after"
        return "" if self.after.instructions else "only before"


@dataclass(frozen=True)
class Differential:
    """``changes`` with the largest first."""

    before: Profile
    after: Profile
    changes: tuple[FunctionChange, ...]

    @property
    def totals(self) -> tuple[Fraction, Fraction]:
        return self.before.per_io(self.before.total), self.after.per_io(self.after.total)

    @property
    def rest(self) -> Fraction:
        """What is left of the difference of the totals when every change is taken away: the unexplained part."""
        before, after = self.totals
        return after - before - sum((change.delta for change in self.changes), Fraction())


def canonical(function: Function) -> Function:
    """The function as the source has it, without the compiler's parts and clones."""
    return Function(function.context, function.owner, _PARTS.sub("", function.name))


def source_costs(profile: Profile) -> dict[Function, Cost]:
    """What each function of the source cost per I/O, most expensive first. A call from one of its own parts is none."""
    costs: dict[Function, Cost] = defaultdict(Cost)
    for node in profile.nodes:
        own = canonical(node.function)
        caller = profile.nodes[node.parent].function if node.parent is not None else None
        inner = caller is not None and caller != node.function and canonical(caller) == own
        costs[own] += Cost(profile.per_io(0 if inner else node.calls), profile.per_io(node.instructions))
    return dict(sorted(costs.items(), key=lambda item: (-item[1].instructions, item[0])))


def kernel_costs(profile: Profile) -> dict[str, float]:
    """The instructions for each I/O that functions of the kernel and its modules execute themselves, by name."""
    costs: dict[str, float] = defaultdict(float)
    for function, cost in source_costs(profile).items():
        if function.context is not Context.USER:
            costs[function.name] += float(cost.instructions)
    return dict(costs)


def differential(before: Profile, after: Profile) -> Differential:
    old, new = source_costs(before), source_costs(after)
    changes = [
        FunctionChange(function, old.get(function, Cost()), new.get(function, Cost()))
        for function in sorted(old.keys() | new.keys())
    ]
    merged = _with_shifts(changes, _main_callers(before) | _main_callers(after))
    ordered = sorted(merged, key=lambda change: (-abs(change.delta), change.function))
    return Differential(before, after, tuple(ordered))


def _with_shifts(changes: Sequence[FunctionChange], callers: Mapping[Function, Function]) -> list[FunctionChange]:
    """The changes, with functions of one side joined to the caller that has their cost on the other side."""
    own = {change.function: change for change in changes}
    left = dict(own)
    by_caller: dict[Function, list[FunctionChange]] = defaultdict(list)
    for change in changes:
        if change.note and change.function in callers:
            by_caller[callers[change.function]].append(change)
    for caller, candidates in by_caller.items():
        for inlined in _shifts(own[caller], candidates):
            host = left[caller]
            before = host.before + Cost(0, inlined.before.instructions)
            after = host.after + Cost(0, inlined.after.instructions)
            left[caller] = FunctionChange(caller, before, after, (*host.inlined, inlined.function))
            del left[inlined.function]
    return list(left.values())


def _shifts(caller: FunctionChange, candidates: Iterable[FunctionChange]) -> list[FunctionChange]:
    """Those of the candidates whose cost the caller gave or took: all together, or the one that fits best."""
    opposite = [change for change in candidates if change.delta * caller.delta < 0]
    by_fit = sorted(opposite, key=lambda change: abs(change.delta + caller.delta))
    for group in (opposite, *([change] for change in by_fit)):
        moved = sum((change.delta for change in group), Fraction())
        if abs(moved + caller.delta) <= _SAME * abs(moved):
            return group
    return []


def _main_callers(profile: Profile) -> dict[Function, Function]:
    """The one caller of each function that has one for nearly all of its calls."""
    calls: dict[Function, Counter[Function]] = defaultdict(Counter)
    for (caller, callee), cost in profile.edges.items():
        if canonical(caller) != canonical(callee):
            calls[canonical(callee)][canonical(caller)] += int(cost.calls)
    mains = {}
    for callee, by_caller in calls.items():
        most = max(by_caller, key=lambda caller: (by_caller[caller], caller))
        if 0 < by_caller[most] >= _MAIN * by_caller.total():
            mains[callee] = most
    return mains


_SIDES = 2
_NEARLY = Fraction(9, 10)
_MOST, _NAMES = 0.5, 0.65
"""Names are alike from this similarity: iomap_readpage and iomap_read_folio, renamed in 5.19, have 0.67, and
__blk_mq_alloc_request and __blk_mq_alloc_requests 0.98; blk_mq_make_request and blk_mq_submit_bio have 0.5."""
_ONLY = Fraction(1, 20)
"""A path is of one side where the other spends at most this share of its instructions on it."""


@dataclass(frozen=True)
class Frame:
    """A call path: its own and all lower instructions per I/O on each side."""

    name: str
    costs: list[Fraction] = field(default_factory=lambda: [Fraction()] * _SIDES)
    below: "dict[str, Frame]" = field(default_factory=dict)

    @property
    def delta(self) -> Fraction:
        return self.costs[1] - self.costs[0]

    @property
    def inner(self) -> str:
        """The function within it to which nearly all of its instructions belong, with what it calls."""
        total, frame = sum(self.costs), self
        while heavy := [below for below in frame.below.values() if sum(below.costs) >= _NEARLY * total]:
            frame = heavy[0]
        return frame.name


def frames_of(profiles: Sequence[Profile]) -> Frame:
    """The call paths of one or two profiles, merged by name without the compiler's parts and clones."""
    root = Frame("all")
    for side, profile in enumerate(profiles):
        for stack, node in zip(profile.stacks, profile.nodes, strict=True):
            # A part within its function is no frame of its own.
            titles = [title for title, _ in groupby(canonical(function).title for function in stack)]
            frame, own = root, profile.per_io(node.instructions)
            frame.costs[side] += own
            for name in [str(node.function.context), *titles] if own else []:
                frame = frame.below.setdefault(name, Frame(name))
                frame.costs[side] += own
    return root


def joined(root: Frame) -> Frame:
    """The call paths with renamed functions as one frame, ``OLD -> NEW``.

    On the same path OLD is only before and NEW only after, neither is anywhere on the other side, and most of both is
    spent in common callees, or their names are alike.
    """
    return _joined(root, _names(root, 0), _names(root, 1))


def _names(frame: Frame, side: int) -> set[str]:
    own = {frame.name} if frame.costs[side] else set()
    return own.union(*(_names(below, side) for below in frame.below.values()))


def _joined(frame: Frame, before: Set[str], after: Set[str]) -> Frame:
    gone = [below for name, below in frame.below.items() if name not in after]
    come = [below for name, below in frame.below.items() if name not in before]
    pairs = sorted(((_alike(old, new), old.name, new.name) for old in gone for new in come), reverse=True)
    below = dict(frame.below)
    for (shared, names), old, new in pairs:
        if (shared > _MOST or names > _NAMES) and {old, new} <= below.keys():
            merged = _merged(below.pop(old), below.pop(new))
            below[merged.name] = merged
    return Frame(frame.name, frame.costs, {name: _joined(each, before, after) for name, each in below.items()})


def _alike(old: Frame, new: Frame) -> tuple[float, float]:
    """The share of both that is spent in functions that both call, and how similar the names are, from 0 to 1."""
    common = old.below.keys() & new.below.keys()
    shares = (
        sum(frame.below[name].costs[side] for name in common) / frame.costs[side]
        for side, frame in enumerate((old, new))
    )
    return float(min(shares)), SequenceMatcher(None, old.name, new.name).ratio()


def _merged(old: Frame, new: Frame) -> Frame:
    """Both as one frame, with what they call."""
    name = old.name if old.name == new.name else f"{old.name} -> {new.name}"
    below = old.below | new.below
    below |= {common: _merged(old.below[common], new.below[common]) for common in old.below.keys() & new.below.keys()}
    return Frame(name, [sum(costs, Fraction()) for costs in zip(old.costs, new.costs, strict=True)], below)


def one_sided(before: Profile, after: Profile) -> list[tuple[tuple[str, ...], Frame]]:
    """The largest call paths that (nearly) only one side has, none within another, by size: the names down to each."""
    subtrees = _one_sided(frames_of([before, after]), ())
    return sorted(subtrees, key=lambda each: (-abs(each[1].delta), each[0]))


def _one_sided(frame: Frame, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Frame]]:
    for name, below in frame.below.items():
        if min(below.costs) <= _ONLY * max(below.costs):
            yield (*path, name), below
        else:
            yield from _one_sided(below, (*path, name))
