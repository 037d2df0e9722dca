# SPDX-License-Identifier: GPL-2.0-only
"""Modules of a packaged kernel, built from other source and put in place of its own.

They are built against the headers of the very package, with its compiler where that is one of Debian 13, else with the
host's. The kernel refuses a module of another vermagic, or one that needs a symbol of another version.

<cache>/headers/<key>/usr  bin/
"""

import lzma
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from lab.base.cache import Cache
from lab.base.digest import canonical, digest_bytes
from lab.base.errors import CannotJudge, LabBroken
from lab.base.process import run
from lab.base.units import Tell
from lab.kernels import store
from lab.kernels.binaries import module_name, read_module
from lab.kernels.build import first_error, make_words
from lab.kernels.debian import pinned
from lab.kernels.model import Kernel
from lab.native import elf
from lab.native.programs import COMPILER
from lab.packages import tools
from lab.packages.apt import Archive, Package
from lab.packages.lock import SUITE
from lab.packages.store import Pin, unpacked
from lab.yaml.strict import names

KIND = "headers"
_OWN = "14"  # the major version of the lab's own compiler
_PARTS = re.compile(r"(linux-headers-\S+-common|linux-kbuild-[^\s,]+)")
_COMPILER = re.compile(r"\bgcc-([0-9]+)")
_INFO = re.compile(rb"(?:^|\0)((?:vermagic|depends|alias|softdep)=[^\0]*)")
_EXPORTED = re.compile(r"^(0x[0-9a-f]+)\t(\w+)\t", re.MULTILINE)
_BINUTILS = ("ar", "as", "ld", "nm", "objcopy", "objdump", "readelf", "strip")
_WORDS = ("DEBIAN_KERNEL_NO_CC_VERSION_CHECK=y", "KCFLAGS=-fmacro-prefix-map={work}/=")
"""Names of files in warnings are those of the package: no folder's name gets into a module."""
_RUN = 'exec "$BLKLAB_LOADER" --library-path "$BLKLAB_LIBRARIES" --argv0 "$0"'


@dataclass(frozen=True)
class Headers:
    """What modules of the packaged ``kernel`` are built with. ``compiler`` is a program, ``note`` says which one."""

    kernel: Kernel
    folder: Path
    compiler: str
    note: str
    environment: Mapping[str, str]

    @property
    def build(self) -> Path:
        return self.folder / "usr/src" / f"linux-headers-{self.kernel.release}"


def headers_of(kernel: Kernel, cache: Cache, tell: Tell) -> Headers:
    """Raises CannotJudge for a kernel that is not a package of Debian, or whose headers the archive no longer has."""
    pin = pinned(kernel.spec, cache)
    if pin is None:
        raise CannotJudge(f"{kernel.spec} is no package of Debian", remedy="--base debian:6.12, or source:6.12")
    made = unpacked(
        cache,
        f"headers-{kernel.release}",
        partial(_packages, pin.packages[0], kernel.release),
        tell,
        kind=KIND,
        finish=partial(_finish, kernel.release),
    )
    wanted, environment = (made.folder / "compiler").read_text(), _environment(made.folder, cache, tell)
    if tools.wanted() and (own := next(made.folder.glob(f"usr/bin/*-gcc-{wanted}"), None)):
        return Headers(kernel, made.folder, own.name, f"gcc {wanted} as the package", environment)
    compiler = next((name for name in (f"gcc-{wanted}", "gcc") if shutil.which(name)), "")
    if not compiler:
        raise LabBroken("modules cannot be built without gcc", remedy="scripts/host-packages --build")
    said = run([compiler, "--version"]).stdout.decode(errors="replace").partition("\n")[0]
    return Headers(kernel, made.folder, compiler, f"{said}; the package was built by gcc {wanted}", environment)


def module_path(kernel: Kernel, file: str, name: str) -> str:
    """The module ``name`` that the C file ``file`` is part of, below lib/modules/RELEASE; empty where it is none of the
    kernel's.
    """
    wanted = f"kernel/{Path(file).parent}/{name}.ko"
    lines = (line.partition(":")[0] for line in (kernel.modules / "modules.dep").read_text().splitlines())
    return next((line for line in lines if line.startswith(wanted) and module_name(line) == module_name(name)), "")


