# SPDX-License-Identifier: GPL-2.0-only
"""The C compiler for the guest's programs and for what QEMU loads: by default one of the lab's own, so that they are
the same bytes on every host.
"""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from lab.base.cache import Cache
from lab.base.host import COMPILER as COMPILER_OF_HOST
from lab.base.host import REMEDY, SECONDS, compiler_version
from lab.base.process import run
from lab.base.units import Tell, silent
from lab.packages.tools import HOST, LIBRARIES, OVERRIDE, Tools, Toolset, fetch, wanted

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


def version(cache: Cache) -> str:
    """What identifies the compiler: the digest of its packages, or the output of gcc --version. Raises LabBroken."""
    return fetch(cache, COMPILER, silent).pin.digest if wanted() else compiler_version(f"{OVERRIDE} is {HOST}")


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


def prepare(cache: Cache, tell: Tell) -> None:
    """Download the compiler if it is not in the cache and will be used. Raises LabBroken."""
    if wanted():
        fetch(cache, COMPILER, tell)


def _link(
    tools: Tools,
    folder: Path,
    sources: Sequence[str],
    flags: Sequence[str],
    output: Path,
    *,
    shared: bool,
    strip: tuple[str, ...],
) -> None:
    """gcc's own driver is not used: it would start the compiler proper by the host's loader."""
    libc, gcc = tools.folder / LIBRARIES, tools.folder / _GCC
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


def _object(tools: Tools, folder: Path, source: str, flags: Sequence[str], output: Path) -> Path:
    includes = (f"{_GCC}/include", "usr/include/x86_64-linux-gnu", "usr/include")
    system = [word for include in includes for word in ("-isystem", str(tools.folder / include))]
    text, compiled = output.with_suffix(".s"), output.with_suffix(".o")
    _call(tools, "cc1", *system, *flags, "-o", text, source, cwd=folder)
    _call(tools, "as", "-o", compiled, text)
    return compiled


def _call(tools: Tools, program: str, *words: str | Path, cwd: Path | None = None) -> None:
    run([str(tools.folder / program), *map(str, words)], cwd=cwd, timeout=SECONDS)
