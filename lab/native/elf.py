# SPDX-License-Identifier: GPL-2.0-only
"""Functions, symbols and code of a 64-bit ELF file, as pyelftools reads them."""

from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import Symbol as ElfSymbol

_MAGIC = b"\x7fELF\x02\x01"
_EXECUTABLE_SEGMENT, _EXECUTABLE_SECTION = 1, 4
"""Flags of a program header and of a section header: PF_X, SHF_EXECINSTR."""
_FUNCTIONS = ("STT_FUNC", "STT_LOOS")
"""The second one is STT_GNU_IFUNC."""
_EH_TABLE = b"\x01\x1b\x03\x3b"
"""Linux Standard Base, .eh_frame_hdr: version 1, then the encodings that GNU ld writes (pcrel, udata4, datarel)."""


@dataclass(frozen=True)
class ElfFunction:
    name: str
    address: int
    size: int


@dataclass(frozen=True)
class Segment:
    """Bytes as they are in memory before relocation."""

    address: int
    data: bytes


class Label(NamedTuple):
    """A symbol of an object file: ``offset`` in a section, which may hold code."""

    name: str
    section: str
    offset: int
    is_code: bool


def is_elf(data: bytes | bytearray) -> bool:
    return data.startswith(_MAGIC)


def executable_segments(data: bytes) -> tuple[Segment, ...]:
    return _segments(_parsed(data), executable=True)


def functions(data: bytes) -> tuple[ElfFunction, ...]:
    """All functions, sorted by address and name: those of the symbol table, or of the dynamic one where the file was
    stripped. Others, for which the file only has an unwind range, have the hexadecimal address as their name.
    """
    elf = _parsed(data)
    named = {
        ElfFunction(symbol.name, symbol["st_value"], symbol["st_size"])
        for symbol in _symbols(elf, "SHT_SYMTAB") or _symbols(elf, "SHT_DYNSYM")
        if symbol["st_shndx"] != "SHN_UNDEF" and symbol["st_info"]["type"] in _FUNCTIONS
    }
    addresses = {function.address for function in named if function.size}
    nameless = {function for function in _unwind_ranges(elf) if function.address not in addresses}
    return tuple(sorted(named | nameless, key=lambda function: (function.address, function.name)))


def labels(data: bytes) -> Iterator[Label]:
    """The symbols of an object file that have a name and a section."""
    elf = _parsed(data)
    sections = [(section.name, bool(section["sh_flags"] & _EXECUTABLE_SECTION)) for section in elf.iter_sections()]
    for symbol in _symbols(elf, "SHT_SYMTAB"):
        # An index that is no section's has a name, such as SHN_ABS.
        if symbol.name and isinstance(number := symbol["st_shndx"], int) and number < len(sections):
            section, is_code = sections[number]
            yield Label(symbol.name, section, symbol["st_value"], is_code)


def function_in(data: bytes, name: str) -> Label | None:
    """The function of an object file, None where it has none of that name, or several."""
    places = {label for label in labels(data) if label.is_code and label.name == name}
    return places.pop() if len(places) == 1 else None


def code(data: bytes) -> tuple[bytes, ...]:
    """The sections with machine code, in the file's order."""
    sections = _parsed(data).iter_sections()
    return tuple(own.data() for own in sections if own["sh_flags"] & _EXECUTABLE_SECTION and own["sh_size"])


def has_note(data: bytes, name: str, kind: int) -> bool:
    """Whether a program header names such a note. Raises ValueError for a damaged file."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.segments import NoteSegment

    try:
        segments = _parsed(data).iter_segments()
        notes = (note for segment in segments if isinstance(segment, NoteSegment) for note in segment.iter_notes())
        # Of a type that pyelftools knows it has the name.
        return any((note["n_name"], str(note["n_type"])) == (name, str(kind)) for note in notes)
    except ELFError as error:
        raise ValueError(f"no ELF file: {error}") from error


def _parsed(data: bytes) -> "ELFFile":
    # 0.1 s of import, which few commands need.
    from elftools.elf.elffile import ELFFile

    return ELFFile(BytesIO(data))


def _segments(elf: "ELFFile", *, executable: bool = False) -> tuple[Segment, ...]:
    loaded = elf.iter_segments("PT_LOAD")
    return tuple(
        Segment(own["p_vaddr"], own.data()) for own in loaded if not executable or own["p_flags"] & _EXECUTABLE_SEGMENT
    )


def _symbols(elf: "ELFFile", kind: str) -> "list[ElfSymbol]":
    from elftools.elf.sections import SymbolTableSection

    tables = (table for table in elf.iter_sections(kind) if isinstance(table, SymbolTableSection))
    return [symbol for table in tables for symbol in table.iter_symbols()]


def _unwind_ranges(elf: "ELFFile") -> Iterator[ElfFunction]:
    """The functions of .eh_frame, which the C++ ABI of x86-64 wants for every function, through its search table.

    pyelftools does not read that table, and takes seconds to parse the 4,000 entries of libc that it points to.
    """
    for header in elf.iter_segments("PT_GNU_EH_FRAME"):
        table, start = header.data(), header["p_vaddr"]
        if not table.startswith(_EH_TABLE):
            continue
        segments, count = _segments(elf), int.from_bytes(table[8:12], "little")
        pairs = iter(memoryview(table)[12 : 12 + 8 * count].cast("i"))
        for begin, entry in zip(pairs, pairs, strict=True):
            at = start + entry
            own = next(own for own in segments if 0 <= at - own.address < len(own.data))
            # length, CIE, address and size, of 4 bytes each in what gcc writes for x86-64
            size = int.from_bytes(own.data[at - own.address + 12 : at - own.address + 16], "little")
            yield ElfFunction(f"{start + begin:#x}", start + begin, size)
