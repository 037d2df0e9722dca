# SPDX-License-Identifier: GPL-2.0-only
"""Kernels in package files, images whose modules are elsewhere, and whatever of these is damaged."""

import gzip
import lzma
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from lab.base.cache import Cache
from lab.base.contents import note
from lab.base.errors import CannotJudge, LabBroken, Misuse
from lab.kernels import store
from lab.kernels.binaries import module_closure, no_modules
from lab.kernels.resolve import resolve
from tests.unit.kernel_samples import Repository, bzimage, elf, install_kernel, needs_depmod

RELEASE = "6.8.0-31-generic"
needs_dpkg = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="needs dpkg-deb")
needs_bsdtar = pytest.mark.skipif(shutil.which("bsdtar") is None, reason="needs bsdtar (libarchive-tools)")


def image_and_modules(folder: Path) -> tuple[Path, Path]:
    """The trees of two packages: one with the image, one with modules and configuration."""
    image, modules = folder / "image", folder / "modules"
    install_kernel(modules, RELEASE)
    (image / "boot").mkdir(parents=True)
    (modules / f"boot/vmlinuz-{RELEASE}").rename(image / f"boot/vmlinuz-{RELEASE}")
    order = modules / f"lib/modules/{RELEASE}/modules.order"
    order.write_text(f"{order.read_text()}kernel/drivers/scsi/scsi_debug.ko\n")
    return image, modules


def debs(folder: Path) -> tuple[Path, Path]:
    archive = Repository(folder / "archive", folder / "home")
    image, modules = image_and_modules(folder)
    return (
        archive.add("x", "linux-image", "1", image, listed=False),
        archive.add("x", "linux-modules", "1", modules, listed=False),
    )


@needs_dpkg
@needs_depmod
@pytest.mark.parametrize("form", ["{0},{1}", "{2}"])
def test_packages_make_one_kernel(cache: Cache, tmp_path: Path, form: str) -> None:
    image, modules = debs(tmp_path)
    kernel = resolve("path:" + form.format(image, modules, image.parent), cache)
    assert kernel.release == RELEASE
    assert kernel.has("BLK_DEV_NULL_BLK")
    assert module_closure(kernel, ["null_blk"]).load[0].is_file()
    assert kernel.origin == f"{image.name}, {modules.name}"
    # A module of a package that was not named is told from one that was not built.
    (missing,) = module_closure(kernel, ["scsi_debug"]).missing
    assert no_modules(kernel, [missing]) == (
        f"{RELEASE} has no module scsi_debug (modules.order lists scsi_debug: name the package with the file too,"
        " path:A,B)"
    )
    assert no_modules(kernel, ["nosuch"]) == f"{RELEASE} has no module nosuch"


@needs_dpkg
def test_packages_that_are_no_whole_kernel(cache: Cache, tmp_path: Path) -> None:
    image, modules = debs(tmp_path)
    for package, there in ((image, "image"), (modules, "modules")):
        with pytest.raises(Misuse, match=f"{package.name}: {there} of {RELEASE}; expected image, conf") as caught:
            resolve(f"path:{package}", cache)
        assert "path:A,B" in caught.value.remedy
        assert "linux-modules-extra" in caught.value.remedy
    other = tmp_path / "other"
    install_kernel(other, "6.9.0-1-generic")
    third = Repository(tmp_path / "archive", tmp_path / "home").add("x", "linux-other", "1", other, listed=False)
    with pytest.raises(Misuse, match=f"image and modules of {RELEASE}; image and modules of 6.9.0-1-generic; expected"):
        resolve(f"path:{image},{modules},{third}", cache)
    (tmp_path / "empty").mkdir()
    none = Repository(tmp_path / "archive", tmp_path / "home").add("x", "none", "1", tmp_path / "empty", listed=False)
    with pytest.raises(Misuse, match="no kernel; expected"):
        resolve(f"path:{none}", cache)
    with pytest.raises(Misuse, match="does not exist"):
        resolve(f"path:{image},{tmp_path}/absent.deb", cache)
    (tmp_path / "notes").write_text("")
    with pytest.raises(Misuse, match="notes is no "):
        resolve(f"path:{image},{tmp_path}/notes", cache)


