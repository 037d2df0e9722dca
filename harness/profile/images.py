# SPDX-License-Identifier: GPL-2.0-only
"""Which program and function a block of user space belongs to, told by its machine code.

Addresses alone do not tell: programs that are not relocated share them, and those of others are random. A block's
machine code and its place in a page do, for code of user space is not changed when it is loaded, except for the
vDSO, which the kernel patches for its processor.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.profile.counts import UserBlock
from lab.native.elf import Function, Segment

VDSO = "[vdso]"
_PAGE = 4096
_TELLING = 16
"""Bytes that a block must have to say where a program was loaded; shorter ones are found in many programs."""


@dataclass(frozen=True)
class Image:
    """A program or library: ``functions`` sorted by address, as far as its file names them."""

    name: str
    segments: tuple[Segment, ...]
    functions: tuple[Function, ...]

    def function(self, address: int) -> Function | None:
        """The function that covers ``address`` (not relocated)."""
        at = bisect_right(self.functions, address, key=lambda function: function.address)
        for function in reversed(self.functions[max(0, at - 8) : at]):
            if address < function.address + function.size:
                return function
        return None

    def has(self, address: int, data: bytes) -> bool:
        return any(
            segment.data[address - segment.address :][: len(data)] == data
            for segment in self.segments
            if 0 <= address - segment.address < len(segment.data)
        )

    def covers(self, address: int) -> bool:
        return any(0 <= address - segment.address < len(segment.data) for segment in self.segments)


@dataclass(frozen=True)
class Mapped:
    """An image and by how much it was moved when it was loaded."""

    image: Image
    base: int


def find_images(blocks: Sequence[UserBlock], images: Iterable[Image]) -> Mapping[UserBlock, Mapped]:
    """The image of each block that has one."""
    votes: Counter[tuple[str, int]] = Counter()
    by_name = {image.name: image for image in images}
    for block in blocks:
        if len(block.data) >= _TELLING:
            votes.update((image.name, base) for image in by_name.values() for base in _bases(block, image))
    ranked = sorted(votes, key=lambda vote: (-votes[vote], vote))
    mapped = [Mapped(by_name[name], base) for name, base in ranked]
    found: dict[UserBlock, Mapped] = {}
    by_page: dict[int, list[Mapped]] = defaultdict(list)
    for one in mapped:
        for segment in one.image.segments:
            first = segment.address + one.base
            for page in range(first // _PAGE, (first + len(segment.data)) // _PAGE + 1):
                by_page[page].append(one)
    for block in blocks:
        near = by_page[block.address // _PAGE]
        for one in (*filter(lambda one: one.image.has(block.address - one.base, block.data), near), *_patched(near, block)):
            found[block] = one
            break
    return found


def _patched(near: Iterable[Mapped], block: UserBlock) -> Iterator[Mapped]:
    yield from (one for one in near if one.image.name == VDSO and one.image.covers(block.address - one.base))


def _bases(block: UserBlock, image: Image) -> Iterator[int]:
    for segment in image.segments:
        at = segment.data.find(block.data)
        while at >= 0:
            base = block.address - segment.address - at
            if base >= 0 and base % _PAGE == 0:
                yield base
            at = segment.data.find(block.data, at + 1)
