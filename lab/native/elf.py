# SPDX-License-Identifier: GPL-2.0-only
"""Functions and code of a 64-bit ELF file (elf(5))."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

_MAGIC = b"\x7fELF\x02\x01"
_PT_LOAD, _PF_X = 1, 1
_SHT_SYMTAB, _SHT_DYNSYM = 2, 11
_STT_FUNC, _STT_GNU_IFUNC = 2, 10
_SYMBOL = struct.Struct("<IBBHQQ")


@dataclass(frozen=True)
class ElfFunction:
    name: str
    address: int
    size: int


@dataclass(frozen=True)
class Segment:
    """Executable bytes as they are in memory before relocation."""

    address: int
    data: bytes


def is_elf(data: bytes) -> bool:
    return data.startswith(_MAGIC)


def executable_segments(data: bytes) -> tuple[Segment, ...]:
    phoff, _, _, _, phentsize, phnum = struct.unpack_from("<QQIHHH", data, 0x20)
    segments = []
    for at in range(phoff, phoff + phentsize * phnum, phentsize):
        kind, flags, offset, address, _, size = struct.unpack_from("<IIQQQQ", data, at)
        if kind == _PT_LOAD and flags & _PF_X:
            segments.append(Segment(address, data[offset : offset + size]))
    return tuple(segments)


def functions(data: bytes) -> tuple[ElfFunction, ...]:
    """Functions of the symbol table, or of the dynamic one where the file was stripped; sorted by address and name."""
    sections = list(_sections(data))
    kinds = {kind for kind, _, _, _ in sections}
    wanted = _SHT_SYMTAB if _SHT_SYMTAB in kinds else _SHT_DYNSYM
    found: set[ElfFunction] = set()
    for kind, offset, size, link in sections:
        if kind == wanted:
            found.update(_functions(data, offset, size, sections[link][1]))
    return tuple(sorted(found, key=lambda function: (function.address, function.name)))


def _sections(data: bytes) -> Iterator[tuple[int, int, int, int]]:
    """(type, offset, size, link) of each section."""
    (shoff,) = struct.unpack_from("<Q", data, 0x28)
    shentsize, shnum = struct.unpack_from("<HH", data, 0x3A)
    for at in range(shoff, shoff + shentsize * shnum, shentsize):
        _, kind, _, _, offset, size, link = struct.unpack_from("<IIQQQQI", data, at)
        yield kind, offset, size, link


def _functions(data: bytes, offset: int, size: int, names: int) -> Iterator[ElfFunction]:
    for at in range(offset, offset + size, _SYMBOL.size):
        name, info, _, section, address, length = _SYMBOL.unpack_from(data, at)
        if section and info & 0xF in (_STT_FUNC, _STT_GNU_IFUNC):
            text = data[names + name : data.index(b"\0", names + name)]
            yield ElfFunction(text.decode(errors="replace"), address, length)
