# SPDX-License-Identifier: GPL-2.0-only
"""What is written in C, built reproducibly: programs of the guest and libraries for QEMU.

The compiler is by default one of the lab's own, so that they are the same bytes on every host.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from lab.base.cache import Cache
from lab.base.contents import demand_intact
from lab.base.digest import canonical, digest_bytes, digest_results
from lab.base.errors import LabBroken
from lab.base.host import COMPILER as COMPILER_OF_HOST
from lab.base.host import REMEDY, SECONDS, compiler_version
from lab.base.process import run
from lab.base.record import BootRecord, Outcome
from lab.base.units import Tell, silent
from lab.packages.store import Unpacked
from lab.packages.tools import HOST, LIBRARIES, OVERRIDE, Toolset, fetch, wanted

_GCC = "usr/lib/gcc/x86_64-linux-gnu/14"

COMPILER = Toolset(
    "compiler",
    (
        *(
            "cpp-14-x86-64-linux-gnu",
            "binutils-x86-64-linux-gnu",
            "libbinutils",
            "libsframe1",
            "libctf0",
            "libjansson4",
        ),
        *("libc6", "libc6-dev", "libgcc-14-dev", "linux-libc-dev"),
        *("libgmp10", "libisl23", "libmpc3", "libmpfr6", "libzstd1", "zlib1g"),
    ),
    (
        ("cc1", "usr/libexec/gcc/x86_64-linux-gnu/14/cc1", ("-quiet", "-nostdinc")),
        ("as", "usr/bin/x86_64-linux-gnu-as", ()),
        ("ld", "usr/bin/x86_64-linux-gnu-ld.bfd", ("--build-id=none",)),
    ),
)


def compiler_identity(cache: Cache, tell: Tell = silent) -> str:
    """What identifies the compiler, which is downloaded if necessary: the digest of its packages, or the output of
    gcc --version. Raises LabBroken."""
    return fetch(cache, COMPILER, tell).pin.digest if wanted() else compiler_version(f"{OVERRIDE} is {HOST}")


def compile_c(
    cache: Cache, folder: Path, sources: Sequence[str], flags: Sequence[str], output: Path, *, shared: bool, strip: bool
) -> None:
    """Make a static program or a ``shared`` library of ``sources``, names in ``folder``.

    The result contains no path of this host. Raises LabBroken.
    """
    mapped = (*flags, f"-ffile-prefix-map={folder}=.", *(("-fPIC",) if shared else ()))
    stripped = ("-s",) if strip else ()
    if wanted():
        _link(fetch(cache, COMPILER, silent), folder, sources, mapped, output, shared=shared, strip=stripped)
    else:
        kind = "-shared" if shared else "-static"
        words = (COMPILER_OF_HOST, *mapped, kind, *stripped, "-Wl,--build-id=none", "-o", str(output), *sources)
        run(words, cwd=folder, timeout=SECONDS, hint=REMEDY)


def _link(
    tools: Unpacked,
    folder: Path,
    sources: Sequence[str],
    flags: Sequence[str],
    output: Path,
    *,
    shared: bool,
    strip: tuple[str, ...],
) -> None:
    """gcc's own driver is not used: it would start the compiler proper by the host's loader."""
    libc, gcc = tools.intact / LIBRARIES, tools.intact / _GCC
    start, archives, end = [libc / "crti.o", gcc / "crtbeginS.o"], [str(libc / "libc.so.6")], gcc / "crtendS.o"
    if not shared:
        start, end = [libc / "crt1.o", libc / "crti.o", gcc / "crtbeginT.o"], gcc / "crtend.o"
        archives = [f"-L{gcc}", f"-L{libc}", "--start-group", "-lgcc", "-lgcc_eh", "-lc", "--end-group"]
    with TemporaryDirectory() as work:
        objects = [
            _object(tools, folder, source, flags, Path(work) / str(number)) for number, source in enumerate(sources)
        ]
        kind = "-shared" if shared else "-static"
        _call(tools, "ld", kind, *strip, "-o", output, *start, *objects, *archives, end, libc / "crtn.o")


def _object(tools: Unpacked, folder: Path, source: str, flags: Sequence[str], output: Path) -> Path:
    includes = (f"{_GCC}/include", "usr/include/x86_64-linux-gnu", "usr/include")
    system = [word for include in includes for word in ("-isystem", str(tools.intact / include))]
    text, compiled = output.with_suffix(".s"), output.with_suffix(".o")
    _call(tools, "cc1", *system, *flags, "-o", text, source, cwd=folder)
    _call(tools, "as", "-o", compiled, text)
    return compiled


def _call(tools: Unpacked, program: str, *words: str | Path, cwd: Path | None = None) -> None:
    run([str(tools.intact / program), *map(str, words)], cwd=cwd, timeout=SECONDS)


KIND = "program"
WARNINGS = ("-Wall", "-Wextra", "-Wshadow", "-Werror")
DIALECT = ("-std=c11", "-D_GNU_SOURCE", "-I.")
ROOT = Path(__file__).parent
_FLAGS = (*DIALECT, "-O2", *WARNINGS)
_LIBRARY = ("-std=gnu11", "-O2")


@dataclass(frozen=True)
class Program:
    """C ``files`` below ``ROOT``, and ``flags`` beside those of every program or plugin.

    The files are linked in their order. It determines addresses, and so the digests of base archives.
    """

    files: tuple[str, ...]
    flags: tuple[str, ...] = ()

    def sources(self) -> tuple[Path, ...]:
        """The files, then the headers beside them."""
        files = [ROOT / name for name in self.files]
        headers = (header for folder in sorted({file.parent for file in files}) for header in folder.glob("*.h"))
        return (*files, *sorted(headers))


def _in(folder: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{folder}/{name}.c" for name in names)


DISKD, RECEIVE, SAMPLER, PROCESS_SAMPLER = "diskd", "receive", "sampler", "process-sampler"
_SAMPLER = ("common/process.c", *_in("sampler", "load", "main", "series"))
PROGRAMS = {
    DISKD: Program(
        (
            *_in("diskd", "ahead", "config", "counters", "device", "level", "main", "model"),
            "common/process.c",
            *_in("diskd", "ring", "scsi", "share", "store"),
        )
    ),
    RECEIVE: Program(("receive/main.c",)),
    SAMPLER: Program(_SAMPLER),
    PROCESS_SAMPLER: Program(_SAMPLER, ("-DJOBS_ARE_PROCESSES",)),
}

PROFILE, EXECUTED, SHARING, SCHEDULE = "profile.so", "executed.so", "sharing.so", "schedule.so"
"""The plugins that observe what a guest executes; plugin.c and executed.c in native say how."""
_CALLS = _in("profile", "functions", "marker", "memory")
_PLUGINS = {
    PROFILE: Program((*_CALLS, *_in("profile", "plugin", "stack", "tree"))),
    EXECUTED: Program(_in("profile", "executed", "marker", "memory")),
    SHARING: Program((*_CALLS, *_in("sharing", "cpus", "lines", "locks", "plugin"))),
    SCHEDULE: Program((*_CALLS, *_in("sharing", "cpus", "schedule"))),
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

    ``loads`` are those whose windows it writes, in the guest's order. ``window_file`` is the name of the measured file
    that each window is (``{load}.lines``), empty where the boot has the results of any other. ``from_start``: it
    follows each task from the first call, so the guest has to boot.
    """

    library: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    words: tuple[str, ...] = ()
    loads: tuple[str, ...] = ()
    window_file: str = ""
    from_start: bool = False

    @property
    def argv(self) -> tuple[str, ...]:
        """QEMU's option, for the boot's folder."""
        return ("./" + self.library, *self.words, f"output={_WINDOW}") if self.library else ()

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
        if not self.window_file or record.outcome is not Outcome.BYE:
            return record
        windows = {self.window_file.format(load=load): data for load, data in self.windows(record.folder).items()}
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
    return _compile(cache, library, _PLUGINS[library].sources(), flags, shared=True)


def source_digest(library: str) -> str:
    """The sha256, in hex, of a plugin's sources: what it does to a guest depends on them alone."""
    return digest_bytes(b"".join(path.read_bytes() for path in _PLUGINS[library].sources()))


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
    key = digest_bytes(canonical([name, files, flags, shared, strip, compiler_identity(cache)]))

    def fill(into: Path) -> None:
        listed = [file for file in files if file.endswith(".c")]
        compile_c(cache, ROOT, listed, flags, into / name, shared=shared, strip=strip)

    return demand_intact(cache.entry(KIND, key, fill) / name)
