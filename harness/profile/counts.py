# SPDX-License-Identifier: GPL-2.0-only
"""What the plugin wrote about one window; lab/native/profile/plugin.c defines the lines."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from lab.base.errors import LabBroken

ROOTS = ("kernel", "interrupt", "idle")
"""The first nodes of the plugin's tree, by number: processes in the kernel, interrupts, the idle task."""


@dataclass(frozen=True)
class CallNode:
    """A kernel function by the path of calls to it. ``parent`` is a node's number, or that of a root."""

    number: int
    parent: int
    address: int
    calls: int
    instructions: int


@dataclass(frozen=True)
class UserBlock:
    """Instructions of a program up to a jump. ``data`` is their machine code."""

    address: int
    data: bytes
    runs: int
    instructions: int


@dataclass(frozen=True)
class CountedWindow:
    """``nodes`` come after their parents. ``surprises`` counts returns that no call explains.

    ``code`` maps the address of each instruction of the kernel that was executed to how often.
    """

    total: int
    surprises: int
    nodes: tuple[CallNode, ...]
    blocks: tuple[UserBlock, ...]
    code: Mapping[int, int]


def read_window(text: str) -> CountedWindow:
    """Raises LabBroken where a line has no meaning or the instructions do not add up to their total."""
    total, surprises = 0, 0
    nodes, blocks = [], []
    code = Counter[int]()
    for number, line in enumerate(text.splitlines(), 1):
        try:
            match line.split():
                case ["total", instructions, unexpected]:
                    total, surprises = int(instructions), int(unexpected)
                case ["node", *fields]:
                    own, parent, address, calls, instructions = fields
                    nodes.append(CallNode(int(own), int(parent), int(address, 16), int(calls), int(instructions)))
                case ["code", runs, *addresses]:
                    code.update(dict.fromkeys((int(address, 16) for address in addresses), int(runs)))
                case ["user", address, data, runs, instructions]:
                    blocks.append(UserBlock(int(address, 16), bytes.fromhex(data), int(runs), int(instructions)))
                case _:
                    raise ValueError(line)
        except ValueError as error:
            raise LabBroken(f"line {number} of the plugin is wrong: {line[:60]}", remedy="report this") from error
    programs = sum(block.instructions for block in blocks)
    for counted in (sum(node.instructions for node in nodes), code.total()):
        if counted + programs != total:
            raise LabBroken(
                f"the plugin counted {total} instructions and listed {counted + programs}", remedy="report this"
            )
    # Written newest first, and a node is newer than its parent.
    return CountedWindow(total, surprises, tuple(reversed(nodes)), tuple(blocks), code)
