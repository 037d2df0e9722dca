# SPDX-License-Identifier: GPL-2.0-only
"""What the objects of a build say: lines of source of instructions, and functions that two builds have otherwise.

For lines, the files that the functions come from are compiled once more with line numbers, by the commands that kbuild
stored. The code must be the same, so an instruction has the same place in its function.

Of two builds of one configuration in the same folder, instructions are compared with the names of what they refer to,
so that a function that only moved is the same. That finds what a changed struct, macro or inline function changes
wherever it is compiled in.
"""

import re
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from filecmp import cmp
from pathlib import Path

from lab.base.cache import Cache
from lab.base.errors import CannotJudge, LabBroken
from lab.base.process import run
from lab.base.units import Tell, silent
from lab.kernels import tree
from lab.kernels.model import Kernel
from lab.kernels.tree import KernelSource
from lab.native import elf

_IMAGE = "vmlinux"
# scripts/Kbuild.include: savedcmd_ since 6.2 (92215e7a801d); "$" and "#" are escaped for make.
_COMMAND = re.compile(r"(?:saved)?cmd_\S+ := (?P<words>.* -c -o (?P<object>\S+) .*)")
_MODULE = re.compile(r"KBUILD_MODNAME=\S*?\"(?P<name>\w+)\"")
_WHERE = re.compile(r"(?P<file>.+):(?P<line>[0-9]+)(?: \(discriminator [0-9]+\))?")
_SHARED = re.compile(r"(?:include|arch/\w+/include)/")
DEBUG = "-g -gdwarf-4 -gno-variable-location-views"
"""What ``Fields`` needs."""
Fields = Callable[[Path, str, Collection[int]], Mapping[int, str]]
"""Of an object, a function and offsets of its instructions: the fields that these use (``lab.kernels.fields``)."""


@dataclass(frozen=True)
class Wanted:
    """A function of a kernel, whose ``owner`` is "vmlinux" or a module, and offsets of instructions in it."""

    owner: str
    function: str
    offsets: Collection[int]


@dataclass(frozen=True)
class SourceLine:
    """``file`` is relative to the source. ``function`` is the one that was inlined, or the function itself. ``field``
    is what the instruction uses, empty where that is not known or was not asked for.
    """

    file: str
    number: int
    function: str
    text: str
    field: str = ""


def source_of(kernel: Kernel, cache: Cache, tell: Tell) -> KernelSource:
    """Raises CannotJudge for a kernel that was not built here from its source."""
    if (source := tree.named_source(kernel.spec, cache, tell)) is not None:
        return source
    raise CannotJudge(
        f"{kernel.release} is {kernel.spec}: only kernels that blklab builds have line numbers",
        remedy=f"measure a build, such as source:{kernel.version.series}",
    )


def source_lines(
    kernel: Kernel,
    source: KernelSource,
    wanted: Sequence[Wanted],
    cache: Cache,
    *,
    fields: Fields | None = None,
    tell: Tell = silent,
) -> list[Mapping[int, SourceLine]]:
    """For each function the line of its instructions by offset, without those that have none.

    An inline function of a shared header counts for the line that calls it. Where several files have a static function
    of that name, there are no lines. Raises what ``tree.in_objects`` raises.
    """
    return tree.in_objects(
        kernel, source, cache, lambda objects, files: _Lines(objects, files, fields).find(wanted), tell=tell
    )


@dataclass(frozen=True)
class _Unit:
    """A file of the source: its object, the module that it belongs to ("vmlinux"), and the command that compiles it."""

    path: str
    owner: str
    command: str

    @classmethod
    def stored(cls, text: str) -> "_Unit | None":
        """The unit of a file .NAME.o.cmd, None for one of several objects."""
        match = _COMMAND.match(text)
        if match is None:
            return None
        words = match["words"].replace("$(pound)", "#").replace("$$", "$")
        module = _MODULE.search(words) if " -DMODULE " in words else None
        return cls(match["object"], module["name"] if module else _IMAGE, words)

    def with_lines(self, into: Path, debug: str) -> str:
        # The list of headers is kbuild's. objtool changes the object after it was compiled.
        command = re.sub(r" -Wp,-MM?D,\S+", "", self.command).replace(" -c -o ", f" {debug} -c -o ")
        return re.sub(rf"(?<=\s){re.escape(self.path)}(?=\s|;|$)", str(into), command)


