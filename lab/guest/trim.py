# SPDX-License-Identifier: GPL-2.0-only
"""Cut shared libraries out of a dynamically linked x86-64 ELF program.

Debian's fio links about sixty libraries (Ceph, Gluster, NFS, RDMA: 80 MB) for engines that the
guest does not use. ``drop_libraries`` removes their ``DT_NEEDED`` entries and version requirements
and makes the symbols that only they define weak, so that the loader resolves them to null instead
of refusing the program. The engines of those libraries crash if they are called; the other
engines (libaio, io_uring, psync, sync) are unchanged.

Layout facts come from the System V gABI ("Dynamic Section", "Symbol Table") and from the Linux
Standard Base chapter "Symbol Versioning" (``Elfxx_Verneed``, ``Elfxx_Vernaux``).
"""

import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from lab.base.errors import LabBroken
from lab.native.elf import is_elf

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
    """Return ``program`` without its dependencies on libraries outside ``keep``.

    The result has the same size. A symbol stays strong only when it carries a version that a
    kept library defines; every other undefined symbol becomes weak.
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
