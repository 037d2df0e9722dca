# SPDX-License-Identifier: GPL-2.0-only
"""Functions, symbols and code of a 64-bit ELF file, as pyelftools reads them, and a program with fewer libraries."""

import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple

from lab.base.errors import LabBroken

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


_DT_NULL, _DT_NEEDED, _DT_STRTAB, _DT_SYMTAB = 0, 1, 5, 6
_DT_VERSYM, _DT_VERNEED, _DT_VERNEEDNUM = 0x6FFFFFF0, 0x6FFFFFFE, 0x6FFFFFFF
_HEADER_BYTES, _PT_LOAD, _PT_DYNAMIC = 64, 1, 2
_STB_GLOBAL, _STB_WEAK = 1, 2
_SHN_UNDEF = 0
_VER_NDX_GLOBAL = 1
_DYN = struct.Struct("<qQ")
_REMEDY = "re-fetch the guest payload"
_SYM, _VERNEED, _VERNAUX = struct.Struct("<IBBHQQ"), struct.Struct("<HHIII"), struct.Struct("<IHHII")
_VERSYM = struct.Struct("<H")


def needed_libraries(program: bytes) -> tuple[str, ...]:
    """Names in the program's ``DT_NEEDED`` entries, in their order."""
    elf = _Elf(bytearray(program))
    return tuple(elf.string(value) for _, tag, value in elf.dynamic() if tag == _DT_NEEDED)


def drop_libraries(program: bytes, keep: Collection[str]) -> bytes:
    """Return a dynamically linked ``program`` without its dependencies on libraries outside ``keep``, of the same size.

    Debian's fio links about sixty libraries (Ceph, Gluster, NFS, RDMA: 80 MB) for engines that the guest does not use.
    Their ``DT_NEEDED`` entries and version requirements are removed, and the symbols that only they define become weak,
    so that the loader resolves them to null instead of refusing the program: a symbol stays strong only when it carries
    a version that a kept library defines. The engines of those libraries crash if they are called.

    Layout facts come from the System V gABI ("Dynamic Section", "Symbol Table") and from the Linux Standard Base
    chapter "Symbol Versioning" (``Elfxx_Verneed``, ``Elfxx_Vernaux``).
    """
    elf = _Elf(bytearray(program))
    kept_versions = _unlink_version_needs(elf, keep)
    _weaken_symbols(elf, kept_versions)
    _drop_needed(elf, keep)
    return bytes(elf.data)


@dataclass(frozen=True)
class _Elf:
    data: bytearray

    def __post_init__(self) -> None:
        if len(self.data) < _HEADER_BYTES or not is_elf(self.data):
            raise LabBroken("not a 64-bit little-endian ELF program", remedy=_REMEDY)

    def offset_of(self, vaddr: int) -> int:
        for kind, offset, start, filesz in self._program_headers():
            if kind == _PT_LOAD and start <= vaddr < start + filesz:
                return offset + vaddr - start
        raise LabBroken(f"no loaded segment holds address {vaddr:#x}", remedy=_REMEDY)

    def dynamic_table(self) -> tuple[int, int]:
        """File offset and size in bytes of the dynamic section."""
        for kind, offset, _, filesz in self._program_headers():
            if kind == _PT_DYNAMIC:
                return offset, filesz
        raise LabBroken("the program is not dynamically linked", remedy=_REMEDY)

    def _program_headers(self) -> Iterator[tuple[int, int, int, int]]:
        """(type, offset, address, size in the file) of each."""
        phoff, _, _, _, phentsize, phnum = struct.unpack_from("<QQIHHH", self.data, 0x20)
        for index in range(phnum):
            kind, _, offset, address, _, size = struct.unpack_from("<IIQQQQ", self.data, phoff + index * phentsize)
            yield kind, offset, address, size

    def dynamic(self) -> Iterator[tuple[int, int, int]]:
        """Yield (file offset, tag, value) of each dynamic entry."""
        start, size = self.dynamic_table()
        for at in range(start, start + size, _DYN.size):
            tag, value = _DYN.unpack_from(self.data, at)
            if tag != _DT_NULL:
                yield at, tag, value

    def tag(self, wanted: int) -> int:
        return self._entry(wanted)[1]

    def set_tag(self, wanted: int, value: int) -> None:
        _DYN.pack_into(self.data, self._entry(wanted)[0], wanted, value)

    def _entry(self, wanted: int) -> tuple[int, int]:
        for at, tag, value in self.dynamic():
            if tag == wanted:
                return at, value
        raise LabBroken(f"dynamic tag {wanted:#x} is missing", remedy=_REMEDY)

    def string(self, offset: int) -> str:
        start = self.offset_of(self.tag(_DT_STRTAB)) + offset
        return self.data[start : self.data.index(0, start)].decode("ascii")


def _unlink_version_needs(elf: _Elf, keep: Collection[str]) -> set[int]:
    """Relink the ``Verneed`` chain over kept libraries; return the version indices that stay."""
    start = elf.offset_of(elf.tag(_DT_VERNEED))
    kept, versions, at = [], set[int](), start
    while True:
        _, count, file, aux, following = _VERNEED.unpack_from(elf.data, at)
        if elf.string(file) in keep:
            kept.append(at)
            versions.update(_version_indices(elf, at + aux, count))
        if not following:
            break
        at += following
    if not kept or kept[0] != start:
        # The loader enters the chain at DT_VERNEED, so that entry follows the first one kept.
        elf.set_tag(_DT_VERNEED, elf.tag(_DT_VERNEED) + (kept[0] - start if kept else 0))
    for here, there in zip(kept, [*kept[1:], None], strict=True):
        struct.pack_into("<I", elf.data, here + 12, there - here if there is not None else 0)
    elf.set_tag(_DT_VERNEEDNUM, len(kept))
    return versions


def _version_indices(elf: _Elf, at: int, count: int) -> Iterator[int]:
    for _ in range(count):
        _, _, other, _, following = _VERNAUX.unpack_from(elf.data, at)
        yield other & 0x7FFF
        at += following


def _weaken_symbols(elf: _Elf, kept_versions: set[int]) -> None:
    symtab, strtab = elf.tag(_DT_SYMTAB), elf.tag(_DT_STRTAB)
    versym = elf.offset_of(elf.tag(_DT_VERSYM))
    first = elf.offset_of(symtab)
    # binutils places .dynstr directly after .dynsym; the table itself has no length.
    for index in range(1, (strtab - symtab) // _SYM.size):
        at = first + index * _SYM.size
        name, info, other, shndx, value, size = _SYM.unpack_from(elf.data, at)
        version_at = versym + index * _VERSYM.size
        version = _VERSYM.unpack_from(elf.data, version_at)[0] & 0x7FFF
        if shndx != _SHN_UNDEF or info >> 4 != _STB_GLOBAL or version in kept_versions:
            continue
        _SYM.pack_into(elf.data, at, name, _STB_WEAK << 4 | info & 0xF, other, shndx, value, size)
        _VERSYM.pack_into(elf.data, version_at, _VER_NDX_GLOBAL)


def _drop_needed(elf: _Elf, keep: Collection[str]) -> None:
    offset, size = elf.dynamic_table()
    kept = [(tag, value) for _, tag, value in elf.dynamic() if tag != _DT_NEEDED or elf.string(value) in keep]
    body = b"".join(_DYN.pack(tag, value) for tag, value in kept)
    elf.data[offset : offset + size] = body.ljust(size, b"\0")
