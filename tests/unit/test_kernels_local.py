# SPDX-License-Identifier: GPL-2.0-only
"""Kernels of this host's folders: built trees, files, and the running one."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.base.cache import Cache
from lab.base.errors import CannotJudge, LabBroken, Misuse
from lab.guest.image import base_image
from lab.guest.payload import Payload
from lab.kernels import local
from lab.kernels.binaries import module_closure
from lab.kernels.resolve import resolve
from tests.unit.kernel_samples import bzimage, elf, install_kernel, module, needs_depmod


def built_tree(root: Path, listed: str) -> Path:
    for folder in ("arch/x86/boot", "include/config", "scripts", "drivers/block"):
        (root / folder).mkdir(parents=True)
    (root / "Kbuild").touch()
    (root / "arch/x86/boot/bzImage").write_bytes(bzimage(elf(), "6.12.1"))
    (root / "include/config/kernel.release").write_text("6.12.1\n")
    (root / ".config").write_text("CONFIG_BLOCK=y\n")
    (root / "modules.order").write_text(f"{listed}\n")
    (root / "modules.builtin").write_text("kernel/block/mq-deadline.ko\n")
    (root / "drivers/block/null_blk.ko").write_bytes(module())
    return root


@needs_depmod
@pytest.mark.parametrize("prefix", ["kernel/drivers/block/null_blk.ko", "drivers/block/null_blk.o"])
def test_a_built_tree(cache: Cache, tmp_path: Path, prefix: str) -> None:
    kernel = resolve(f"path:{built_tree(tmp_path / 'linux', prefix)}", cache)
    assert kernel.release == "6.12.1"
    closure = module_closure(kernel, ["null_blk", "mq-deadline"])
    assert closure.load == (kernel.modules / "kernel/drivers/block/null_blk.ko",)
    assert closure.missing == (), "mq-deadline is built in"


@needs_depmod
def test_an_out_of_tree_build_is_found_and_a_rebuilt_tree_is_another_kernel(cache: Cache, tmp_path: Path) -> None:
    tree = built_tree(tmp_path / "objects", "drivers/block/null_blk.o")
    (tree / "Kbuild").unlink()
    assert resolve(f"path:{tree}", cache).release == "6.12.1"
    tree = built_tree(tmp_path / "linux", "drivers/block/null_blk.o")
    first = resolve(f"path:{tree}", cache)
    assert resolve(f"path:{tree}", cache) == first
    (tree / "drivers/block/null_blk.ko").write_bytes(module() + b"changed")
    second = resolve(f"path:{tree}", cache)
    assert second.digest != first.digest
    assert second.image != first.image


def remove(*names: str) -> Callable[[Path], None]:
    def change(tree: Path) -> None:
        for name in names:
            (tree / name).unlink()

    return change


def write(name: str, text: str) -> Callable[[Path], None]:
    def change(tree: Path) -> None:
        (tree / name).write_text(text)

    return change


@pytest.mark.parametrize(
    ("change", "words", "remedy"),
    [
        (remove("arch/x86/boot/bzImage"), "not built", "make -C"),
        (remove("drivers/block/null_blk.ko"), "drivers/block/null_blk.ko", "modules"),
        (remove(".config"), r"no \.config", "defconfig"),
        (write("arch/x86/boot/bzImage", "junk"), "not an x86 kernel", "bzImage"),
        (write("include/config/kernel.release", "6.13"), r"6\.12\.1.*6\.13", "together"),
    ],
)
def test_trees_that_cannot_be_used(
    cache: Cache, tmp_path: Path, change: Callable[[Path], None], words: str, remedy: str
) -> None:
    tree = built_tree(tmp_path / "linux", "drivers/block/null_blk.o")
    change(tree)
    with pytest.raises(CannotJudge, match=words) as caught:
        resolve(f"path:{tree}", cache)
    assert remedy in caught.value.remedy


def test_folders_and_files_that_are_no_kernel_or_several(cache: Cache, tmp_path: Path) -> None:
    with pytest.raises(Misuse, match="does not exist"):
        resolve(f"path:{tmp_path}/absent", cache)
    with pytest.raises(Misuse, match="holds no kernel"):
        resolve(f"path:{tmp_path}", cache)
    for release in ("6.1.0-50-amd64", "6.1.0-9-amd64"):
        install_kernel(tmp_path / "both", release)
    with pytest.raises(Misuse, match=r"several kernels: 6\.1\.0-9-amd64, 6\.1\.0-50-amd64"):
        resolve(f"path:{tmp_path}/both", cache)
    (tmp_path / "junk").write_bytes(b"junk")
    with pytest.raises(CannotJudge, match="not an x86 kernel image"):
        resolve(f"path:{tmp_path}/junk", cache)
    (tmp_path / "bzImage").write_bytes(bzimage(elf()))
    with pytest.raises(Misuse, match="without its modules"):
        resolve(f"path:{tmp_path}/bzImage", cache)


def test_the_host_kernel(tmp_path: Path) -> None:
    install_kernel(tmp_path, "6.1.0-50-amd64")
    found = local.find_host(tmp_path, "6.1.0-50-amd64")
    assert "kernel/drivers/null_blk.ko" in found.files
    with pytest.raises(CannotJudge, match=r"boot/vmlinuz-6\.2, .*lib/modules/6\.2") as caught:
        local.find_host(tmp_path, "6.2")
    assert "KERNEL=distro" in caught.value.remedy


UNREADABLE = """
import os, sys
from pathlib import Path
from lab.base.errors import Misuse
from lab.kernels import local
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
try:
    local.find_host(Path(sys.argv[1]), "6.1.0-50-amd64")
except Misuse as error:
    print(error.remedy)
"""


def test_an_image_that_root_alone_may_read(tmp_path_factory: pytest.TempPathFactory, checkout: Path) -> None:
    root = Path(tmp_path_factory.mktemp("host"))
    install_kernel(root, "6.1.0-50-amd64")
    image = root / "boot/vmlinuz-6.1.0-50-amd64"
    image.chmod(0o000)
    for folder in (root, *list(root.parents)[:3]):
        folder.chmod(0o755)
    program = subprocess.run(
        [sys.executable, "-c", UNREADABLE, str(root)], cwd=checkout, capture_output=True, text=True, check=False
    )
    assert f"sudo chmod +r {image}" in program.stdout, program.stderr


@needs_depmod
def test_a_module_or_a_table_that_changed_does_not_reach_a_guest(cache: Cache, tmp_path: Path) -> None:
    kernel = resolve(f"path:{built_tree(tmp_path / 'linux', 'drivers/block/null_blk.o')}", cache)
    (path,) = module_closure(kernel, ["null_blk"]).load
    path.write_bytes(b"another")
    with pytest.raises(LabBroken, match=r"null_blk\.ko is damaged"):
        base_image(cache, kernel, Payload({}, {}), ["null_blk"])


@needs_depmod
@pytest.mark.parametrize(("release", "direct"), [("4.18.0-25-generic", False), ("5.0.0-65-generic", True)])
def test_a_pvh_note_of_xen_is_not_an_entry_for_qemu(cache: Cache, tmp_path: Path, release: str, direct: bool) -> None:
    install_kernel(tmp_path / "root", release)
    assert (resolve(f"path:{tmp_path}/root", cache).vmlinux is not None) is direct
