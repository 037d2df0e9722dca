# SPDX-License-Identifier: GPL-2.0-only
"""A guest payload whose programs are all one small program of the host's, and a kernel to go with it."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from lab.base.cache import Cache
from lab.base.contents import note
from lab.guest.payload import LIBRARIES, LIBRARY_FOLDER, LOADER, MAKERS, PROGRAMS, Payload
from lab.kernels.model import Kernel, Release
from lab.native.programs import Steady
from lab.qemu.probe import Qemu
from lab.session import Lab
from tests.unit.kernel_samples import module

SMALL_PROGRAM = Path("/bin/true")
CONFIG = dict.fromkeys(
    (
        "CONFIG_BLK_DEV_INITRD",
        "CONFIG_DEVTMPFS",
        "CONFIG_CONFIGFS_FS",
        "CONFIG_SERIAL_8250_CONSOLE",
        "CONFIG_TMPFS",
        "CONFIG_HPET_TIMER",
    ),
    "y",
)


def lay_out(root: Path) -> None:
    """Everything that ``payload.assemble`` looks for, below ``root``."""
    libraries = (f"{LIBRARY_FOLDER}/{name}" for name in (LOADER, *LIBRARIES))
    _lay_out_programs(root, ("usr/bin/busybox", *PROGRAMS.values(), *libraries))


def lay_out_makers(root: Path) -> None:
    """The programs of all packages that make layers, below ``root``."""
    _lay_out_programs(root, (maker.program for maker in MAKERS.values()))


def _lay_out_programs(root: Path, names: Iterable[str]) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(SMALL_PROGRAM.read_bytes())
    note(root)


def idle_lab(folder: Path, version: tuple[int, int, int] = (10, 0, 13)) -> Lab:
    """A lab that boots nothing, with a QEMU of this version and its cache in ``folder``."""
    qemu = Qemu(Path("/opt/qemu"), version, "", frozenset(), None, "q" * 64)
    return Lab(Cache(folder), qemu, Steady(Path("/opt/steady.so"), "s" * 64), Payload({}, {}))


def kernel(
    folder: Path,
    modules: Mapping[str, str],
    *,
    builtin: tuple[str, ...] = (),
    parameters: Mapping[str, tuple[str, ...]] = {},
    config: Mapping[str, str] = CONFIG,
) -> Kernel:
    """A kernel whose ``modules`` (name: names it needs) are empty ELF objects with some module parameters."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for name, needs in modules.items():
        kinds = b"".join(f"parmtype={parameter}:int\0".encode() for parameter in parameters.get(name, ()))
        (folder / f"{name}.ko").write_bytes(module() + name.encode() + kinds)
        rows.append(f"{name}.ko: {' '.join(f'{need}.ko' for need in needs.split())}\n")
    (folder / "modules.dep").write_text("".join(rows))
    (folder / "modules.builtin").write_text("".join(f"kernel/{name}.ko\n" for name in builtin))
    image = folder / "image"
    image.write_bytes(b"image")
    note(folder)
    release = "6.1.0-50-amd64"
    return Kernel("path:x", release, Release.parse(release), "made up", image, None, folder, config, "k" * 64)
