# SPDX-License-Identifier: GPL-2.0-only
"""Build a kernel out of tree, reproducibly, in a folder that the next build reuses.

Old trees need make variables and options with current compilers: ``FIXUPS`` has ranges of kernels and reasons.
"""

import os
import re
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from lab.base import host
from lab.base.cache import Cache
from lab.base.digest import canonical, digest_bytes
from lab.base.errors import CannotJudge, LabBroken
from lab.base.host import compiler_version
from lab.base.process import BOUND, progress, run, time_left
from lab.base.reading import read_json, real
from lab.base.units import Tell
from lab.kernels import kconfig
from lab.kernels.kconfig import WantedOption
from lab.kernels.model import EVERY_KERNEL, KernelRange, Release, parse_range
from lab.kernels.store import BZIMAGE, FIRST_PVH, read_config
from lab.kernels.store import KIND as KERNELS

LOCALVERSION = "-blklab"
FACTS = "build.json"
"""In the cache entry of a kernel that was built here."""
_EVERY = 15.0  # seconds between two lines about a build
_LONG = 100  # compiled objects, after which it is worth to count those that are left
_NICE, _JOBS = "BLKLAB_NICE", "BLKLAB_JOBS"
_BOOTED = "booted"  # in the folder of objects: vmlinux without symbols, which a guest boots
_FIXED = {
    "KBUILD_BUILD_TIMESTAMP": "Mon Jan  1 00:00:00 UTC 2024",
    "KBUILD_BUILD_USER": "blklab",
    "KBUILD_BUILD_HOST": "blklab",
    "KBUILD_BUILD_VERSION": "1",
    "SOURCE_DATE_EPOCH": "1704067200",
    "LC_ALL": "C",
    "TZ": "UTC",
}
# make reads its environment: any other variable could change a build.
_CARRIED = re.compile(r"PATH|HOME|TMPDIR|XDG_CACHE_HOME|CCACHE_\w+")
# ccache then reads a file's headers from gcc's list of them, instead of running the preprocessor once more before each
# compilation: an object that it does not have takes 0.8 times the CPU time.
_CCACHE = {"CCACHE_DEPEND": "1"}
_REMEDY = "scripts/host-packages --build"
_SAYS_WHERE = re.compile(r"^(?P<file>[^\s:]+):[0-9]+:(?:[0-9]+:)? (?:fatal )?error: ", re.MULTILINE)
_FAILURES = (
    _SAYS_WHERE,
    re.compile(r"^ERROR: modpost: ", re.MULTILINE),
    re.compile(r"(?:undefined reference|multiple definition)", re.MULTILINE),
    re.compile(r"^make\[?[0-9]*\]?: \*\*\* .*", re.MULTILINE),
    re.compile(r"error", re.MULTILINE | re.IGNORECASE),
)
_COMPILES = re.compile(rb"^.* -c -o \S+\.o .*$", re.MULTILINE)
# None of these is a property of the source, so the commit must not be skipped for them.
_HOST_FAILURES = re.compile(
    r"No space left on device|Disk quota exceeded|Cannot allocate memory|virtual memory exhausted|"
    r"Too many open files|Killed signal terminated program|terminated by signal|command not found"
)


@dataclass(frozen=True)
class Fixup:
    """Applies to ``kernels`` built by a compiler from ``compiler`` on (0: any).

    ``variables`` are added to make's, ``options`` are lines of a configuration fragment.
    """

    because: str
    kernels: KernelRange = EVERY_KERNEL
    compiler: int = 0
    variables: tuple[tuple[str, str], ...] = ()
    options: tuple[str, ...] = ()


