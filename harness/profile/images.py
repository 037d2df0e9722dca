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
        return any(after.startswith(data) for after in self._from(address))

    def covers(self, address: int) -> bool:
        return any(self._from(address))

    def _from(self, address: int) -> Iterator[bytes]:
        """The bytes from ``address`` to the end of its segment."""
        for segment in self.segments:
            if 0 <= address - segment.address < len(segment.data):
                yield segment.data[address - segment.address :]


@dataclass(frozen=True)
class Mapped:
    """An image and by how much it was moved when it was loaded."""

    image: Image
    base: int


def find_images(blocks: Sequence[UserBlock], images: Iterable[Image]) -> Mapping[UserBlock, Mapped]:
    """The image of each block that has one."""
    images = tuple(images)
    places: dict[UserBlock, Mapped] = {}
    vdsos: list[Mapped] = []
    for block in sorted(blocks, key=lambda block: (-len(block.data), block.address, block.data)):
        if block in places or len(block.data) < _TELLING:
            continue
        matches = {
            place: [other for other in blocks if place.image.has(other.address - place.base, other.data)]
            for place in (Mapped(image, base) for image in images for base in _bases(block, image))
        }
        if matches:
            best = max(matches, key=lambda place: (len(matches[place]), place.image.name, place.base))
            vdsos += [best] if best.image.name == VDSO else []
            places = dict.fromkeys(matches[best], best) | places
    for block in blocks:
        patched = (vdso for vdso in vdsos if vdso.image.covers(block.address - vdso.base))
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
