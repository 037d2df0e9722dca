# SPDX-License-Identifier: GPL-2.0-only
"""The profile of one load in one boot."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from functools import cached_property

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
        return {
            Context.KERNEL: Group.KERNEL,
            Context.INTERRUPT: Group.INTERRUPTS,
            Context.IDLE: Group.IDLE,
        }[self.context]

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
    calls: int = 0
    instructions: int = 0

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
    nodes: tuple[PathNode, ...] = field(repr=False)
    code: tuple[Code, ...] = field(default=(), repr=False)

    @cached_property
    def costs(self) -> Mapping[Function, Cost]:
        """What each function executed itself."""
        found: dict[Function, Cost] = defaultdict(Cost)
        for node in self.nodes:
            found[node.function] += Cost(node.calls, node.instructions)
        return dict(found)

    @property
    def unexplained(self) -> int:
        """Instructions that belong to no known function."""
        return self.total - sum(cost.instructions for cost in self.costs.values())

    @cached_property
    def inclusive(self) -> tuple[int, ...]:
        """Instructions of each node and all below it."""
        sums = [node.instructions for node in self.nodes]
        for index in range(len(self.nodes) - 1, -1, -1):
            parent = self.nodes[index].parent
            if parent is not None:
                sums[parent] += sums[index]
        return tuple(sums)

    @cached_property
    def edges(self) -> Mapping[tuple[Function, Function], Cost]:
        """Calls from one function to another, with the instructions of the callee and all that it called.

        Calls within a recursion are counted, their instructions once, with the outermost call.
        """
        found: dict[tuple[Function, Function], Cost] = defaultdict(Cost)
        for index, node in enumerate(self.nodes):
            if node.parent is None:
                continue
            edge = self.nodes[node.parent].function, node.function
            inside = any(edge == above for above in self._edges_above(node.parent))
            found[edge] += Cost(node.calls, 0 if inside else self.inclusive[index])
        return dict(found)

    def _edges_above(self, index: int) -> Iterator[tuple[Function, Function]]:
        node = self.nodes[index]
        while node.parent is not None:
            above = self.nodes[node.parent]
            yield above.function, node.function
            node = above

    def stack(self, index: int) -> tuple[Function, ...]:
        """From the beginning of the path to the node."""
        path = []
        at: int | None = index
        while at is not None:
            path.append(self.nodes[at].function)
            at = self.nodes[at].parent
        return tuple(reversed(path))

    def per_io(self, instructions: int) -> Fraction:
        return Fraction(instructions) / self.ios
