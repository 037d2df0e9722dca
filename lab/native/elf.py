# SPDX-License-Identifier: GPL-2.0-only
"""Functions and code of a 64-bit ELF file (elf(5))."""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

_MAGIC = b"\x7fELF\x02\x01"
HEADER_BYTES = 64
_SHF_EXECINSTR = 4
_PT_LOAD, _PT_GNU_EH_FRAME, _PF_X = 1, 0x6474E550, 1
_SHT_SYMTAB, _SHT_DYNSYM = 2, 11
_STT_FUNC, _STT_GNU_IFUNC = 2, 10
_SYMBOL = struct.Struct("<IBBHQQ")
_EH_TABLE = b"\x01\x1b\x03\x3b"
"""Linux Standard Base, .eh_frame_hdr: version 1, then the encodings that GNU ld writes (pcrel, udata4, datarel)."""


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


def is_elf(data: bytes | bytearray) -> bool:
    return data.startswith(_MAGIC)


def executable_segments(data: bytes) -> tuple[Segment, ...]:
    return tuple(
        Segment(address, data[offset : offset + size])
        for kind, flags, offset, address, size in program_headers(data)
        if kind == _PT_LOAD and flags & _PF_X
    )


def functions(data: bytes) -> tuple[ElfFunction, ...]:
    """All functions, sorted by address and name: those of the symbol table, or of the dynamic one where the file was
    stripped. Others, for which the file only has an unwind range, have the hexadecimal address as their name.
    """
    named = _named_functions(data)
    addresses = {function.address for function in named if function.size}
    nameless = {function for function in _unwind_ranges(data) if function.address not in addresses}
    return tuple(sorted(named | nameless, key=lambda function: (function.address, function.name)))


@dataclass(frozen=True)
class Placed:
    """Where a function of an object file is: ``offset`` in the section."""

    section: str
    offset: int


def places(data: bytes) -> Mapping[str, Placed | None]:
    """The functions of an object file by name, None for a name that several have."""
    sections = list(_sections(data))
    (shstrndx,) = struct.unpack_from("<H", data, 0x3E)
    names = sections[shstrndx].offset
    placed: dict[str, Placed | None] = {}
    for table in sections:
        if table.kind != _SHT_SYMTAB:
            continue
        for symbol in _symbols(data, table, sections[table.link]):
            section = sections[symbol.section] if symbol.section < len(sections) else None
            if section and section.flags & _SHF_EXECINSTR and symbol.name:
                at = Placed(_text(data, names + section.name), symbol.address)
                placed[symbol.name] = at if placed.get(symbol.name, at) == at else None
    return placed


def labels(data: bytes) -> Iterator[tuple[str, int, str]]:
    """The symbols of an object file with a name and a section: section, offset in it, name."""
    sections = list(_sections(data))
    (shstrndx,) = struct.unpack_from("<H", data, 0x3E)
    names = sections[shstrndx].offset
    for table in sections:
        if table.kind == _SHT_SYMTAB:
            for symbol in _symbols(data, table, sections[table.link]):
                if symbol.name and 0 < symbol.section < len(sections):
                    yield _text(data, names + sections[symbol.section].name), symbol.address, symbol.name


def code(data: bytes) -> tuple[bytes, ...]:
    """The sections with machine code, in the file's order."""
    return tuple(
        data[section.offset : section.offset + section.size]
        for section in _sections(data)
        if section.flags & _SHF_EXECINSTR and section.size
    )


def _unwind_ranges(data: bytes) -> Iterator[ElfFunction]:
    """The functions of .eh_frame, which the C++ ABI of x86-64 wants for every function, through its search table."""
    headers = list(program_headers(data))
    loads = [(address, size, offset) for kind, _, offset, address, size in headers if kind == _PT_LOAD]
    for kind, _, offset, address, _ in headers:
        if kind != _PT_GNU_EH_FRAME or data[offset : offset + 4] != _EH_TABLE:
            continue
        (count,) = struct.unpack_from("<I", data, offset + 8)
        for begin, entry in struct.iter_unpack("<ii", data[offset + 12 : offset + 12 + 8 * count]):
            at = next(to + address + entry - start for start, size, to in loads if 0 <= address + entry - start < size)
            # length, CIE, address and size, of 4 bytes each in what gcc writes for x86-64
            (size,) = struct.unpack_from("<I", data, at + 12)
            yield ElfFunction(f"{address + begin:#x}", address + begin, size)


def program_headers(data: bytes | bytearray) -> Iterator[tuple[int, int, int, int, int]]:
    """(type, flags, offset, address, size in the file) of each program header."""
    phoff, _, _, _, phentsize, phnum = struct.unpack_from("<QQIHHH", data, 0x20)
    for index in range(phnum):
        kind, flags, offset, address, _, size = struct.unpack_from("<IIQQQQ", data, phoff + index * phentsize)
        yield kind, flags, offset, address, size


def _named_functions(data: bytes) -> set[ElfFunction]:
    sections = list(_sections(data))
    wanted = _SHT_SYMTAB if any(section.kind == _SHT_SYMTAB for section in sections) else _SHT_DYNSYM
    return {
        ElfFunction(symbol.name, symbol.address, symbol.size)
        for table in sections
        if table.kind == wanted
        for symbol in _symbols(data, table, sections[table.link])
        if symbol.section and symbol.kind in (_STT_FUNC, _STT_GNU_IFUNC)
    }


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int


class _Symbol(NamedTuple):
    name: str
    kind: int
    section: int
    address: int
    size: int


def _sections(data: bytes) -> Iterator[_Section]:
    (shoff,) = struct.unpack_from("<Q", data, 0x28)
    shentsize, shnum = struct.unpack_from("<HH", data, 0x3A)
    for at in range(shoff, shoff + shentsize * shnum, shentsize):
        yield _Section(*struct.unpack_from("<IIQQQQI", data, at))


def _symbols(data: bytes, table: _Section, strings: _Section) -> Iterator[_Symbol]:
    for at in range(table.offset, table.offset + table.size, _SYMBOL.size):
        name, info, _, section, address, size = _SYMBOL.unpack_from(data, at)
        yield _Symbol(_text(data, strings.offset + name), info & 0xF, section, address, size)


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode(errors="replace")
