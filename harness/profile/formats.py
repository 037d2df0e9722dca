# SPDX-License-Identifier: GPL-2.0-only
"""Profiles in the formats of other tools (callgrind, speedscope, folded stacks), by line of source, and ``--out``.

A line of source is known by its file, its function and its text, so a line that only moved is the same line.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from harness.base.files import write_atomic, writing
from harness.profile.model import BLIND, Code, Context, Cost, Function, Profile, canonical, differential, source_costs
from harness.profile.report import differential_lines, differential_page, profile_lines, profile_page
from lab.kernels.objects import SourceLine

CallPath = tuple[Function, ...]
PER = 1000
"""I/Os to which folded stacks of two profiles refer, for their counts must be whole numbers."""


def folded_stacks(profile: Profile) -> str:
    """flamegraph.pl's lines "FRAME;FRAME;... INSTRUCTIONS" of the window, outermost first.

    The format has no comments, so the first line is a note that counts nothing.
    """
    counts = _paths(profile)
    return f"{BLIND} 0\n" + "".join(f"{_fold(path)} {counts[path]}\n" for path in sorted(counts))


def differential_stacks(before: Profile, after: Profile) -> str:
    """The lines "FRAME;... BEFORE AFTER" that difffolded.pl writes, instructions per 1,000 I/Os, rounded."""
    old, new = (
        {path: round(profile.per_io(PER * count)) for path, count in _paths(profile).items()}
        for profile in (before, after)
    )
    rows = ((path, old.get(path, 0), new.get(path, 0)) for path in sorted(old.keys() | new.keys()))
    lines = (f"{_fold(path)} {was} {now}\n" for path, was, now in rows if was or now)
    return f"{BLIND} 0 0\n{''.join(lines)}"


def _paths(profile: Profile) -> Mapping[CallPath, int]:
    counts = Counter[CallPath]()
    for stack, node in zip(profile.stacks, profile.nodes, strict=True):
        counts[stack] += node.instructions
    return +counts


def _fold(path: CallPath) -> str:
    return ";".join((str(path[0].context), *(function.title for function in path)))


def speedscope(profile: Profile) -> str:
    """speedscope's JSON (https://www.speedscope.app/file-format-schema.json): a sample for each call path."""
    functions = sorted(profile.costs)
    numbers = {function: number for number, function in enumerate(functions)}
    paths = sorted(_paths(profile).items())
    name = f"{profile.head.scenario} {profile.head.cell} {profile.head.release}, instructions. {BLIND}"
    return json.dumps(
        {
            "$schema": "https://www.speedscope.app/file-format-schema.json",
            "exporter": "blklab profile",
            "name": name,
            "shared": {"frames": [{"name": function.title, "file": _file(function)} for function in functions]},
            "profiles": [
                {
                    "type": "sampled",
                    "name": name,
                    "unit": "none",
                    "startValue": 0,
                    "endValue": sum(count for _, count in paths),
                    "samples": [[numbers[function] for function in path] for path, _ in paths],
                    "weights": [count for _, count in paths],
                }
            ],
        },
        indent=1,
    )


def callgrind(profile: Profile) -> str:
    """A callgrind.out file (Callgrind Format Specification, version 1) with exact inclusive costs in the kernel.

    The file is the context (user, kernel, interrupt, idle) with the module or program, which is the object too.
    """
    head = profile.head
    lines = (
        "# callgrind format",
        "version: 1",
        "creator: blklab profile",
        f"cmd: {head.scenario} {head.cell} seed {head.seed} on {head.release}",
        f"desc: I/Os: {float(profile.ios):.3f}",
        f"desc: Note: {BLIND}",
        "positions: line",
        "events: Ir",
        f"summary: {profile.total}",
    )
    return "\n".join((*lines, *_callgrind_functions(profile), ""))


def _callgrind_functions(profile: Profile) -> Iterator[str]:
    calls: dict[Function, list[tuple[Function, Cost]]] = defaultdict(list)
    for (caller, callee), cost in sorted(profile.edges.items()):
        calls[caller].append((callee, cost))
    for function in sorted(profile.costs):
        yield from ("", f"ob={function.owner}", f"fl={_file(function)}", f"fn={function.name}")
        yield f"0 {profile.costs[function].instructions}"
        for callee, cost in calls[function]:
            if cost.calls:
                yield from (f"cob={callee.owner}", f"cfi={_file(callee)}", f"cfn={callee.name}")
                yield from (f"calls={cost.calls} 0", f"0 {cost.instructions}")


def _file(function: Function) -> str:
    return f"{function.context}/{function.owner}"


def write_profiles(folder: Path, profiles: Sequence[Profile], *, by_line: Sequence[str] = ()) -> tuple[Path, ...]:
    """One profile, or two and their differential; ``by_line`` are the lines of lines.txt, if any.

    Raises LabBroken when the folder cannot be written.
    """
    if len(profiles) == 1:
        texts = {"profile.txt": _text(profile_lines(profiles[0])), "profile.html": profile_page(profiles[0])}
        prefixes: tuple[str, ...] = ("",)
    else:
        texts = {
            "differential.txt": _text(differential_lines(differential(*profiles))),
            "differential.html": differential_page(*profiles),
            "differential.folded": differential_stacks(*profiles),
        }
        prefixes = ("before.", "after.")
    for prefix, profile in zip(prefixes, profiles, strict=True):
        texts[f"{prefix}callgrind.out"] = callgrind(profile)
        texts[f"{prefix}speedscope.json"] = speedscope(profile)
        texts[f"{prefix}folded"] = folded_stacks(profile)
    texts |= {"lines.txt": _text(by_line)} if by_line else {}
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        write_atomic(folder / name, text.encode())
    return tuple(folder / name for name in texts)


def _text(lines: Iterable[str]) -> str:
    return "\n".join((*lines, ""))


_FUNCTIONS = 6
"""Functions whose lines are shown where none is named."""
_MOST_LINES, _TEXT = 12, 60
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


def executed_code(profile: Profile, functions: Iterable[tuple[str, str]]) -> list[Code]:
    """The executed instructions of functions of the source, (owner, name), with the compiler's parts and clones."""
    wanted = set(functions)
    return [
        code
        for code in profile.code
        if (code.owner, canonical(Function(Context.KERNEL, code.owner, code.name)).name) in wanted
    ]


def _counts(side: Side, owner: str, name: str) -> Iterator[tuple[Line, int, int]]:
    for code in executed_code(side.profile, [(owner, name)]):
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
        before, after = round(sum(change.before for change in changes)), round(sum(change.after for change in changes))
        single = len(sides) == 1
        spans = f"{after:,}" if single else f"{before:,} -> {after:,} ({after - before:+,})"
        yield f"{function.title}: {spans} instructions per I/O, by line"
        shown = [change for change in changes[:_MOST_LINES] if round(change.delta)]
        yield from (_row(change, single=single) for change in shown)
        rest = after - before - sum(round(change.delta) for change in shown)
        yield f"{rest:>+10,}  {len(changes) - len(shown)} other lines"
        yield ""
    yield "In all contexts. An inline function of a shared header counts for the line that calls it."
    yield BLIND


def _row(change: LineChange, *, single: bool) -> str:
    line = change.line
    where = f"{line.file}:{change.number}" if line.file else ""
    spans = "" if single else f"{round(change.before):,} -> {round(change.after):,}"
    text = line.text if len(line.text) <= _TEXT else f"{line.text[: _TEXT - 3]}..."
    inlined = f" [{line.inlined}]" if line.inlined else ""
    return f"{round(change.delta):>+10,}  {spans:>15}  {where}{inlined}  {text}".rstrip()
