# SPDX-License-Identifier: GPL-2.0-only
"""The profile of one load in one boot."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

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