FIXUPS = (
    Fixup(
        "CONFIG_WERROR came with 5.15 (3fe617ccafd6); older trees name -Werror in single Makefiles",
        kernels=parse_range("< 5.15"),
        variables=(("KCFLAGS", "-Wno-error"),),
    ),
    Fixup(
        "gcc 12 finds a use after free in tools/lib/subcmd, which is built with -Werror (52a9dab6d892, 5.17; "
        "5.10.262 has it and builds without this row too)",
        kernels=parse_range("< 5.17"),
        compiler=12,
        variables=(("WERROR", "0"),),
    ),
    Fixup(
        "objtool up to 5.10 refuses objects without a symbol table, as binutils 2.36 and later write them "
        "(1d489151e9f9, 5.11; 5.10.262 has it, and gets the same unwinder as all of 5.10); nothing that the lab "
        "needs is lost by it",
        kernels=parse_range("< 5.11"),
        options=("CONFIG_UNWINDER_FRAME_POINTER=y", "# CONFIG_UNWINDER_ORC is not set"),
    ),
    Fixup(
        "CONFIG_RETPOLINE selects CONFIG_STACK_VALIDATION, whose objtool stops at arch/x86/entry/thunk_64.o of 4.19.78 "
        '("missing symbol table", binutils 2.40); indirect calls cost less without retpolines, so cpu.per_io is '
        "not compared with that of later kernels",
        kernels=parse_range("< 5.10"),
        options=("# CONFIG_RETPOLINE is not set", "# CONFIG_STACK_VALIDATION is not set"),
    ),
    Fixup(
        "gcc 15 takes C23 for its default dialect, in which bool and false are key words; the boot code and "
        "the EFI stub name no dialect before 6.14 (b3bee1e7c3f2, ee2ab467bddf)",
        kernels=parse_range("< 6.14"),
        compiler=15,
        variables=(("CC_DIALECT", "-std=gnu11"),),
    ),
)


def fixups_for(release: Release, compiler: int, table: Iterable[Fixup] = FIXUPS) -> tuple[Fixup, ...]:
    """The rows that a kernel of that release needs under a compiler of that major version."""
    return tuple(row for row in table if row.kernels.has(release) and compiler >= row.compiler)


@dataclass(frozen=True)
class Toolchain:
    """``identity`` is what compiler and linker say of themselves, on a line each."""

    identity: str

    @property
    def name(self) -> str:
        return self.identity.partition("\n")[0]

    @property
    def major(self) -> int:
        """The compiler's major version, 0 where there is none to be seen."""
        match = re.search(r"\s([0-9]+)\.[0-9]+", self.name)
        return int(match[1]) if match else 0


@dataclass(frozen=True)
class Recipe:
    """Everything besides the source that a build depends on. ``wanted`` are the options that ``release`` has.

    ``own`` is the text of a configuration of the user's, to which only what they need is added; empty for the lab's.
    ``debug``: with the kernel's own checks of kconfigs/debug.
    """

    release: Release
    wanted: tuple[WantedOption, ...]
    fixups: tuple[Fixup, ...]
    toolchain: Toolchain
    own: str = ""
    debug: bool = False

    @property
    def digest(self) -> str:
        """Identifies configuration, fixups, compiler and what is fixed here: sha256 in hex."""
        asked = [[option.option, option.value, option.names] for option in self.wanted]
        rows = [[fixup.variables, fixup.options] for fixup in self.fixups]
        own = [self.own] if self.own else []
        return digest_bytes(canonical([asked, rows, self.toolchain.identity, _FIXED, LOCALVERSION, *own]))

    @property
    def family(self) -> str:
        """Identifies builds that use each other's objects: other compilers and configurations have none in common."""
        return digest_bytes(f"{self.toolchain.identity}\n{self.own}{'debug' * self.debug}".encode())


@dataclass(frozen=True)
class Output:
    """A finished build in its folder ``objects``; ``seconds`` of host time that it took.

    ``compiled`` are the objects of a build from scratch, 0 for one that used earlier ones. ``image`` is what a guest
    boots.
    """

    objects: Path
    seconds: float
    compiled: int
    image: Path


def make_words(folder: Path) -> list[str]:
    """make in ``folder``, with as many jobs and as polite as the user says."""
    polite = ("nice", "-n", str(niceness)) if (niceness := host.number_of(_NICE, 0, 19)) else ()
    return [*BOUND, *polite, "make", "-C", str(folder), f"-j{host.number_of(_JOBS, 1) or host.usable_cores()}"]


def toolchain() -> Toolchain:
    """The host's tools. Raises LabBroken with the line to type when one that builds need is missing."""
    missing = host.missing_needs(host.BUILD_NEEDS)
    if missing:
        line = host.install_line(missing)
        purposes = ", ".join(f"{need.program} (to {need.purpose})" for need in missing)
        raise LabBroken(f"kernels cannot be built here without {purposes}", remedy=f"{_REMEDY}, or as root: {line}")
    compiler = compiler_version("kernels are built with it")
    linker = run(["ld", "--version"], hint="apt-get install binutils").stdout.decode(errors="replace")
    return Toolchain("\n".join(said.partition("\n")[0] for said in (compiler, linker)))


