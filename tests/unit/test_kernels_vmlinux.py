# SPDX-License-Identifier: GPL-2.0-only
"""The ELF inside a bzImage, in every compression that the kernel's build offers here."""

import bz2
import gzip
import lzma
import struct

import pytest
import zstandard

from lab.kernels.vmlinux import extract_vmlinux, has_pvh_note, image_release, is_bzimage
from tests.unit.kernel_samples import OTHER_NOTE, PVH, bzimage, elf

SIZE = struct.pack("<I", len(elf()))
COMPRESSED = {
    "none": elf(),
    "gzip": gzip.compress(elf()),
    "xz": lzma.compress(elf()) + SIZE,
    "lzma": lzma.compress(elf(), lzma.FORMAT_ALONE) + SIZE,
    "bzip2": bz2.compress(elf()) + SIZE,
    "zstd": zstandard.ZstdCompressor().compress(elf()) + SIZE,
    "zstd without size": zstandard.ZstdCompressor(write_content_size=False).compress(elf()) + SIZE,
}


@pytest.mark.parametrize("compression", COMPRESSED)
def test_extracts(compression: str) -> None:
    assert extract_vmlinux(bzimage(COMPRESSED[compression])) == elf()


def test_no_pvh_note_no_vmlinux() -> None:
    assert extract_vmlinux(bzimage(lzma.compress(elf(OTHER_NOTE)))) is None
    assert extract_vmlinux(bzimage(lzma.compress(b"no ELF at all"))) is None
    assert extract_vmlinux(bzimage(b"no known compression")) is None


def test_old_protocols_have_no_payload_fields() -> None:
    assert extract_vmlinux(bzimage(elf(), protocol=0x0207)) is None


def test_the_note_is_found_behind_others() -> None:
    odd = struct.pack("<III", 3, 5, 1) + b"ab\0\0" + b"12345\0\0\0"
    assert has_pvh_note(elf(odd + PVH))
    assert not has_pvh_note(elf(odd + OTHER_NOTE))


def test_what_is_no_image() -> None:
    assert not is_bzimage(b"junk")
    assert not is_bzimage(bytes(4096))
    assert extract_vmlinux(bytes(4096)) is None
    assert image_release(bytes(4096)) is None


def test_the_image_tells_its_release() -> None:
    assert image_release(bzimage(b"", "7.2.12+deb14-amd64")) == "7.2.12+deb14-amd64"