def replaced(
    headers: Headers, repository: Path, commit: str, modules: Sequence[str], cache: Cache, *, title: str, tell: Tell
) -> Kernel:
    """The packaged kernel with ``modules`` as the ``commit`` has them.

    Raises CannotJudge with the compiler's line, and where the kernel would refuse a module.
    """
    folders = sorted({_folder(path) for path in modules})
    words = ("rev-parse", *(f"{commit}:{folder}" for folder in folders))
    ids = run(["git", "-C", str(repository), *words]).stdout.decode().split()
    key = digest_bytes(
        canonical([headers.kernel.digest, headers.folder.name, headers.note, _WORDS, ids, sorted(modules)])
    )

    def fill(into: Path) -> None:
        work = into / ".work"
        tell(f"building {names(module_name(path) for path in modules)} of {title} ({headers.note})")
        archive = run(["git", "-C", str(repository), "archive", "--format=tar", commit, *folders]).stdout
        parents = dict.fromkeys(Path(path).parent for path in modules)
        # tar(1) writes nothing outside the folder; Python can be told so since 3.11.4, and Debian 12 has 3.11.2.
        work.mkdir()
        run(["tar", "-x", "-C", str(work)], stdin=archive, hint="free space in the cache")
        by_folder = {folder: [path for path in modules if Path(path).parent == folder] for folder in parents}
        built = {path: data for paths in by_folder.values() for path, data in _built(headers, work, paths, title)}
        _link(headers.kernel, into, built)
        run(["rm", "-rf", str(work)])

    entry = cache.entry(store.KIND, key, fill)
    kernel = store.load(entry, f"path:{entry}", f"{headers.kernel.origin}, with modules of {title}")
    return replace(kernel, build=digest_bytes(f"{headers.folder.name} {headers.note}".encode()))


def _packages(image: Package, release: str, archive: Archive) -> list[Package]:
    headers = archive.find(image.suite, f"linux-headers-{release}", image.version)
    parts = [archive.find(image.suite, name, image.version) for name in _PARTS.findall(headers.depends)]
    compilers = [archive.find(SUITE, f"gcc-{_OWN}-x86-64-linux-gnu")] if f"gcc-{_OWN}" in headers.depends else []
    return [headers, *parts, *compilers]


def _finish(release: str, tree: Path, into: Path, _: Pin) -> None:
    """Programs of Debian start by the lab's loader, and no path leads out of the folder."""
    for item in tree.iterdir():
        item.rename(into / item.name)
    headers, above = into / f"usr/src/linux-headers-{release}", "$(dir $(lastword $(MAKEFILE_LIST)))../"
    makefile = headers / "Makefile"
    makefile.write_text(makefile.read_text().replace("/usr/src/", above))
    # Where there is one, kbuild wants pahole for types that no scenario reads.
    (headers / "vmlinux").unlink(missing_ok=True)
    variables = (headers / ".kernelvariables").read_text()
    match = _COMPILER.search(variables)
    (into / "compiler").write_text(match[1] if match else "")
    programs = [
        path for path in into.rglob("*") if not path.is_symlink() and path.is_file() and os.access(path, os.X_OK)
    ]
    for path in programs:
        with path.open("rb") as file:
            if not elf.is_elf(file.read(0x10)):
                continue
        program = path.rename(path.with_name(f"{path.name}.elf"))
        given = ' "-B$BLKLAB_COMPILER/"' if "-gcc-" in path.name else ""
        path.write_text(f'#!/bin/sh\n{_RUN} "$0.elf"{given} "$@"\n')
        path.chmod(program.stat().st_mode)
    for name in _BINUTILS:
        script = into / "bin" / f"x86_64-linux-gnu-{name}"
        script.parent.mkdir(exist_ok=True)
        script.write_text(f'#!/bin/sh\n{_RUN} "$BLKLAB_COMPILER/usr/bin/${{0##*/}}" "$@"\n')
        script.chmod(0o755)


