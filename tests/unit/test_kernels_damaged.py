# SPDX-License-Identifier: GPL-2.0-only
"""Kernels, pins and caches that are damaged: each is named, with a remedy."""

import json
import lzma
import os
from pathlib import Path

import pytest

from lab.base.cache import Cache
from lab.base.contents import note
from lab.base.errors import CannotJudge, LabBroken, Misuse
from lab.kernels import store
from lab.kernels.resolve import resolve
from tests.unit.kernel_samples import bzimage, elf, install_kernel
from tests.unit.test_kernels_resolve import needs_depmod


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


def test_a_folder_that_is_no_entry_is_named(tmp_path: Path) -> None:
    with pytest.raises(LabBroken, match=f"{tmp_path}/kernel.json is in no cache entry") as caught:
        store.load(tmp_path, "host", "here")
    assert f"rm -r {tmp_path}" in caught.value.remedy


@needs_depmod
@pytest.mark.parametrize("name", ["image", "vmlinux", "config", "kernel.json"])
@pytest.mark.parametrize("damage", ["append", "remove"])
def test_a_stored_kernel_that_changed_is_not_booted(cache: Cache, tmp_path: Path, name: str, damage: str) -> None:
    install_kernel(tmp_path / "k", "6.1.0-50-amd64")
    path = resolve(f"path:{tmp_path}/k", cache).image.parent / name
    if damage == "append":
        path.write_bytes(path.read_bytes() + b"\xff")
    else:
        path.unlink()
    with pytest.raises(LabBroken, match=f"{path} is ") as caught:
        resolve(f"path:{tmp_path}/k", cache)
    assert f"rm -r {path.parent}" in caught.value.remedy


@needs_depmod
@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"release": 5, "digest": ""}', '{"release": "x", "digest": ""}', "[" * 10**5]
)
def test_facts_of_a_kernel_that_make_no_sense(cache: Cache, tmp_path: Path, text: str) -> None:
    install_kernel(tmp_path / "k", "6.1.0-50-amd64")
    entry = resolve(f"path:{tmp_path}/k", cache).image.parent
    (entry / "kernel.json").write_text(text)
    note(entry)
    with pytest.raises(LabBroken, match=f"{entry} is not a stored kernel") as caught:
        store.load(entry, "host", "here")
    assert f"rm -r {entry}" in caught.value.remedy


@needs_depmod
def test_an_image_that_does_not_unpack_cannot_be_judged(cache: Cache, tmp_path: Path) -> None:
    install_kernel(tmp_path / "k", "6.1.0-50-amd64")
    image = tmp_path / "k/boot/vmlinuz-6.1.0-50-amd64"
    whole = lzma.compress(elf())
    for damaged in (whole[:-40], whole[:20] + b"junk" + whole[24:]):
        image.write_bytes(bzimage(damaged, "6.1.0-50-amd64"))
        with pytest.raises(CannotJudge, match="the kernel image is damaged"):
            resolve(f"path:{tmp_path}/k", cache)


def test_a_fifo_is_no_folder(cache: Cache, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for spec in ("path:", "tree:"):
        with pytest.raises(Misuse, match=f"{tmp_path}/fifo is not a folder"):
            resolve(f"{spec}{tmp_path}/fifo", cache)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"packages": []}', '{"packages": [{"name": 1}]}', "[" * 10**5])
def test_a_pin_that_makes_no_sense_is_named(cache: Cache, text: str) -> None:
    path = cache.write_text("pins", "debian-6.1.json", text)
    with pytest.raises(LabBroken, match=f"the pin {path} cannot be read") as caught:
        resolve("debian:6.1", cache)
    assert f"rm -r {path}" in caught.value.remedy


def test_a_pin_that_is_a_folder_or_full_of_other_types(cache: Cache) -> None:
    row = {"suite": "s", "name": None, "version": "1", "sha256": "0"}
    path = cache.write_text("pins", "debian-6.1.json", json.dumps({"packages": [row]}))
    with pytest.raises(LabBroken, match="cannot be read: not a list of packages"):
        resolve("debian:6.1", cache)
    path.unlink()
    path.mkdir()
    with pytest.raises(LabBroken, match="cannot be read"):
        resolve("debian:6.1", cache)


@pytest.mark.parametrize("place", ["/dev/null", "/proc/no-such"])
def test_no_kernel_without_a_place_for_the_cache(place: str) -> None:
    with pytest.raises(LabBroken, match=f"the cache {place} cannot be written"):
        resolve("debian:6.1", Cache(Path(place)))