def rpm(tree: Path, package: Path) -> Path:
    """Lead, two empty headers, and a compressed cpio archive: what an .rpm is to whoever unpacks it."""
    header = bytes.fromhex("8eade80100000000") + bytes(8)
    listed = subprocess.run(["find", "."], cwd=tree, capture_output=True, check=True).stdout
    archive = subprocess.run(
        ["bsdtar", "-cf", "-", "--format=newc", "-T", "-"], cwd=tree, input=listed, capture_output=True, check=True
    ).stdout
    package.write_bytes(bytes.fromhex("edabeedb0300").ljust(96, b"\0") + header + header + gzip.compress(archive))
    return package


@needs_bsdtar
@needs_depmod
def test_rpm_packages(cache: Cache, tmp_path: Path) -> None:
    image, modules = image_and_modules(tmp_path)
    packages = rpm(image, tmp_path / "kernel-core.rpm"), rpm(modules, tmp_path / "kernel-modules.rpm")
    kernel = resolve(f"path:{packages[0]},{packages[1]}", cache)
    assert kernel.release == RELEASE
    assert module_closure(kernel, ["null_blk"]).load[0].is_file()


def test_a_program_that_is_missing_is_named(cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "kernel.rpm").write_bytes(b"")
    with pytest.raises(LabBroken, match="cannot be unpacked: bsdtar is not installed") as caught:
        resolve(f"path:{tmp_path}/kernel.rpm", cache)
    assert "libarchive-tools" in caught.value.remedy


def test_a_damaged_package(cache: Cache, tmp_path: Path) -> None:
    (tmp_path / "linux.deb").write_bytes(b"junk")
    with pytest.raises(LabBroken, match="cannot be unpacked"):
        resolve(f"path:{tmp_path}/linux.deb", cache)


@needs_depmod
@pytest.mark.parametrize("named", ["{0}", "{0}/lib/modules", "{0}/lib/modules/6.8.0-31-generic"])
def test_an_image_and_the_folder_of_its_modules(cache: Cache, tmp_path: Path, named: str) -> None:
    install_kernel(tmp_path / "root", RELEASE)
    image = tmp_path / "build/arch/x86/boot/bzImage"
    image.parent.mkdir(parents=True)
    image.write_bytes((tmp_path / f"root/boot/vmlinuz-{RELEASE}").read_bytes())
    spec = f"path:{image},{named.format(tmp_path / 'root')}"
    with pytest.raises(Misuse, match="no configuration of"):
        resolve(spec, cache)
    (tmp_path / "build/.config").write_text("CONFIG_BLOCK=y\n")
    kernel = resolve(spec, cache)
    assert (kernel.release, kernel.config) == (RELEASE, {"CONFIG_BLOCK": "y"})
    assert module_closure(kernel, ["null_blk"]).load[0].is_file()


def test_an_image_without_its_modules(cache: Cache, tmp_path: Path) -> None:
    install_kernel(tmp_path / "root", "6.1.0-9-amd64")
    image = tmp_path / "bzImage"
    image.write_bytes(bzimage(elf(), RELEASE))
    with pytest.raises(Misuse, match=f"has no modules of {RELEASE}, but of 6.1.0-9-amd64") as caught:
        resolve(f"path:{image},{tmp_path}/root", cache)
    assert "INSTALL_MOD_PATH" in caught.value.remedy
    with pytest.raises(Misuse, match="2 files and 0 folders are no kernel"):
        resolve(f"path:{image},{image}", cache)


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


ROW = '{"suite": "s", "name": null, "version": "1", "sha256": "0"}'


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", '{"packages": []}', '{"packages": [{"name": 1}]}', f'{{"packages": [{ROW}]}}', "[" * 10**5, None],
)
def test_a_pin_that_makes_no_sense_is_named(cache: Cache, text: str | None) -> None:
    path = cache.write_text("pins", "debian-6.1.json", text or "")
    if text is None:
        path.unlink()
        path.mkdir()
    with pytest.raises(LabBroken, match=f"the pin {path} cannot be read") as caught:
        resolve("debian:6.1", cache)
    assert f"rm -r {path}" in caught.value.remedy