def _environment(headers: Path, cache: Cache, tell: Tell) -> Mapping[str, str]:
    own, compiler = (tools.fetch(cache, toolset, tell).intact for toolset in (tools.HOST_TOOLS, COMPILER))
    libraries = [str(folder / tools.LIBRARIES) for folder in (own, compiler)]
    folders = [str(headers / name) for name in ("bin", "usr/bin")]
    return {
        "PATH": os.pathsep.join((*folders, os.environ.get("PATH", ""))),
        "LC_ALL": "C",
        "BLKLAB_LOADER": f"{libraries[0]}/{tools.LOADER}",
        "BLKLAB_LIBRARIES": os.pathsep.join(libraries),
        "BLKLAB_COMPILER": str(compiler),
    }


def _folder(path: str) -> str:
    """What is checked out to build a module: drivers/nvme for one of drivers/nvme/target, which has headers there."""
    return "/".join(Path(path).parent.parts[1:3])


def _built(headers: Headers, work: Path, paths: Sequence[str], title: str) -> Iterator[tuple[str, bytes]]:
    """The modules ``paths`` of one folder, without debugging information."""
    release, remedy = headers.kernel.release, f"--base source:{headers.kernel.version.series} builds the kernel"
    folder = work.joinpath(*Path(paths[0]).parent.parts[1:])
    objects = [folder / f"{Path(path).name.partition('.')[0]}.ko" for path in paths]
    words = [
        f"M={folder}",
        f"CC={headers.compiler}",
        *(word.format(work=work) for word in _WORDS),
        *(path.name for path in objects),
    ]
    done = run([*make_words(headers.build), *words], env=headers.environment, accept=range(256))
    said = done.stderr.decode(errors="replace")
    if done.returncode:
        line = first_error(said).replace(f"{work}/", "")
        raise CannotJudge(f"{title} does not build against the headers of {release}: {line}", remedy=remedy)
    theirs = _exported(headers.build / "Module.symvers")
    changed = [
        name for name, version in _exported(folder / "Module.symvers").items() if theirs.get(name, version) != version
    ]
    if changed:
        raise CannotJudge(f"{title} exports another {names(changed)} than {release}", remedy=remedy)
    for path, ko in zip(paths, objects, strict=True):
        run([str(headers.folder / "bin/x86_64-linux-gnu-objcopy"), "--strip-debug", str(ko)], env=headers.environment)
        data = ko.read_bytes()
        packaged = read_module(headers.kernel.modules / path)
        magic, own = (_info(module)["vermagic"] for module in (packaged, data))
        if magic != own:
            raise CannotJudge(f"{ko.name} has the vermagic {own}, {release} takes {magic}", remedy=remedy)
        yield path, data


def _info(module: bytes) -> Mapping[str, str]:
    """What modinfo says of the vermagic, and what depmod reads, which may be there several times."""
    rows = dict[str, str]()
    for key, _, text in (match.decode().partition("=") for match in _INFO.findall(module)):
        rows[key] = f"{rows[key]} {text}" if key in rows else text
    return rows


def _exported(symvers: Path) -> dict[str, str]:
    return {name: crc for crc, name in _EXPORTED.findall(symvers.read_text())} if symvers.exists() else {}


def _link(kernel: Kernel, into: Path, modules: Mapping[str, bytes]) -> None:
    """The kernel as hard links, with other ``modules``."""
    below, stored = into / "lib/modules" / kernel.release, kernel.image.parent
    shutil.copytree(kernel.modules, below, copy_function=os.link)
    for name in ("image", "config", *(["vmlinux"] if kernel.vmlinux else [])):
        (into / name).hardlink_to(stored / name)
    # As packages from 7.x on have it, for path:DIR.
    for name, file in (("vmlinuz", "image"), ("config", "config")):
        (below / name).hardlink_to(stored / file)
    for path, data in modules.items():
        (below / path).unlink()
        (below / path).write_bytes(
            lzma.compress(data, preset=0, check=lzma.CHECK_CRC32) if path.endswith(".xz") else data
        )
    if any(_info(data) != _info(read_module(kernel.modules / path)) for path, data in modules.items()):
        store.make_dependencies(into, kernel.release)
    store.describe(into, kernel.release)