class _Lines:
    def __init__(self, objects: Path, source: Path, fields: Fields | None) -> None:
        self._objects, self._source, self._fields = objects, source, fields
        self._texts: dict[str, list[str]] = {}

    def find(self, wanted: Sequence[Wanted]) -> list[Mapping[int, SourceLine]]:
        units = self._units(wanted)
        with tempfile.TemporaryDirectory(prefix="blklab-lines-") as folder:
            paths = {
                unit: Path(folder) / f"{number}.o" for number, unit in enumerate(sorted(set(units.values()), key=str))
            }
            for unit, path in paths.items():
                self._compile(unit, path)
            return [
                self._of(place, paths[units[index]]) if index in units else {} for index, place in enumerate(wanted)
            ]

    def _units(self, wanted: Sequence[Wanted]) -> Mapping[int, _Unit]:
        """The file that each function comes from, by its place in ``wanted``, without those that several files have."""
        owners: dict[int, list[_Unit]] = {}
        for path in sorted(self._objects.rglob(".*.o.cmd")):
            unit = _Unit.stored(path.read_text(errors="replace"))
            if unit is None or not (self._objects / unit.path).is_file():
                continue
            data = (self._objects / unit.path).read_bytes()
            for index, function in enumerate(wanted):
                if (
                    unit.owner == function.owner
                    and f"{function.function}\0".encode() in data
                    and elf.function_in(data, function.function)
                ):
                    owners.setdefault(index, []).append(unit)
        return {index: units[0] for index, units in owners.items() if len(units) == 1}

    def _compile(self, unit: _Unit, into: Path) -> None:
        command = unit.with_lines(into, DEBUG if self._fields else "-g1")
        run(["sh", "-c", command], cwd=self._objects, hint="scripts/host-packages --build")
        if elf.code(into.read_bytes()) != elf.code((self._objects / unit.path).read_bytes()):
            raise LabBroken(
                f"{unit.path} has other code when compiled with line numbers", remedy="report this as a bug"
            )

    def _of(self, wanted: Wanted, path: Path) -> Mapping[int, SourceLine]:
        placed = elf.function_in(path.read_bytes(), wanted.function)
        if placed is None:
            return {}
        offsets = sorted(wanted.offsets)
        said = run(
            ["addr2line", "-a", "-f", "-i", "-e", str(path), "-j", placed.section],
            stdin="".join(f"{placed.offset + offset:#x}\n" for offset in offsets).encode(),
            hint="apt-get install binutils",
        ).stdout.decode(errors="replace")
        answers = re.split(r"^0x[0-9a-f]+\n", said, flags=re.MULTILINE)[1:]
        lines = (self._line(answer) for answer in answers)
        known = self._fields(path, wanted.function, offsets) if self._fields else {}
        both = zip(offsets, lines, strict=True)
        return {offset: replace(line, field=known.get(offset, "")) for offset, line in both if line}

    def _line(self, answer: str) -> SourceLine | None:
        frames = list(self._frames(answer))
        return next((frame for frame in frames if not _SHARED.match(frame.file)), frames[-1] if frames else None)

    def _frames(self, answer: str) -> Iterator[SourceLine]:
        """Innermost first."""
        words = answer.splitlines()
        for function, where in zip(words[::2], words[1::2], strict=True):
            match = _WHERE.fullmatch(where)
            if match is None:
                continue
            file, number = match["file"].removeprefix(f"{self._source}/"), int(match["line"])
            yield SourceLine(file, number, function, self._text(file, number))

    def _text(self, file: str, number: int) -> str:
        if file not in self._texts:
            # A generated file is below the objects.
            path = next((path for path in (self._source / file, self._objects / file) if path.is_file()), None)
            self._texts[file] = path.read_text(errors="replace").splitlines() if path else []
        lines = self._texts[file]
        return lines[number - 1].strip() if number <= len(lines) else ""


_HEAD = re.compile(r"^<(?:__pfx_)?(?P<name>[\w.]+)>:$")
_PADDING = re.compile(r"\b(?:nop\w?|int3|xchg\s+%ax,%ax|data16|cs nop\w)\b")
# A local symbol is referred to by its place in its section, which moves.
_PLACE = re.compile(r"(\s\.(?:L|[a-km-z_][\w.]*))(?:C?[0-9]+)?(?:[+-]0x[0-9a-f]+)?$")
_TOOLS = ("scripts", "tools")


def keep_objects(objects: Path, into: Path) -> None:
    """Copy the objects of a build, which the next build in that folder replaces."""
    for path in _objects(objects):
        target = into / path.relative_to(objects)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)


def changed_functions(before: Path, after: Path) -> Mapping[str, str]:
    """The functions that differ or are in one of the builds only, by name, with the object that has them.

    Names are those of the source, without what gcc appends to a copy. Raises CannotJudge for binutils without
    --no-addresses.
    """
    differing_in: dict[str, str] = {}
    olds, news = ({path.relative_to(folder) for path in _objects(folder)} for folder in (before, after))
    for name in sorted(olds | news):
        old, new = (folder / name if name in there else None for folder, there in ((before, olds), (after, news)))
        if old and new and cmp(old, new, shallow=False):
            continue
        was, now = (_functions(path) if path else {} for path in (old, new))
        differing = (function for function in was.keys() | now.keys() if was.get(function) != now.get(function))
        differing_in |= dict.fromkeys((function.partition(".")[0] for function in differing), str(name))
    return differing_in


def _objects(folder: Path) -> Iterator[Path]:
    """Those of one source file each, or several; vmlinux.o repeats them all."""
    for path in folder.rglob("*.o"):
        inside = path.relative_to(folder)
        if inside.parts[0] not in (*_TOOLS, "vmlinux.o") and not path.name.endswith(".mod.o"):
            yield path


def _functions(path: Path) -> Mapping[str, str]:
    """The instructions of each function, as text."""
    argv = ["objdump", "-dr", "--no-addresses", "--no-show-raw-insn", str(path)]
    done = run(argv, accept=(0, 1), hint="apt-get install binutils")
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise CannotJudge(f"{path.name} cannot be disassembled: {said}", remedy="binutils 2.36 or later is needed")
    code: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in done.stdout.decode(errors="replace").splitlines():
        if match := _HEAD.match(line):
            lines = code.setdefault(match["name"], [])
        elif line.startswith("\t"):
            lines.append(_PLACE.sub(r"\1", line))
    for own in code.values():
        while own and _PADDING.search(own[-1]):
            own.pop()
    return {name: "\n".join(own) for name, own in code.items()}
