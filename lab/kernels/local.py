# SPDX-License-Identifier: GPL-2.0-only
"""Kernels that are on this host already, also in package files of any distribution: ``path:`` and ``host``.

They are copied into the cache, so that a rebuild or an upgrade cannot change one that is in use.
"""

import os
import platform
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from lab.base.cache import Cache
from lab.base.digest import canonical, digest_bytes, known_digest
from lab.base.errors import CannotJudge, LabBroken, Misuse, no_such_folder
from lab.base.process import BOUND, run
from lab.base.reading import read_json
from lab.base.units import Tell
from lab.kernels import store
from lab.kernels.binaries import image_release
from lab.kernels.model import Kernel, Release
from lab.kernels.store import FoundKernel

_SOURCES = (".c", ".h", ".S", "Kconfig", "Makefile", "Kbuild")
_TREE_RELEASE = Path("include/config/kernel.release")


def resolve_path(wanted: str, cache: Cache, *, refresh: bool, tell: Tell) -> Kernel:
    """Raises what ``look`` raises, and LabBroken when a package cannot be unpacked."""
    spec, seen = f"path:{wanted}", look(wanted)
    if not isinstance(seen, FoundKernel):
        return store.load(stored(seen, cache, tell), spec, ", ".join(package.name for package in seen))
    first, *more = parts_of(wanted)
    return _copy(seen, spec, f"{'image' if more else 'folder'} {first}", cache, tell)


def look(wanted: str) -> FoundKernel | tuple[Path, ...]:
    """The kernel, or the packages that hold it: nothing is copied or unpacked.

    ``wanted`` is a folder, package files, or an image and the folder of its modules, with commas between them. Raises
    Misuse when they hold no kernel or several, CannotJudge when it is not built or no image.
    """
    parts = parts_of(wanted)
    listed = (sorted(part.iterdir()) if part.is_dir() else [part] for part in parts)
    if packages := tuple(path for paths in listed for path in paths if path.suffix in _UNPACK and path.is_file()):
        if others := [part for part in parts if not part.is_dir() and part not in packages]:
            raise Misuse(f"{others[0]} is no .deb or .rpm package", remedy="name packages, or a folder of them, alone")
        return packages
    return find(parts[0]) if len(parts) == 1 else _with_modules(*_image_and_folder(parts))


def parts_of(wanted: str) -> list[Path]:
    parts = [Path(part).expanduser().absolute() for part in wanted.split(",")]
    if absent := [part for part in parts if not part.exists()]:
        raise no_such_folder(absent[0], "the kernel folder")
    return parts


def _image_and_folder(parts: Sequence[Path]) -> tuple[Path, Path]:
    images, folders = [part for part in parts if part.is_file()], [part for part in parts if part.is_dir()]
    if (len(images), len(folders)) != (1, 1):
        raise Misuse(
            f"{len(images)} files and {len(folders)} folders are no kernel",
            remedy="name packages (path:A.rpm,B.rpm), or an image and the folder with its modules (path:bzImage,DIR)",
        )
    return images[0], folders[0]


def _with_modules(image: Path, folder: Path) -> FoundKernel:
    """The image with the modules of its release in ``folder``: lib/modules/RELEASE in it, or the folder itself."""
    store.demand_bzimage(image)
    release = image_release(image.read_bytes()) or ""
    below = (folder / "lib/modules" / release, folder / "usr/lib/modules" / release, folder / release, folder)
    modules = next((path for path in below if (path / "kernel").is_dir() and release), None)
    if modules is None:
        held = sorted({path.name for path in folder.glob("**/modules/*") if path.is_dir()})
        raise Misuse(
            f"{folder} has no modules of {release}" + (f", but of {', '.join(held)}" if held else ""),
            remedy="make modules_install INSTALL_MOD_PATH=DIR in the build's folder, and name DIR",
        )
    named = (modules / "config", image.with_name(f"config-{release}"), image.parent / "../../../.config")
    config = store.first_file(*named)
    if config is None:
        places = ", ".join(map(str, named))
        raise Misuse(f"no configuration of {image}: none of {places}", remedy=f"copy its .config to {named[0]}")
    return _check(replace(store.installed(image, config, modules), release=release))


def resolve_host(wanted: str, cache: Cache, *, refresh: bool, tell: Tell) -> Kernel:
    """Raises Misuse when the running kernel's image cannot be read, CannotJudge when it is not there."""
    release = platform.release()
    return _copy(find_host(Path("/"), release), "host", f"this host's {release}", cache, tell)


