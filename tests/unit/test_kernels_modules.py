# SPDX-License-Identifier: GPL-2.0-only
"""Modules in load order, from depmod's own tables."""

import gzip
import lzma
from pathlib import Path

import pytest
import zstandard

from lab.base.contents import note
from lab.base.errors import LabBroken
from lab.kernels.model import Kernel
from lab.kernels.modules import module_closure, read_module, unsigned
from lab.kernels.release import Release

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


def test_dependencies_load_first(kernel: Kernel) -> None:
    loaded = names(kernel, "tcm_loop")
    assert loaded == ["scsi_common.ko", "scsi_mod.ko", "configfs.ko", "target_core_mod.ko", "tcm_loop.ko.xz"]


def test_each_once_and_complete(kernel: Kernel) -> None:
    loaded = names(kernel, "scsi_mod", "tcm_loop", "tcm-loop")
    assert sorted(loaded) == sorted(set(loaded))
    assert loaded.index("scsi_common.ko") < loaded.index("scsi_mod.ko") < loaded.index("tcm_loop.ko.xz")


@pytest.mark.parametrize("name", ["dm-mod", "dm_mod"])
def test_dash_and_underscore_are_the_same(kernel: Kernel, name: str) -> None:
    assert module_closure(kernel, [name]).load == (kernel.modules / "kernel/dm-mod.ko",)


def test_builtin_and_missing_are_told(kernel: Kernel) -> None:
    closure = module_closure(kernel, ["mq_deadline", "no-such", "dm-mod"])
    assert closure.builtin == ("mq_deadline",)
    assert closure.missing == ("no-such",)
    assert len(closure.load) == 1


def test_soft_dependencies_without_those_bound_to_a_cpu(kernel: Kernel) -> None:
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
    assert read_module(tmp_path / name) == b"ELF"


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
