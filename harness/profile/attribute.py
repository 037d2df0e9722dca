# SPDX-License-Identifier: GPL-2.0-only
"""From addresses to functions: the kernel's by its symbols, those of programs by their machine code."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from harness.profile.counts import ROOTS, CountedWindow, UserBlock
from harness.profile.images import VDSO, Image, find_images
from harness.profile.model import KERNEL_IMAGE, Code, Context, Cost, Function, PathNode
from lab.native.elf import executable_segments, functions, is_elf
from lab.profile import Symbol

NO_NAME = "(no symbol)"
_SHARED_OBJECT = b"\x03\x00\x3e\x00"  # e_type ET_DYN, e_machine EM_X86_64


def nodes_of(window: CountedWindow, symbols: Sequence[Symbol], images: Iterable[Image]) -> tuple[PathNode, ...]:
    """The profile's nodes, parents first. What belongs to no function is left out."""
    return (*_kernel_nodes(window, symbols), *_user_nodes(window.blocks, images))


def _kernel_nodes(window: CountedWindow, symbols: Sequence[Symbol]) -> Iterator[PathNode]:
    addresses = [symbol.address for symbol in symbols]
    places: dict[int, tuple[int | None, Context]] = {number: (None, Context(name)) for number, name in enumerate(ROOTS)}
    for index, node in enumerate(window.nodes):
        parent, context = places[node.parent]
        symbol = _symbol(symbols, addresses, node.address)
        places[node.number] = index, context
        function = Function(context, symbol.module or KERNEL_IMAGE, symbol.name)
        yield PathNode(parent, function, node.calls, node.instructions)


def _symbol(symbols: Sequence[Symbol], addresses: Sequence[int], address: int) -> Symbol:
    at = bisect_right(addresses, address) - 1
    return symbols[at] if at >= 0 else Symbol(0, NO_NAME)


def code_of(window: CountedWindow, symbols: Sequence[Symbol]) -> tuple[Code, ...]:
    """The executed instructions of the kernel, by function."""
    addresses = [symbol.address for symbol in symbols]
    counts: dict[Symbol, dict[int, int]] = defaultdict(dict)
    for address in sorted(window.code):
        symbol = _symbol(symbols, addresses, address)
        counts[symbol][address - symbol.address] = window.code[address]
    return tuple(
        Code(symbol.module or KERNEL_IMAGE, symbol.name, symbol.address, own) for symbol, own in counts.items()
    )


def _user_nodes(blocks: Sequence[UserBlock], images: Iterable[Image]) -> Iterator[PathNode]:
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
    named += [(VDSO, data) for data in _shared_objects(vmlinux)]
    return tuple(Image(name, executable_segments(data), functions(data)) for name, data in named)


def _shared_objects(vmlinux: bytes) -> Iterator[bytes]:
    """The 64-bit shared objects within the kernel's image: its vDSO."""
    at = vmlinux.find(b"\x7fELF\x02\x01\x01", 1)
    while at >= 0:
        if vmlinux[at + 16 : at + 20] == _SHARED_OBJECT:
            yield vmlinux[at : at + (1 << 16)]
        at = vmlinux.find(b"\x7fELF\x02\x01\x01", at + 1)