def find(folder: Path) -> FoundKernel:
    """The one kernel in ``folder``: a built tree, an unpacked package or an installed build."""
    if folder.is_file():
        store.demand_bzimage(folder)
        raise Misuse(
            f"{folder} is an image without its modules",
            remedy="name the folder that holds both, or the folder of the modules as well: path:IMAGE,DIR",
        )
    if not folder.is_dir():
        raise no_such_folder(folder, "the kernel folder")
    # An out-of-tree build has its own scripts and .config, but no Kbuild.
    if (folder / "scripts").is_dir() and ((folder / "Kbuild").exists() or (folder / ".config").exists()):
        return built_tree(folder)
    kernels = store.find_kernels(folder)
    if not kernels:
        raise Misuse(
            f"{folder} holds no kernel: neither a built tree ({store.BZIMAGE}) nor boot/vmlinuz-RELEASE with "
            "boot/config-RELEASE and lib/modules/RELEASE (or vmlinuz and config among the modules)",
            remedy="name a built kernel tree, the folder of an unpacked package, or INSTALL_MOD_PATH of a build",
        )
    if len(kernels) > 1:
        raise Misuse(
            f"{folder} holds several kernels: {', '.join(kernel.release for kernel in kernels)}",
            remedy="name a folder that holds one",
        )
    return _check(kernels[0])


def find_host(root: Path, release: str) -> FoundKernel:
    """The kernel ``release`` as installed below ``root``."""
    modules = root / "lib/modules" / release
    images = (root / f"boot/vmlinuz-{release}", modules / "vmlinuz")
    configs = (root / f"boot/config-{release}", modules / "config", root / "proc/config.gz")
    image, config = (next((path for path in paths if path.exists()), None) for paths in (images, configs))
    if image is None or config is None or not modules.is_dir():
        wanted = {images[0]: image is None, configs[0]: config is None, modules: not modules.is_dir()}
        missing = ", ".join(str(path) for path, absent in wanted.items() if absent)
        raise CannotJudge(
            f"the running kernel {release} is not installed here: no {missing}",
            remedy="name a packaged kernel, such as KERNEL=distro or KERNEL=debian:6.1",
        )
    if not os.access(image, os.R_OK):
        raise Misuse(
            f"{image} cannot be read: Ubuntu makes kernel images readable by root alone",
            remedy=f"sudo chmod +r {image} (to outlast upgrades of this image: "
            f"sudo dpkg-statoverride --update --add root root 0644 {image})",
        )
    return _check(store.installed(image, config, modules))


def built_tree(tree: Path, image: Path | None = None) -> FoundKernel:
    """The kernel that was built in ``tree``: a source folder, or the folder of an out-of-tree build.

    Its image is ``image``, by default the later of bzImage and vmlinux.
    """
    images = (path for path in (tree / store.BZIMAGE, tree / "vmlinux") if path.is_file())
    image = image or max(images, key=lambda path: path.stat().st_mtime, default=tree / store.BZIMAGE)
    for path, target in ((image, "bzImage"), (tree / _TREE_RELEASE, "prepare"), (tree / ".config", "defconfig")):
        if not path.is_file():
            name = path.relative_to(tree)
            raise CannotJudge(f"the kernel tree {tree} is not built: no {name}", remedy=f"make -C {tree} {target}")
    order = tree / "modules.order"
    listed = order.read_text().split() if order.exists() else []
    # Up to 5.x "kernel/block/x.ko", later "block/x.ko", from 6.3 (f65a486821cf) "block/x.o".
    built = [str(Path(line.removeprefix("kernel/")).with_suffix(".ko")) for line in listed]
    missing = [name for name in built if not (tree / name).is_file()]
    if missing:
        raise CannotJudge(
            f"{len(missing)} modules of the kernel tree {tree} are not built, such as {missing[0]}",
            remedy=f"make -C {tree} modules",
        )
    files = {f"kernel/{name}": tree / name for name in built}
    release = (tree / _TREE_RELEASE).read_text().strip()
    return _check(FoundKernel(release, image, tree / ".config", {**files, **store.tables(tree)}))


