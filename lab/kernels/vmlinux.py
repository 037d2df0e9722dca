# SPDX-License-Identifier: GPL-2.0-only
"""The ELF kernel inside an x86 bzImage.

The layout is that of the boot protocol (Documentation/arch/x86/boot.rst): ``setup_sects`` at
0x1f1, "HdrS" at 0x202, the version at 0x206, ``kernel_version`` at 0x20e, and from protocol 2.08 on
``payload_offset`` and ``payload_length`` at 0x248 and 0x24c, counted from the end of the set-up code.
"""

import bz2
import lzma
import struct
import zlib
from collections.abc import Callable
from typing import Protocol

import zstandard

from lab.base.process import run
from lab.native.elf import has_note, is_elf

DAMAGE = (OSError, ValueError, EOFError, struct.error, lzma.LZMAError, zlib.error, zstandard.ZstdError)
"""What reading a damaged compressed or binary file may raise."""
_SECTOR = 512
_PAYLOAD_PROTOCOL = 0x0208
_XEN_ELFNOTE_PHYS32_ENTRY = 18  # include/xen/interface/elfnote.h: the entry of the PVH boot protocol


def is_bzimage(image: bytes) -> bool:
    return len(image) >= _SECTOR * 2 and image[0x202:0x206] == b"HdrS"


def image_release(image: bytes) -> str | None:
    """What ``uname -r`` will say (``kernel_version`` of the set-up header), None when the image does not tell."""
    if not is_bzimage(image):
        return None
    (offset,) = struct.unpack_from("<H", image, 0x20E)
    text = image[offset + 0x200 : offset + 0x300].split(b"\0")[0].decode("ascii", errors="replace")
    return next(iter(text.split()), None) if offset else None


def extract_vmlinux(image: bytes) -> bytes | None:
    """The uncompressed ELF if it can be booted through a PVH note, else None. Raises ``DAMAGE``."""
    elf = uncompressed(image)
    return elf if elf and has_pvh_note(elf) else None


def uncompressed(image: bytes) -> bytes | None:
    """What a bzImage holds, None for another image or a compression that is not known. Raises ``DAMAGE``."""
    payload = _payload(image)
    return _decompress(payload) if payload else None


def has_pvh_note(elf: bytes) -> bool:
    """Whether a 64-bit ELF carries the Xen note that names a PVH entry point."""
    return is_elf(elf) and has_note(elf, "Xen", _XEN_ELFNOTE_PHYS32_ENTRY)


def _payload(image: bytes) -> bytes | None:
    if not is_bzimage(image) or struct.unpack_from("<H", image, 0x206)[0] < _PAYLOAD_PROTOCOL:
        return None
    start = ((image[0x1F1] or 4) + 1) * _SECTOR
    offset, length = struct.unpack_from("<II", image, 0x248)
    return image[start + offset : start + offset + length]


def _decompress(payload: bytes) -> bytes | None:
    if payload[:4] == b"\x7fELF":
        return payload
    if payload.startswith(_LZ4):
        return run(["lz4", "-dcq"], stdin=payload[:-4], hint="apt-get install lz4").stdout
    for magic, decompressor in _FORMATS.items():
        if payload.startswith(magic):
            # The build appends the uncompressed size behind some formats: what follows the end is ignored.
            stream = decompressor()
            plain = stream.decompress(payload)
            if not stream.eof:
                raise ValueError("its compressed kernel ends early")
            return plain
    return None


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...

    def decompress(self, data: bytes, /) -> bytes: ...


_LZ4 = b"\x02\x21\x4c\x18"
_FORMATS: dict[bytes, Callable[[], _Decompressor]] = {
    b"\xfd7zXZ\0": lzma.LZMADecompressor,
    b"\x28\xb5\x2f\xfd": lambda: zstandard.ZstdDecompressor().decompressobj(),
    b"\x1f\x8b": lambda: zlib.decompressobj(31),
    b"BZh": bz2.BZ2Decompressor,
    b"\x5d\0\0": lambda: lzma.LZMADecompressor(lzma.FORMAT_ALONE),
}
