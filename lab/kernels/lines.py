# SPDX-License-Identifier: GPL-2.0-only
"""Lines of source of a kernel's instructions.

The files that the functions come from are compiled once more with line numbers, by the commands that kbuild stored. The
code must be the same, so an instruction has the same place in its function.
"""

import re
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lab.base.cache import Cache
from lab.base.errors import CannotJudge, LabBroken
from lab.base.process import run
from lab.base.units import Tell, silent
from lab.kernels import packaged, tree
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
    if (source := packaged.named_source(kernel.spec, cache, tell)) is not None:
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
