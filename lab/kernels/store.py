# SPDX-License-Identifier: GPL-2.0-only
"""The layout of a kernel in the cache, and how it is written and read.

image  vmlinux (if there is one)  config  lib/modules/<release>/  kernel.json
"""

import gzip
import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.base.contents import demand_intact, is_noted
from lab.base.digest import known_digest
from lab.base.errors import CannotJudge, LabBroken
from lab.base.process import run
from lab.base.reading import read_json
from lab.kernels.model import Kernel
from lab.kernels.release import Release
from lab.kernels.vmlinux import DAMAGE, extract_vmlinux, is_bzimage

KIND = "kernels"
_FIRST_PVH = Release.parse("5.0")
"""Before 7733607fb3e6 a PVH entry makes hypercalls of Xen; QEMU would enter there whenever the ELF has the note."""
_SBIN = "/usr/local/sbin:/usr/sbin:/sbin"


@dataclass(frozen=True)
class Parts:
    """Where a kernel's files are before they are stored. ``modules`` is its lib/modules/<release>."""

    release: str
    image: Path
    config: Path
    modules: Path


def find_parts(tree: Path) -> tuple[Parts, ...]:
    """All kernels under the root ``tree`` of an unpacked package or an installation, old to new."""
    found = (_parts_of(tree, modules) for base in ("usr/lib", "lib") for modules in (tree / base).glob("modules/*"))
    unique = {parts.release: parts for parts in found if parts is not None}
    return tuple(sorted(unique.values(), key=lambda parts: Release.parse(parts.release)))


def store(parts: Parts, into: Path) -> None:
    """Move the kernel's files into the entry ``into`` and complete them."""
    modules = into / "lib/modules" / parts.release
    modules.parent.mkdir(parents=True)
    # From 7.x on image and configuration lie among the modules: they go first.
    for source, target in ((parts.image, into / "image"), (parts.config, into / "config"), (parts.modules, modules)):
        source.rename(target)
    finish(into, parts.release)


def finish(into: Path, release: str) -> None:
    """Add modules.dep, vmlinux and kernel.json to an entry that holds image, config and modules."""
    make_dependencies(into, release)
    store_vmlinux(into / "image", into)
    modules = into / "lib/modules" / release
    files = {"image": into / "image", **{name: modules / name for name in modules_of(modules)}}
    digest = digest_of({name: known_digest(path) for name, path in files.items()})
    (into / "kernel.json").write_text(json.dumps({"release": release, "digest": digest}) + "\n")


def store_vmlinux(image: Path, into: Path) -> None:
    """Raises CannotJudge when what the image holds cannot be decompressed."""
    try:
        vmlinux = extract_vmlinux(image.read_bytes())
    except DAMAGE as error:
        raise CannotJudge(f"the kernel image is damaged: {error}", remedy="build or install it again") from error
    if vmlinux is not None:
        (into / "vmlinux").write_bytes(vmlinux)


def load(entry: Path, spec: str, origin: str, modules: Path | None = None, mutant: str = "") -> Kernel:
    """The kernel in a cache entry; ``modules`` when they are kept elsewhere. Raises LabBroken for a damaged file."""
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
        vmlinux=demand_intact(vmlinux) if is_noted(vmlinux) and release >= _FIRST_PVH else None,
        modules=modules or entry / "lib/modules" / release.text,
        config=options,
        digest=digest,
        mutant=mutant,
    )


def read_config(path: Path) -> Mapping[str, str]:
    """``CONFIG_X`` to ``y``, ``m`` or value (strings without their quotes); plain or gzip."""
    stored = path.read_bytes()
    text = (gzip.decompress(stored) if stored.startswith(b"\x1f\x8b") else stored).decode()
    options = (line.partition("=") for line in text.splitlines() if line.startswith("CONFIG_"))
    return {name: value.strip('"') for name, _, value in options}


def make_dependencies(root: Path, release: str) -> None:
    """Run depmod over ``root``/lib/modules/<release>. Raises LabBroken when depmod is missing."""
    depmod = shutil.which("depmod") or shutil.which("depmod", path=_SBIN) or "depmod"
    alias = root / "usr"
    # Some builds of kmod look below usr/lib/modules only.
    alias.symlink_to(".")
    try:
        run([depmod, "-b", str(root), release], hint="apt install kmod")
    finally:
        alias.unlink()


def modules_of(modules: Path) -> list[str]:
    """The module files below ``modules``, as sorted relative paths."""
    return sorted(str(path.relative_to(modules)) for path in modules.rglob("*.ko*") if path.is_file())


def digest_of(files: Mapping[str, str]) -> str:
    """One digest over the names and digests of image and modules."""
    return hashlib.sha256("".join(f"{files[name]}  {name}\n" for name in sorted(files)).encode()).hexdigest()


def demand_bzimage(image: Path) -> None:
    """Raises CannotJudge when ``image`` is not an x86 kernel image."""
    with image.open("rb") as stream:
        if not is_bzimage(stream.read(0x1000)):
            raise CannotJudge(f"{image} is not an x86 kernel image (bzImage)", remedy="build or name a bzImage")


def _parts_of(tree: Path, modules: Path) -> Parts | None:
    release = modules.name
    image = _first(modules / "vmlinuz", tree / f"boot/vmlinuz-{release}")
    config = _first(modules / "config", tree / f"boot/config-{release}")
    if image is None or config is None:
        return None
    return Parts(release, image, config, modules)


def _first(*paths: Path) -> Path | None:
    return next(_existing(paths), None)


def _existing(paths: Iterable[Path]) -> Iterator[Path]:
    return (path for path in paths if path.is_file())