def finished_build(top: Path, folders: Iterable[Path]) -> Path | None:
    """The first of ``folders`` with a build of the tree ``top``. Raises Misuse where a source is newer."""
    for folder in folders:
        images = [path for path in (folder / store.BZIMAGE, folder / "vmlinux") if path.is_file()]
        if not images or not (folder / _TREE_RELEASE).is_file():
            continue
        built = max(path.stat().st_mtime for path in images)
        listed = run(["git", "--no-optional-locks", "-C", str(top), "ls-files", "-z"]).stdout.decode(
            errors="surrogateescape"
        )
        paths = (top / name for name in listed.split("\0") if name.endswith(_SOURCES))
        if newer := next((path for path in paths if path.exists() and path.stat().st_mtime > built), None):
            raise Misuse(
                f"the build in {folder} is older than {newer.relative_to(top)}",
                remedy=f"make there, or --kernel tree:{top} for a build of blklab's",
            )
        return folder
    return None


def _check(kernel: FoundKernel) -> FoundKernel:
    if not (store.holds_elf(kernel.image) and Release.parse(kernel.release) >= store.FIRST_PVH):
        store.demand_bzimage(kernel.image)
    release = image_release(kernel.image.read_bytes())
    if release not in (None, kernel.release):
        raise CannotJudge(
            f"{kernel.image} is {release}, its modules are for {kernel.release}",
            remedy="build image and modules together",
        )
    return kernel


def _copy(kernel: FoundKernel, spec: str, origin: str, cache: Cache, tell: Tell) -> Kernel:
    digest = _digest(kernel)

    def fill(into: Path) -> None:
        tell(f"copying {origin} into the cache")
        store.keep(kernel, into)
        if read_json(into / "kernel.json")["digest"] != digest:
            raise LabBroken(f"{origin} changed while it was copied", remedy="try again when its build has ended")

    key = digest_bytes(f"{digest} {digest_bytes(kernel.config.read_bytes())}".encode())
    return store.load(cache.entry(store.KIND, key, fill), spec, origin)


def _digest(kernel: FoundKernel) -> str:
    """The digest of image and modules."""
    modules = {name: path for name, path in kernel.files.items() if name not in store.TABLES}
    return store.digest_of({name: known_digest(path) for name, path in {"image": kernel.image, **modules}.items()})


_UNPACK = {
    ".deb": (("dpkg-deb", "-x", "{package}", "{into}"), "apt-get install dpkg"),
    # bsdtar of libarchive reads every compression that distributions use for their packages.
    ".rpm": (("bsdtar", "-xf", "{package}", "-C", "{into}"), "apt-get install libarchive-tools"),
}
_SPLIT = (
    "Ubuntu: linux-image, linux-modules and linux-modules-extra; Debian from 6.19 on: linux-binary, linux-modules and "
    "linux-base; Fedora and RHEL: kernel-core, kernel-modules-core, kernel-modules and kernel-modules-internal; "
    "openSUSE: kernel-default"
)


def stored(packages: Sequence[Path], cache: Cache, tell: Tell) -> Path:
    """The cache entry with the one kernel that ``packages`` hold together, unpacked over one another.

    Raises Misuse when a part of it is missing, LabBroken when a package cannot be unpacked.
    """
    key = digest_bytes(canonical(["packages", *(known_digest(package) for package in packages)]))

    def fill(into: Path) -> None:
        root = into / ".unpacked"
        root.mkdir()
        for package in packages:
            tell(f"unpacking {package.name}")
            _unpack(package, root)
        store.keep_only(root, into, lambda _: _not_one(root, packages))
        run(["rm", "-rf", str(root)])

    return cache.entry(store.KIND, key, fill)


def _unpack(package: Path, root: Path) -> None:
    forms, hint = _UNPACK[package.suffix]
    words = [form.format(package=package, into=root) for form in forms]
    if shutil.which(words[0]) is None:
        raise LabBroken(f"{package.name} cannot be unpacked: {words[0]} is not installed", remedy=hint)
    try:
        run([*BOUND, *words], hint=hint)
    except LabBroken as error:
        raise LabBroken(f"{package} cannot be unpacked: {error.message}", remedy=error.remedy) from error


def _not_one(root: Path, packages: Sequence[Path]) -> Misuse:
    parts = {path.name.removeprefix("vmlinuz-"): ["image"] for path in root.glob("boot/vmlinuz-*")}
    parts |= {path.parent.name: ["image"] for path in root.glob("**/lib/modules/*/vmlinuz")}
    for path in root.glob("**/lib/modules/*"):
        if next(path.rglob("*.ko*"), None):
            parts.setdefault(path.name, []).append("modules")
    held = "; ".join(f"{' and '.join(what)} of {release}" for release, what in sorted(parts.items())) or "no kernel"
    return Misuse(
        f"{', '.join(package.name for package in packages)}: {held}; expected image, configuration and modules of one",
        remedy=f"name the packages with all parts of one kernel, separated by commas (path:A,B). {_SPLIT}",
    )
