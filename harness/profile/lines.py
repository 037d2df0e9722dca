# SPDX-License-Identifier: GPL-2.0-only
"""Instructions by line of source, before and after.

A line is known by its file, its function and its text, so a line that only moved is the same line.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from harness.profile.differential import canonical, differential, source_costs
from harness.profile.mail import whole
from harness.profile.model import BLIND, Code, Context, Function, Profile
from lab.kernels.objects import SourceLine

_FUNCTIONS = 6
"""Functions whose lines are shown where none is named."""
_LINES, _TEXT = 12, 60
_NOWHERE = "no line number"


@dataclass(frozen=True)
class Side:
    """A profile, and the lines of its kernel's instructions by function and offset."""

    profile: Profile
    lines: Mapping[Code, Mapping[int, SourceLine]]


@dataclass(frozen=True, order=True)
class Line:
    """``inlined`` is the function that the line belongs to, where that is another one."""

    file: str
    inlined: str
    text: str


@dataclass(frozen=True)
class LineChange:
    """Instructions per I/O. ``number`` is of the last side that executes the line."""

    line: Line
    number: int
    before: Fraction
    after: Fraction

    @property
    def delta(self) -> Fraction:
        return self.after - self.before


def listed_functions(profiles: Sequence[Profile], name: str | None) -> list[Function]:
    """The functions of the kernel whose lines are shown: those called ``name``, else those that cost most, or that
    differ most.
    """
    if len(profiles) == 1:
        ranked = list(source_costs(*profiles))
    else:
        changes = differential(*profiles).changes
        ranked = [function for change in changes for function in (change.function, *change.inlined)]
    functions: dict[tuple[str, str], Function] = {}
    for function in ranked:
        if function.context is not Context.USER and name in (None, function.name):
            functions.setdefault((function.owner, function.name), function)
    return list(functions.values())[: None if name else _FUNCTIONS]


def line_changes(sides: Sequence[Side], owner: str, name: str) -> list[LineChange]:
    """The lines of a function in all of its contexts, largest difference first; a single side is the one after."""
    costs: dict[Line, list[Fraction]] = defaultdict(lambda: [Fraction(), Fraction()])
    numbers: dict[Line, int] = {}
    for place, side in enumerate(sides, 2 - len(sides)):
        for line, number, count in _counts(side, owner, name):
            costs[line][place] += side.profile.per_io(count)
            numbers[line] = number
    changes = [LineChange(line, numbers[line], *costs[line]) for line in costs]
    return sorted(changes, key=lambda change: (-abs(change.delta), change.line))


def code_of(profile: Profile, functions: Iterable[tuple[str, str]]) -> list[Code]:
    """The executed instructions of functions of the source, (owner, name), with the compiler's parts and clones."""
    wanted = set(functions)
    return [
        code
        for code in profile.code
        if (code.owner, canonical(Function(Context.KERNEL, code.owner, code.name)).name) in wanted
    ]


def _counts(side: Side, owner: str, name: str) -> Iterator[tuple[Line, int, int]]:
    for code in code_of(side.profile, [(owner, name)]):
        lines = side.lines.get(code, {})
        for offset, count in code.counts.items():
            at = lines.get(offset, SourceLine("", 0, name, _NOWHERE))
            yield Line(at.file, "" if at.function == name else at.function, at.text), at.number, count


def lines_text(sides: Sequence[Side], functions: Iterable[Function]) -> Iterator[str]:
    """The lines of each function; the deltas of a function add up to that in its heading."""
    for function in functions:
        changes = line_changes(sides, function.owner, function.name)
        if not changes:
            continue
        before, after = whole(sum(change.before for change in changes)), whole(sum(change.after for change in changes))
        single = len(sides) == 1
        spans = f"{after:,}" if single else f"{before:,} -> {after:,} ({after - before:+,})"
        yield f"{function.title}: {spans} instructions per I/O, by line"
        shown = [change for change in changes[:_LINES] if whole(change.delta)]
        yield from (_row(change, single=single) for change in shown)
        rest = after - before - sum(whole(change.delta) for change in shown)
        yield f"{rest:>+10,}  {len(changes) - len(shown)} other lines"
        yield ""
    yield "In all contexts. An inline function of a shared header counts for the line that calls it."
    yield BLIND


def _row(change: LineChange, *, single: bool) -> str:
    line = change.line
    where = f"{line.file}:{change.number}" if line.file else ""
    spans = "" if single else f"{whole(change.before):,} -> {whole(change.after):,}"
    text = line.text if len(line.text) <= _TEXT else f"{line.text[: _TEXT - 3]}..."
    inlined = f" [{line.inlined}]" if line.inlined else ""
    return f"{whole(change.delta):>+10,}  {spans:>15}  {where}{inlined}  {text}".rstrip()
