# SPDX-License-Identifier: GPL-2.0-only
"""What is written in C, built reproducibly: programs of the guest and libraries for QEMU."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from lab.base.cache import Cache
from lab.base.contents import demand_intact
from lab.base.digest import canonical, digest_bytes, digest_results
from lab.base.errors import LabBroken
from lab.base.record import BootRecord, Outcome
from lab.native import compiler

KIND = "program"
WARNINGS = ("-Wall", "-Wextra", "-Wshadow", "-Werror")
DIALECT = ("-std=c11", "-D_GNU_SOURCE", "-I.")
ROOT = Path(__file__).parent
PLUGINS = ROOT / "profile"
_FLAGS = (*DIALECT, "-O2", *WARNINGS)
_LIBRARY = ("-std=gnu11", "-O2")


@dataclass(frozen=True)
class Program:
    """Groups of folders below ``ROOT`` whose C files make it up, and ``flags`` beside those of every program."""

    groups: tuple[tuple[str, ...], ...]
    flags: tuple[str, ...] = ()

    def sources(self) -> tuple[Path, ...]:
        """The C files and headers in the order in which they are linked: by group, then by name.

        The order determines addresses, and so the digests of base archives.
        """
        groups = (
            sorted(chain(*((ROOT / folder).iterdir() for folder in folders)), key=lambda path: path.name)
            for folders in self.groups
        )
        return tuple(path for path in chain(*groups) if path.suffix in {".c", ".h"})


DISKD, RECEIVE, SAMPLER, PROCESS_SAMPLER = "diskd", "receive", "sampler", "process-sampler"
_SAMPLER = Program((("common",), ("sampler",)))
PROGRAMS = {
    DISKD: Program((("common", "diskd"),)),
    RECEIVE: Program((("receive",),)),
    SAMPLER: _SAMPLER,
    PROCESS_SAMPLER: replace(_SAMPLER, flags=("-DJOBS_ARE_PROCESSES",)),
}

PROFILE, EXECUTED, SHARING = "profile.so", "executed.so", "sharing.so"
"""The plugins that observe what a guest executes; plugin.c and executed.c in native say how."""
_PLUGIN_PARTS = {
    PROFILE: tuple(f"profile/{name}.c" for name in ("functions", "marker", "memory", "plugin", "stack", "tree")),
    EXECUTED: tuple(f"profile/{name}.c" for name in ("executed", "marker", "memory")),
    SHARING: (
        *(f"profile/{name}.c" for name in ("functions", "marker", "memory")),
        *(f"sharing/{name}.c" for name in ("cpus", "lines", "locks", "plugin")),
    ),
}
_WINDOW = "window"
# include/qemu/qemu-plugin.h of each release: QEMU refuses a plugin of another version of the interface.
TURNS_INTERFACE = 4
"""The first with which a plugin can end the turn of a CPU and read memory."""
_INTERFACES = (((9, 2), 4), ((9, 1), 3), ((9, 0), 2), ((6, 0), 1))


@dataclass(frozen=True)
class Steady:
    """``path`` is the library that keeps QEMU's main loop off the virtual clock while the CPU executes (steady.c).

    ``digest`` is the sha256 of its source in hex.
    """

    path: Path
    digest: str


@dataclass(frozen=True)
class Plugin:
    """``files`` by name lie in the boot's folder, ``library`` among them; ``words`` are its arguments. None by default.

    ``loads`` are those whose windows it writes, in the guest's order. ``measured`` is the name of the measured file
    that each window is (``{load}.lines``), empty where the boot has the results of any other. ``from_start``: it
    follows each task from the first call, so the guest has to boot.
    """

    library: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    words: tuple[str, ...] = ()
    loads: tuple[str, ...] = ()
    measured: str = ""
    from_start: bool = False

    @property
    def argv(self) -> tuple[str, ...]:
        """QEMU's option, for the boot's folder."""
        return (f"./{self.library}", *self.words, f"output={_WINDOW}") if self.library else ()

    def install(self, folder: Path) -> None:
        """Raises OSError."""
        for name, data in self.files.items():
            (folder / name).write_bytes(data)

    def windows(self, folder: Path) -> Mapping[str, bytes]:
        """What it counted, by load. Raises LabBroken where it saw no window."""
        paths = {load: folder / f"{_WINDOW}.{number}" for number, load in enumerate(self.loads)}
        if missing := [load for load, path in paths.items() if not path.is_file()]:
            raise LabBroken(f"the plugin saw no window of load {missing[0]}", remedy="report this as a bug of blklab")
        return {load: path.read_bytes() for load, path in paths.items()}

    def completed(self, record: BootRecord) -> BootRecord:
        """With the windows among the measured files, where they are results. Raises what ``windows`` raises."""
        if not self.measured or record.outcome is not Outcome.BYE:
            return record
        windows = {self.measured.format(load=load): data for load, data in self.windows(record.folder).items()}
        files = {**record.files, **windows}
        return replace(record, files=files, digest=digest_results(files))


def build(cache: Cache, name: str, *, symbols: bool = False) -> bytes:
    """A program of ``PROGRAMS`` as a static ELF file, from the cache when this compiler has built it before.

    With ``symbols`` it has its symbol table; code and addresses are the same. Raises LabBroken.
    """
    program = PROGRAMS[name]
    return _compile(cache, name, program.sources(), (*_FLAGS, *program.flags), strip=not symbols).read_bytes()


def plugin(cache: Cache, version: tuple[int, ...], library: str = PROFILE) -> Path:
    """The plugin for this version of QEMU. Raises LabBroken as ``build`` does."""
    flags = (*_LIBRARY, "-I.", *WARNINGS, "-fvisibility=hidden", f"-DPLUGIN_API={interface(version)}")
    return _compile(cache, library, _plugin_sources(library), flags, shared=True)


def _plugin_sources(library: str) -> tuple[Path, ...]:
    """The C files of a plugin, and the headers beside them."""
    sources = [ROOT / name for name in _PLUGIN_PARTS[library]]
    headers = (header for folder in sorted({source.parent for source in sources}) for header in folder.glob("*.h"))
    return (*sources, *sorted(headers))


def source_digest(library: str) -> str:
    """The sha256, in hex, of a plugin's sources: what it does to a guest depends on them alone."""
    return digest_bytes(b"".join(path.read_bytes() for path in _plugin_sources(library)))


def interface(version: tuple[int, ...]) -> int:
    """The version of the plugin interface that this version of QEMU wants."""
    return next(number for first, number in _INTERFACES if version >= first)


def steady(cache: Cache) -> Steady:
    """The library to preload into QEMU. Raises LabBroken as ``build`` does."""
    source, flags = ROOT / "steady.c", (*_LIBRARY, "-Wall", "-Wextra", "-Werror")
    return Steady(_compile(cache, "steady.so", (source,), flags, shared=True), digest_bytes(source.read_bytes()))


def _compile(
    cache: Cache, name: str, sources: Iterable[Path], flags: Sequence[str], *, shared: bool = False, strip: bool = False
) -> Path:
    """The file made of C ``sources``, in their order; headers among them only count for the key."""
    files = {str(path.relative_to(ROOT)): digest_bytes(path.read_bytes()) for path in sources}
    key = digest_bytes(canonical([name, files, flags, shared, strip, compiler.version(cache)]))

    def fill(into: Path) -> None:
        listed = [file for file in files if file.endswith(".c")]
        compiler.compile_c(cache, ROOT, listed, flags, into / name, shared=shared, strip=strip)

    return demand_intact(cache.entry(KIND, key, fill) / name)
