# SPDX-License-Identifier: GPL-2.0-only
"""From addresses to functions: the kernel's by its symbols, those of programs by their machine code."""

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.profile.model import KERNEL_IMAGE, Code, Context, Cost, Function, PathNode
from lab.base.errors import LabBroken
from lab.native.elf import ElfFunction, Segment, executable_segments, functions, is_elf
from lab.symbols import Symbol, Symbols

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


VDSO = "[vdso]"
_PAGE = 4096
_TELLING = 16
"""Bytes that blocks must have together to say where a program was loaded; fewer are found in many programs."""


@dataclass(frozen=True, eq=False)
class Image:
    """A program or library: ``functions`` sorted by address, as far as its file names them."""

    name: str
    segments: tuple[Segment, ...]
    functions: tuple[ElfFunction, ...]

    def function(self, address: int) -> ElfFunction | None:
        at = bisect_right(self.functions, address, key=lambda function: function.address)
        for function in reversed(self.functions[max(0, at - 8) : at]):
            if address < function.address + function.size:
                return function
        return None

    def has(self, address: int, data: bytes) -> bool:
        return any(after.startswith(data) for after in self.bytes_from(address))

    def bytes_from(self, address: int) -> Iterator[bytes]:
        """The bytes from ``address`` to the end of its segment."""
        for segment in self.segments:
            if segment.address <= address:
                yield segment.data[address - segment.address :]


@dataclass(frozen=True)
class Mapped:
    """An image and by how much it was moved when it was loaded."""

    image: Image
    base: int


def find_images(blocks: Sequence[UserBlock], images: Sequence[Image]) -> Mapping[UserBlock, Mapped]:
    places: dict[UserBlock, Mapped] = {}
    for block in sorted(blocks, key=lambda block: (-len(block.data), block.address, block.data)):
        if block in places:
            continue
        left = [other for other in blocks if other not in places]
        matches = {
            place: [other for other in left if place.image.has(other.address - place.base, other.data)]
            for place in (Mapped(image, base) for image in images for base in _bases(block, image))
        }
        best = max(matches, key=lambda place: (len(matches[place]), place.image.name, place.base), default=None)
        if best and sum(len(other.data) for other in matches[best]) >= _TELLING:
            places |= dict.fromkeys(matches[best], best)
    vdsos = [place for place in dict.fromkeys(places.values()) if place.image.name == VDSO]
    for block in blocks:
        patched = (vdso for vdso in vdsos if any(vdso.image.bytes_from(block.address - vdso.base)))
        if block not in places and (vdso := next(patched, None)):
            places[block] = vdso
    return places


def _bases(block: UserBlock, image: Image) -> Iterator[int]:
    for segment in image.segments:
        at = segment.data.find(block.data)
        while at >= 0:
            base = block.address - segment.address - at
            if base >= 0 and base % _PAGE == 0:
                yield base
            at = segment.data.find(block.data, at + 1)


NO_NAME = "(no symbol)"
_NOWHERE = Symbol(0, NO_NAME)
_SHARED_OBJECT = re.compile(rb"(?!\A)\x7fELF\x02\x01\x01.{9}\x03\x00\x3e\x00", re.DOTALL)
"""A 64-bit one (e_type ET_DYN, e_machine EM_X86_64) within the kernel's image: its vDSO."""


def nodes_of(window: CountedWindow, symbols: Symbols, images: Sequence[Image]) -> tuple[PathNode, ...]:
    """The profile's nodes, parents first. What belongs to no function is left out."""
    return (*_kernel_nodes(window, symbols), *_user_nodes(window.blocks, images))


def _kernel_nodes(window: CountedWindow, symbols: Symbols) -> Iterator[PathNode]:
    places: dict[int, tuple[int | None, Context]] = {number: (None, Context(name)) for number, name in enumerate(ROOTS)}
    for index, node in enumerate(window.nodes):
        parent, context = places[node.parent]
        symbol = symbols.function_at(node.address) or _NOWHERE
        places[node.number] = index, context
        function = Function(context, symbol.module or KERNEL_IMAGE, symbol.name)
        yield PathNode(parent, function, node.calls, node.instructions)


def code_of(window: CountedWindow, symbols: Symbols) -> tuple[Code, ...]:
    """The executed instructions of the kernel, by function."""
    counts: dict[Symbol, dict[int, int]] = defaultdict(dict)
    for address in sorted(window.code):
        symbol = symbols.function_at(address) or _NOWHERE
        counts[symbol][address - symbol.address] = window.code[address]
    return tuple(
        Code(symbol.module or KERNEL_IMAGE, symbol.name, symbol.address, own) for symbol, own in counts.items()
    )


def _user_nodes(blocks: Sequence[UserBlock], images: Sequence[Image]) -> Iterator[PathNode]:
    places = find_images(blocks, images)
    costs: dict[Function, Cost] = defaultdict(Cost)
    for block in filter(places.__contains__, blocks):
        image, address = places[block].image, block.address - places[block].base
        known = image.function(address)
        function = Function(Context.USER, image.name, known.name if known else NO_NAME)
        entered = known is not None and known.address == address
        costs[function] += Cost(block.runs if entered else 0, block.instructions)
    for function, cost in sorted(costs.items(), key=lambda item: item[0]):
        yield PathNode(None, function, int(cost.calls), int(cost.instructions))


def images_of(files: Mapping[str, bytes], vmlinux: bytes) -> tuple[Image, ...]:
    """The programs and libraries among ``files`` by name, and the vDSOs in the kernel's image."""
    named = [(name, data) for name, data in sorted(files.items()) if is_elf(data)]
    named += [(VDSO, vmlinux[match.start() :]) for match in _SHARED_OBJECT.finditer(vmlinux)]
    return tuple(Image(name, executable_segments(data), functions(data)) for name, data in named)