def recipe(
    release: Release, tools: Toolchain, further: Sequence[str] = (), config: str = "", *, debug: bool = False
) -> Recipe:
    """How a kernel of that release is built, with ``further`` options (without CONFIG_) and those of ``debug`` switched
    on, of the lab's configuration or of the text ``config``.

    Raises InputErrors for fragments that cannot be read.
    """
    listed = kconfig.read_fragments(kconfig.fragments(debug=debug))
    own = [f"CONFIG_{name}" for name in further]
    listed = tuple(option for option in listed if option.option not in own)
    listed += tuple(WantedOption(name, "y", "the mutant's Options", (name,)) for name in own)
    wanted = tuple(option for option in listed if option.kernels.has(release))
    return Recipe(release, wanted, fixups_for(release, tools.major, FIXUPS), tools, config, debug)


class Builder:
    """Builds ``source`` in ``objects``, which keeps what can be used again by the next build."""

    def __init__(self, source: Path, objects: Path, log: Path, how: Recipe, tell: Tell) -> None:
        self._source, self._objects, self._log, self._how, self._tell = source, objects, log, how, tell
        self._targets = ("vmlinux" if how.release >= FIRST_PVH else "bzImage", "modules")
        self._expected = 0
        self._said: list[str] = []
        self._ccache = dict(_CCACHE)

    def build(self, name: str, *, configured: bool = False) -> Output:
        """``configured``: the folder has the configuration that this build would get.

        Raises CannotJudge when the source cannot be built, with the first error and the log's path.
        """
        started, began = time.monotonic(), time.time()
        self._log.parent.mkdir(parents=True, exist_ok=True)
        used = (self._objects / "vmlinux").exists()
        self._tell(f"building {name}" + ("" if used else ": a first build takes minutes, the next ones seconds"))
        if not (used and configured):
            self._configure()
        with progress(self._tell, partial(self._line, began), _EVERY):
            failed = self._make(*self._targets)
        if failed and used and not self._is_of_source(failed):
            # Remains of an older build may be the cause, or what ccache kept of one that was killed.
            self._tell(f"building {name} again from scratch")
            self._ccache["CCACHE_RECACHE"] = "1"
            shutil.rmtree(self._objects)
            self._configure()
            failed = self._make(*self._targets)
        if failed:
            raise self._failure(name, failed)
        image = self._objects / BZIMAGE
        if self._how.release >= FIRST_PVH:
            image = self._objects / _BOOTED
            # As for a bzImage: arch/x86/boot/compressed/Makefile.
            run(["objcopy", "-R", ".comment", "-S", str(self._objects / "vmlinux"), str(image)], hint=_REMEDY)
        return Output(self._objects, time.monotonic() - started, 0 if used else self._compiled(0), image)

    def _line(self, began: float, seconds: float) -> str:
        done = self._compiled(began)
        # Counting takes 5 s of CPU time. Before kbuild has read .config, this make would do so too.
        # make -n ends early where it lacks what make has not generated yet.
        if done >= self._expected + _LONG and self._has_begun():
            said = run(self._argv("-n", *self._targets), env=self._environment(), accept=range(256), hint=_REMEDY)
            self._expected = done + len(_COMPILES.findall(said.stdout))
        # What make generates meanwhile may bring more than it told of.
        of = f" of {self._expected:,}" if self._expected > done else ""
        return f"compiled {done:,}{of} objects{time_left(done, self._expected, seconds)}"

    def _has_begun(self) -> bool:
        read, config = self._objects / "include/config/auto.conf", self._objects / ".config"
        return read.exists() and read.stat().st_mtime >= config.stat().st_mtime

    def _compiled(self, since: float) -> int:
        """Objects that were written since. make removes files and folders meanwhile."""
        done = 0
        for folder, _, names in os.walk(self._objects):
            for path in (Path(folder, name) for name in names if name.endswith(".o")):
                with suppress(FileNotFoundError):
                    done += path.stat().st_mtime >= since
        return done

    def _configure(self) -> None:
        self._objects.mkdir(exist_ok=True)
        fragment, config, own = self._objects / "lab.config", self._objects / ".config", self._how.own
        before: Mapping[str, str] = {}
        if own:
            config.write_text(own)
            self._demand("olddefconfig")
            before = read_config(config)
        wanted = self._how.wanted
        lines = kconfig.own_fragment(wanted, before) if own else [option.line for option in wanted]
        lines += [line for fixup in self._how.fixups for line in fixup.options]
        fragment.write_text("".join(f"{line}\n" for line in lines))
        if own:
            self._merge(config, fragment)
            self._demand("olddefconfig")
        else:
            self._demand(f"KCONFIG_ALLCONFIG={fragment}", "allnoconfig")
        after = read_config(config)
        if own:
            self._tell(f"your configuration, {kconfig.describe_own(before, after)}")
            wanted = kconfig.needs(wanted, after)
        kconfig.demand_survivors(wanted, after, self._how.release, self._source)

    def _merge(self, config: Path, fragment: Path) -> None:
        merge = self._source / "scripts/kconfig/merge_config.sh"
        if not merge.is_file():
            raise CannotJudge(f"this source has no {merge.relative_to(self._source)}", remedy="it is too old")
        argv = ["sh", str(merge), "-m", "-O", str(self._objects), str(config), str(fragment)]
        run(argv, cwd=self._objects, env=self._environment(), hint=_REMEDY)

    def _make(self, *targets: str) -> str:
        """The output of a make that failed, empty on success. All output is appended to the log."""
        done = run(self._argv(*targets), env=self._environment(), accept=range(256), hint=_REMEDY)
        said = (done.stdout + done.stderr).decode(errors="replace")
        self._said.append(f"$ make {' '.join(targets)}\n{said}")
        self._log.write_text("\n".join(self._said))
        if not done.returncode:
            return ""
        if match := _HOST_FAILURES.search(said):
            raise LabBroken(
                f"the build failed because of this host: {_line_at(said, match.start())}",
                remedy=f"see {self._log}; disk, memory and installed programs are in blklab doctor",
            )
        return done.stderr.decode(errors="replace") or said or f"make ended with {done.returncode}"

    def _argv(self, *targets: str) -> list[str]:
        variables = {"O": str(self._objects), "ARCH": "x86_64", "LOCALVERSION": LOCALVERSION}
        variables |= {name: value for fixup in self._how.fixups for name, value in fixup.variables}
        dialect = variables.pop("CC_DIALECT", "")
        variables["CC"] = " ".join(filter(None, ("ccache" if shutil.which("ccache") else "", "gcc", dialect)))
        words = [f"{name}={value}" for name, value in variables.items()]
        return [*make_words(self._source), *words, *targets]

    def _environment(self) -> Mapping[str, str]:
        carried = {name: value for name, value in os.environ.items() if _CARRIED.fullmatch(name)}
        return {**self._ccache, **carried, "PATH": host.search_path(), **_FIXED}

    def _demand(self, *words: str) -> None:
        if failed := self._make(*words):
            raise self._failure(words[-1], failed)

    def _failure(self, name: str, said: str) -> CannotJudge:
        kept = self._log.with_suffix(".failed.log")
        shutil.copyfile(self._log, kept)
        return CannotJudge(
            f"{name} does not build: {first_error(said).replace(f'{self._source}/', '')}",
            remedy=f"see {kept}; a tree that is too old for {self._how.toolchain.name} may need a row in "
            "FIXUPS in lab/kernels/build.py",
        )

    def _is_of_source(self, said: str) -> bool:
        """Whether the compiler pointed into a file of the source, not into one that a build generates."""
        match = _SAYS_WHERE.search(said)
        return match is not None and real(self._objects / Path(match["file"])).is_relative_to(self._source)


