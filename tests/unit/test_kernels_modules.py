# SPDX-License-Identifier: GPL-2.0-only
"""Modules in load order, from depmod's own tables; the ELF inside a bzImage, in every compression."""

import bz2
import gzip
import lzma
import struct
from pathlib import Path

import pytest
import zstandard

from lab.base.contents import note
from lab.base.errors import LabBroken
from lab.kernels.binaries import (
    extract_vmlinux,
    image_release,
    is_bzimage,
    module_closure,
    read_module,
    unsigned,
)
from lab.kernels.model import Kernel, Release
from tests.unit.kernel_samples import OTHER_NOTE, PVH, bzimage, elf

TABLES = {
    "modules.dep": """\
kernel/scsi_mod.ko: kernel/scsi_common.ko
kernel/scsi_common.ko:
kernel/target_core_mod.ko: kernel/configfs.ko kernel/scsi_common.ko
kernel/configfs.ko:
kernel/tcm_loop.ko.xz: kernel/target_core_mod.ko kernel/configfs.ko kernel/scsi_mod.ko kernel/scsi_common.ko
kernel/dm-mod.ko:
kernel/raid456.ko: kernel/libcrc32c.ko
kernel/libcrc32c.ko:
kernel/crc32c_generic.ko:
kernel/crc32c-intel.ko:
""",
    "modules.builtin": "kernel/block/mq-deadline.ko\n",
    "modules.softdep": "# Soft dependencies\nsoftdep libcrc32c pre: crc32c post: dm-mod\n",
    "modules.alias": "alias cpu:type:x86,ven*fam*mod*:feature:*0094* crc32c_intel\nalias crc32c crc32c_intel\n"
    "alias crc32c crc32c_generic\nalias dmi:*:*Acer*:pnExtensa 5420*: acerhdf\n",
}


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    for name, text in TABLES.items():
        (tmp_path / name).write_text(text)
    note(tmp_path)
    return Kernel("path:x", "6.1.0", Release.parse("6.1.0"), "test", tmp_path, None, tmp_path, {}, "")


def names(kernel: Kernel, *wanted: str) -> list[str]:
    return [path.name for path in module_closure(kernel, wanted).load]


def test_dependencies_load_first_and_each_once(kernel: Kernel) -> None:
    loaded = names(kernel, "tcm_loop")
    assert loaded == ["scsi_common.ko", "scsi_mod.ko", "configfs.ko", "target_core_mod.ko", "tcm_loop.ko.xz"]
    loaded = names(kernel, "scsi_mod", "tcm_loop", "tcm-loop")
    assert sorted(loaded) == sorted(set(loaded))
    assert loaded.index("scsi_common.ko") < loaded.index("scsi_mod.ko") < loaded.index("tcm_loop.ko.xz")


@pytest.mark.parametrize("name", ["dm-mod", "dm_mod"])
def test_dash_and_underscore_are_the_same(kernel: Kernel, name: str) -> None:
    assert module_closure(kernel, [name]).load == (kernel.modules / "kernel/dm-mod.ko",)


def test_builtin_missing_and_soft_dependencies_are_told(kernel: Kernel) -> None:
    closure = module_closure(kernel, ["mq_deadline", "no-such", "dm-mod"])
    assert closure.missing == ("no-such",), "mq_deadline is built in"
    assert len(closure.load) == 1
    assert names(kernel, "raid456") == ["crc32c_generic.ko", "libcrc32c.ko", "raid456.ko"]


def test_a_kernel_without_tables(kernel: Kernel, tmp_path: Path) -> None:
    (tmp_path / "modules.dep").unlink()
    with pytest.raises(LabBroken, match=r"modules\.dep"):
        module_closure(kernel, ["dm-mod"])


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("a.ko", b"ELF"),
        ("a.ko.xz", lzma.compress(b"ELF", check=lzma.CHECK_CRC32)),
        ("a.ko.zst", zstandard.ZstdCompressor(write_content_size=False).compress(b"ELF")),
        ("a.ko.gz", gzip.compress(b"ELF")),
    ],
    ids=["plain", "xz", "zstd", "gzip"],
)
def test_modules_are_read_plain(tmp_path: Path, name: str, stored: bytes) -> None:
    (tmp_path / name).write_bytes(stored)
    note(tmp_path)
    assert read_module(tmp_path / name) == b"ELF"
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(LabBroken, match=f"{name} is damaged"):
        read_module(tmp_path / name)


SIGNATURE = b"pkcs7"
TRAILER = bytes(8) + len(SIGNATURE).to_bytes(4, "big") + b"~Module signature appended~\n"


@pytest.mark.parametrize(
    ("stored", "carried"),
    [
        (b"ELF" + SIGNATURE + TRAILER, b"ELF"),
        (b"ELF", b"ELF"),
        (TRAILER, TRAILER),
        (b"~Module signature appended~\n", b"~Module signature appended~\n"),
    ],
    ids=["signed", "unsigned", "too short for its signature", "the mark alone"],
)
def test_signatures_are_dropped(stored: bytes, carried: bytes) -> None:
    assert unsigned(stored) == carried


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


def test_what_is_no_image_or_has_no_pvh_note_has_no_vmlinux() -> None:
    assert extract_vmlinux(bzimage(lzma.compress(elf(OTHER_NOTE)))) is None
    assert extract_vmlinux(bzimage(lzma.compress(b"no ELF at all"))) is None
    assert extract_vmlinux(bzimage(b"no known compression")) is None
    assert extract_vmlinux(bzimage(elf(), protocol=0x0207)) is None
    assert not is_bzimage(b"junk")
    assert not is_bzimage(bytes(4096))
    assert extract_vmlinux(bytes(4096)) is None
    assert image_release(bytes(4096)) is None


def test_the_note_is_found_behind_others() -> None:
    odd = struct.pack("<III", 3, 5, 1) + b"ab\0\0" + b"12345\0\0\0"
    assert extract_vmlinux(bzimage(elf(odd + PVH))) == elf(odd + PVH)
    assert extract_vmlinux(bzimage(elf(odd + OTHER_NOTE))) is None


def test_the_image_tells_its_release() -> None:
    assert image_release(bzimage(b"", "7.2.12+deb14-amd64")) == "7.2.12+deb14-amd64"
