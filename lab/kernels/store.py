# SPDX-License-Identifier: GPL-2.0-only
"""The layout of a kernel in the cache, and how it is written and read.

image  vmlinux (if there is one)  config  lib/modules/<release>/  kernel.json
"""

import gzip
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.base.contents import demand_intact, is_noted
from lab.base.digest import digest_bytes, known_digest
from lab.base.errors import BlklabError, CannotJudge, LabBroken
from lab.base.process import run
from lab.base.reading import read_json
from lab.kernels.binaries import DAMAGE, extract_vmlinux, is_bzimage
from lab.kernels.model import Kernel, Release
from lab.native.elf import is_elf
from lab.packages import tools

KIND = "kernels"
BZIMAGE = Path("arch/x86/boot/bzImage")
"""In a built tree."""
FIRST_PVH = Release.parse("5.0")
"""Before 7733607fb3e6 a PVH entry makes hypercalls of Xen; QEMU would enter there whenever the ELF has the note."""
TABLES = ("modules.builtin", "modules.builtin.modinfo", "modules.order")


@dataclass(frozen=True)
class FoundKernel:
    """A kernel's files before they are stored. ``files`` maps names below lib/modules/<release> to paths."""

    release: str
    image: Path
    config: Path
    files: Mapping[str, Path]


def find_kernels(tree: Path) -> tuple[FoundKernel, ...]:
    """All kernels under the root ``tree`` of an unpacked package or an installation, old to new."""
    kernels: dict[str, FoundKernel] = {}
    for modules in (folder for base in ("usr/lib", "lib") for folder in (tree / base).glob("modules/*")):
        # From 7.x on image and configuration lie among the modules.
        image = first_file(modules / "vmlinuz", tree / f"boot/vmlinuz-{modules.name}")
        config = first_file(modules / "config", tree / f"boot/config-{modules.name}")
        if image and config:
            kernels[modules.name] = installed(image, config, modules)
    return tuple(sorted(kernels.values(), key=lambda kernel: Release.parse(kernel.release)))


def installed(image: Path, config: Path, modules: Path) -> FoundKernel:
    """The kernel whose lib/modules/<release> is the folder ``modules``, whatever its name."""
    release = modules.name
    return FoundKernel(release, image, config, {name: modules / name for name in modules_of(modules)} | tables(modules))


def tables(folder: Path) -> dict[str, Path]:
    """The lists that kbuild makes, as far as they are there."""
    return {name: folder / name for name in TABLES if (folder / name).is_file()}


def keep_only(tree: Path, into: Path, refuse: Callable[[int], BlklabError]) -> None:
    """Move the one kernel of ``tree`` into the entry ``into``. Raises what ``refuse`` makes of any other number."""
    kernels = find_kernels(tree)
    if len(kernels) != 1:
        raise refuse(len(kernels))
    keep(kernels[0], into, shutil.move)


def keep(kernel: FoundKernel, into: Path, place: Callable[[Path, Path], object] = shutil.copyfile) -> None:
    """Put the files into the entry ``into``, and add modules.dep, vmlinux and kernel.json.

    Raises CannotJudge when what the image holds cannot be decompressed.
    """
    modules = into / "lib/modules" / kernel.release
    modules.mkdir(parents=True)
    place(kernel.image, into / "image")
    place(kernel.config, into / "config")
    for name, path in kernel.files.items():
        (modules / name).parent.mkdir(parents=True, exist_ok=True)
        place(path, modules / name)
    make_dependencies(into, kernel.release)
    image = (into / "image").read_bytes()
    try:
        vmlinux = None if is_elf(image) else extract_vmlinux(image)
    except DAMAGE as error:
        raise CannotJudge(f"the kernel image is damaged: {error}", remedy="build or install it again") from error
    if is_elf(image):
        (into / "vmlinux").hardlink_to(into / "image")
    elif vmlinux is not None:
        (into / "vmlinux").write_bytes(vmlinux)
    describe(into, kernel.release)


def describe(entry: Path, release: str) -> None:
    """Write kernel.json, which identifies image and modules."""
    modules = entry / "lib/modules" / release
    files = {"image": entry / "image", **{name: modules / name for name in modules_of(modules)}}
    digest = digest_of({name: known_digest(path) for name, path in files.items()})
    (entry / "kernel.json").write_text(json.dumps({"release": release, "digest": digest}) + "\n")


def load(entry: Path, spec: str, origin: str) -> Kernel:
    """The kernel in a cache entry. Raises LabBroken for a damaged file."""
    image, vmlinux, config, facts_file = (entry / name for name in ("image", "vmlinux", "config", "kernel.json"))
    try:
        facts = read_json(demand_intact(facts_file))
        release, digest = Release.parse(str(facts["release"])), str(facts["digest"])
        options = read_config(demand_intact(config))
    except (KeyError, TypeError, *DAMAGE) as error:
        raise LabBroken(f"{entry} is not a stored kernel: {error}", remedy=f"rm -r {entry}") from error
    return Kernel(
        spec=spec,
        release=release.text,
        version=release,
        origin=origin,
        image=demand_intact(image),
        vmlinux=demand_intact(vmlinux) if is_noted(vmlinux) and release >= FIRST_PVH else None,
        modules=entry / "lib/modules" / release.text,
        config=options,
        digest=digest,
    )


def read_config(path: Path) -> Mapping[str, str]:
    """``CONFIG_X`` to ``y``, ``m`` or value (strings without their quotes); plain or gzip."""
    stored = path.read_bytes()
    text = (gzip.decompress(stored) if stored.startswith(b"\x1f\x8b") else stored).decode()
    options = (line.partition("=") for line in text.splitlines() if line.startswith("CONFIG_"))
    return {name: value.strip('"') for name, _, value in options}


def make_dependencies(root: Path, release: str) -> None:
    """Run depmod over ``root``/lib/modules/<release>. Raises LabBroken when depmod is missing."""
    alias = root / "usr"
    # Some builds of kmod look below usr/lib/modules only.
    alias.symlink_to(".")
    try:
        run([tools.depmod(), "-b", str(root), release], hint="apt install kmod")
    finally:
        alias.unlink()


def modules_of(modules: Path) -> list[str]:
    """The module files below ``modules``, as sorted relative paths."""
    return sorted(str(path.relative_to(modules)) for path in modules.rglob("*.ko*") if path.is_file())


def digest_of(files: Mapping[str, str]) -> str:
    """One digest over the names and digests of image and modules."""
    return digest_bytes("".join(f"{files[name]}  {name}\n" for name in sorted(files)).encode())


def holds_elf(image: Path) -> bool:
    """Whether ``image`` is an ELF kernel, which QEMU enters through its PVH note."""
    with image.open("rb") as stream:
        return is_elf(stream.read(0x10))


def demand_bzimage(image: Path) -> None:
    """Raises CannotJudge when ``image`` is not an x86 kernel image."""
    with image.open("rb") as stream:
        if not is_bzimage(stream.read(0x1000)):
            raise CannotJudge(f"{image} is not an x86 kernel image (bzImage)", remedy="build or name a bzImage")


def first_file(*paths: Path) -> Path | None:
    return next((path for path in paths if path.is_file()), None)
