# SPDX-License-Identifier: GPL-2.0-only
"""Which program and function a block of user space belongs to, told by its machine code.

Addresses alone do not tell: programs that are not relocated share them, and those of others are random. A block's
machine code and its place in a page do, for code of user space is not changed when it is loaded, except for the
vDSO, which the kernel patches for its processor.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.profile.counts import UserBlock
from lab.native.elf import ElfFunction, Segment

VDSO = "[vdso]"
_PAGE = 4096
_TELLING = 16
"""Bytes that a block must have to say where a program was loaded; shorter ones are found in many programs."""


@dataclass(frozen=True, eq=False)
class Image:
    """A program or library: ``functions`` sorted by address, as far as its file names them."""

    name: str
    segments: tuple[Segment, ...]
    functions: tuple[ElfFunction, ...]

    def function(self, address: int) -> ElfFunction | None:
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
    images = tuple(images)
    found: dict[UserBlock, Mapped] = {}
    mapped: list[Mapped] = []
    for block in sorted(blocks, key=lambda block: (-len(block.data), block.address, block.data)):
        if block in found or len(block.data) < _TELLING:
            continue
        candidates = [Mapped(image, base) for image in images for base in _bases(block, image)]
        explained = {one: _matches(one, blocks) for one in candidates}
        if explained:
            best = max(candidates, key=lambda one: (len(explained[one]), one.image.name, one.base))
            mapped.append(best)
            found |= {one: best for one in explained[best] if one not in found}
    for block in blocks:
        patched = (one for one in mapped if one.image.name == VDSO and one.image.covers(block.address - one.base))
        if block not in found and (one := next(patched, None)):
            found[block] = one
    return found


def _matches(mapped: Mapped, blocks: Sequence[UserBlock]) -> list[UserBlock]:
    return [block for block in blocks if mapped.image.has(block.address - mapped.base, block.data)]


def _bases(block: UserBlock, image: Image) -> Iterator[int]:
    for segment in image.segments:
        at = segment.data.find(block.data)
        while at >= 0:
            base = block.address - segment.address - at
            if base >= 0 and base % _PAGE == 0:
                yield base
            at = segment.data.find(block.data, at + 1)