def first_error(said: str) -> str:
    """The line that best explains why a build failed: the compiler's first error, else make's."""
    for pattern in _FAILURES:
        if match := pattern.search(said):
            return _line_at(said, match.start())
    return (said.strip().splitlines() or ["make said nothing"])[-1]


def _line_at(said: str, offset: int) -> str:
    return said[said.rfind("\n", 0, offset) + 1 :].partition("\n")[0].strip()


def facts(path: Path) -> Mapping[str, object]:
    """What a build.json says, empty where there is none."""
    try:
        document = read_json(path)
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


@dataclass(frozen=True)
class Builds:
    """Medians of the kernels in the cache that were built here without debugging: seconds of a first and of a further
    build, 0 without one.
    """

    first: float
    further: float


def builds(cache: Cache) -> Builds:
    known = [facts(path) for path in sorted((cache.root / KERNELS).glob(f"*/{FACTS}"))]
    first, further = (
        [row for row in known if bool(row.get("compiled")) is wanted and not row.get("debug")]
        for wanted in (True, False)
    )
    # Builds of earlier versions did not say which they are.
    further = [row for row in further if "compiled" in row]
    return Builds(_median(first, "seconds"), _median(further, "seconds"))


def _median(documents: Sequence[Mapping[str, object]], key: str) -> float:
    numbers = [value for row in documents if isinstance(value := row.get(key), int | float)]
    return median(numbers) if numbers else 0.0
