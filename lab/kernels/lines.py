# SPDX-License-Identifier: GPL-2.0-only
"""Lines of source of a kernel's instructions, told by addr2line from a second build with line numbers."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from lab.base.cache import Cache
from lab.base.errors import CannotJudge, LabBroken
from lab.base.process import run
from lab.base.tell import Tell
from lab.kernels import packaged, tree
from lab.kernels.model import Kernel
from lab.kernels.tree import KernelSource, LineTables
from lab.native import elf

_WHERE = re.compile(r"(?P<file>.+):(?P<line>\d+|\?)(?: \(discriminator \d+\))?")
_SHARED = re.compile(r"(?:include|arch/\w+/include)/")
_IMAGE = "vmlinux"


@dataclass(frozen=True)
class SourceLine:
    """``file`` is relative to the source, "" where the tables name none. ``function`` is one that was inlined, or the
    function itself."""

    file: str
    number: int
    function: str


def tables_of(kernel: Kernel, cache: Cache, tell: Tell) -> LineTables:
    """Raises CannotJudge for a kernel that was not built here from its source."""
    return tree.line_tables(_source(kernel, cache, tell), kernel, cache, tell=tell)


def _source(kernel: Kernel, cache: Cache, tell: Tell) -> KernelSource:
    kind, _, wanted = kernel.spec.partition(":")
    match kind:
        case "source":
            return packaged.source_of(wanted, cache, tell=tell)
        case "mutant":
            return packaged.mutant_source(wanted, cache, tell=tell)
        case "tree":
            return tree.read_source(wanted)
    raise CannotJudge(
        f"{kernel.release} is {kernel.spec}: only kernels that blklab builds have line numbers",
        remedy=f"profile a build, such as source:{kernel.version.series}, or leave --lines out",
    )


def source_lines(
    tables: LineTables, owner: str, function: str, address: int, offsets: Iterable[int]
) -> Mapping[int, SourceLine]:
    """The line of each instruction, by offset in the function; ``owner`` is "vmlinux" or a module.

    An inline function of a shared header counts for the line that calls it. Empty for a module's function whose name
    several have.
    """
    offsets = list(offsets)
    if owner == _IMAGE:
        words, base = [_IMAGE], address
    else:
        data = (tables.folder / f"{owner}.ko").read_bytes()
        placed = elf.places(data).get(function)
        if placed is None:
            return {}
        words, base = [f"{owner}.ko", "-j", placed.section], placed.offset
    asked = "".join(f"{base + offset:#x}\n" for offset in offsets)
    said = run(
        ["addr2line", "-a", "-f", "-i", "-e", *words],
        cwd=tables.folder,
        stdin=asked.encode(),
        hint="apt install binutils",
    ).stdout.decode(errors="replace")
    answers = re.split(r"^0x[0-9a-f]+\n", said, flags=re.MULTILINE)[1:]
    if len(answers) != len(offsets):
        raise LabBroken(f"addr2line answered {len(answers)} of {len(offsets)} addresses", remedy="report this as a bug")
    return {offset: _line(answer, tables) for offset, answer in zip(offsets, answers, strict=True)}


def _line(answer: str, tables: LineTables) -> SourceLine:
    frames = list(_frames(answer, tables))
    return next((frame for frame in frames if not _SHARED.match(frame.file)), frames[-1])


def _frames(answer: str, tables: LineTables) -> Iterator[SourceLine]:
    """Innermost first."""
    words = answer.splitlines()
    for function, where in zip(words[::2], words[1::2], strict=True):
        match = _WHERE.fullmatch(where)
        known = match is not None and match["line"].isdigit() and not match["file"].startswith("?")
        if match is None or not known:
            yield SourceLine("", 0, function)
            continue
        yield SourceLine(match["file"].removeprefix(f"{tables.source}/"), int(match["line"]), function)
