# SPDX-License-Identifier: GPL-2.0-only
"""Functions of C files that differ between two revisions, those that the compiler puts them into, and the scenarios
whose loads execute them.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from harness.report.format import plural
from harness.scenario.model import Scenario
from harness.studies.executed import Executed, scenario_of
from lab.base.process import run
from lab.kernels.mutants import Mutation

_FILE = re.compile(r"^(?:---|\+\+\+) (?:[ab]/)?(.*)$")
_HUNK = re.compile(r"^@@ -([0-9]+)(?:,([0-9]+))? \+([0-9]+)(?:,([0-9]+))? @@")
_HEAD_ENDS = re.compile(r"(?:[;}]|\*/)\s*$|^\s*$|^#")
_NAME = re.compile(r"(\w+)\s*\(")
_ONE_LINE = re.compile(r"^\w[^;{}=]*?\b(\w+)\([^;{}]*\)\s*\{.*\}\s*$")
_DEFINED = re.compile(r"^#\s*define\s+(\w+)|^[A-Za-z_][\w\s*]*?(\w+)\s*(?:\[[^\]]*\]\s*)*[={;]")
_ATTRIBUTE = re.compile(r"__(?:attribute__|printf|scanf|acquires|releases|must_hold|cond_acquires|aligned|section)")
_USERS = ("block", "include/linux", "drivers/block", "drivers/md", "drivers/nvme", "drivers/scsi", "drivers/target")
"""Where functions of shared headers are looked for: the block layer and its drivers."""
_DEPTH = 4


@dataclass(frozen=True)
class Touched:
    """``functions`` maps the changed functions to their files; ``data`` are changed macros, types and variables.

    ``others`` are changed files in which nothing of both is.
    """

    functions: Mapping[str, str]
    data: Mapping[str, str]
    others: tuple[str, ...]


@dataclass(frozen=True)
class Definition:
    """A function in a C file, ``first`` to ``last`` line, with its storage class."""

    name: str
    first: int
    last: int
    static: bool
    inline: bool


def definitions(text: str) -> tuple[Definition, ...]:
    """The functions of a file in the kernel's style, in which a body is between braces in the first column."""
    lines = text.splitlines()
    found = []
    number = 0
    while number < len(lines):
        line = lines[number]
        if match := _ONE_LINE.match(line):
            found.append(_definition(match[1], number, number, line))
        elif line.startswith("{") and (head := _head(lines, number)) is not None:
            last = next((at for at in range(number, len(lines)) if lines[at].startswith("}")), len(lines) - 1)
            found.append(_definition(head[0], head[1], last, " ".join(lines[head[1] : number])))
            number = last
        number += 1
    return tuple(found)


def _head(lines: Sequence[str], brace: int) -> tuple[str, int] | None:
    """The name and the first line of the function whose body begins at ``brace``; None for another block."""
    first = brace
    while first > 0 and not _HEAD_ENDS.search(lines[first - 1]):
        first -= 1
    text = " ".join(lines[first:brace])
    names = (match[1] for match in _NAME.finditer(text) if not _ATTRIBUTE.fullmatch(match[1]))
    name = next(names, None)
    return None if name is None or "=" in text.partition("(")[0] else (name, first)


def _definition(name: str, first: int, last: int, head: str) -> Definition:
    inline = re.search(r"\b(?:inline|__always_inline)\b", head) is not None
    return Definition(name, first + 1, last + 1, static=inline or "static " in head, inline=inline)


class Sources:
    """C files of a git repository at two revisions."""

    def __init__(self, repository: Path, old: str, new: str) -> None:
        self._repository, self._old, self._new = repository, old, new
        self._at = cache(self._definitions)

    def touched(self) -> Touched:
        functions: dict[str, str] = {}
        data: dict[str, str] = {}
        others = []
        names = self._git("diff", "--no-renames", "--name-only", "-z", self._old, self._new).split("\0")
        for file in filter(None, names):
            here = list(self._changed(file)) if file.endswith((".c", ".h")) else []
            functions |= {name: file for kind, name in here if kind == "function"}
            data |= {name: file for kind, name in here if kind == "data"}
            if not here:
                others.append(file)
        return Touched(functions, data, tuple(others))

    def executed_as(self, name: str, file: str, executed: Collection[str]) -> frozenset[str]:
        """The executed functions that contain ``name``: itself, or those into which gcc inlines it.

        An inline function is in all its callers, a static one with one caller in that (-finline-functions-called-once).
        """
        found: set[str] = set()
        seen, level = {name}, {(name, file)}
        for _ in range(_DEPTH):
            found |= {one for one, _ in level if one in executed}
            level = {
                caller
                for one, where in level
                if one not in executed
                for caller in self._containing(one, where)
                if caller[0] not in seen
            }
            seen |= {one for one, _ in level}
        return frozenset(found)

    def _containing(self, name: str, file: str) -> frozenset[tuple[str, str]]:
        own = next((one for one in self._at(self._new, file) if one.name == name), None)
        if own is None or not own.static:
            return frozenset()
        callers = frozenset(self.users(name, file, r"\s*\("))
        return callers if own.inline or len(callers) == 1 else frozenset()

    def users(self, name: str, file: str, behind: str = "") -> Iterator[tuple[str, str]]:
        """Functions, with their files, whose text has the word ``name`` with the pattern ``behind`` it."""
        word = re.compile(rf"\b{re.escape(name)}\b{behind}")
        for path in self._files_with(name, file):
            lines = self._text(self._new, path).splitlines()
            for one in self._at(self._new, path):
                if one.name != name and any(word.search(line) for line in lines[one.first - 1 : one.last]):
                    yield one.name, path

    def _files_with(self, name: str, file: str) -> list[str]:
        if file.endswith(".c"):
            return [file]
        folders = _USERS if file.startswith("include/") else (str(Path(file).parent),)
        said = self._git("grep", "-lw", "-F", "-e", name, self._new, "--", *(f"{one}/" for one in folders))
        return [line.partition(":")[2] for line in said.splitlines() if line.endswith((".c", ".h"))]

    def _changed(self, file: str) -> Iterator[tuple[str, str]]:
        said = self._git("diff", "--no-renames", "--no-ext-diff", "-U0", self._old, self._new, "--", file)
        for line in said.splitlines():
            match = _HUNK.match(line)
            if match is None:
                continue
            old, old_count, new, new_count = (int(part) if part else 1 for part in match.groups())
            yield from self._of_lines(self._old, file, range(old, old + old_count))
            yield from self._of_lines(self._new, file, range(new, new + new_count))

    def _of_lines(self, revision: str, file: str, lines: range) -> Iterator[tuple[str, str]]:
        text = self._text(revision, file).splitlines()
        for number in lines:
            if not text[number - 1].strip():
                continue
            inside = next((one for one in self._at(revision, file) if one.first <= number <= one.last), None)
            if inside is not None:
                yield "function", inside.name
            elif name := _data_at(text, number):
                yield "data", name

    def _definitions(self, revision: str, file: str) -> tuple[Definition, ...]:
        return definitions(self._text(revision, file))

    def _text(self, revision: str, file: str) -> str:
        return self._git("cat-file", "blob", f"{revision}:{file}")

    def _git(self, *words: str) -> str:
        done = run(["git", "-C", str(self._repository), "--no-pager", *words], accept=(0, 1, 128))
        return done.stdout.decode(errors="replace")


def _data_at(lines: Sequence[str], number: int) -> str:
    """The macro, type or variable whose definition has this line; empty for a comment and the like."""
    at = number - 1
    if lines[at].lstrip().startswith(("*", "/*", "//")):
        return ""
    while at > 0 and (lines[at][:1] in (" ", "\t", "}") or lines[at - 1].endswith("\\")):
        at -= 1
    match = _DEFINED.match(lines[at])
    return (match[1] or match[2] or "") if match else ""


_HUNK_FUNCTION = re.compile(r"^@@ [^@]*@@ .*?(\w+)\(", re.MULTILINE)
_SHOWN = 6


@dataclass(frozen=True)
class ChosenScenario:
    """A scenario of which ``loads`` execute ``functions``; ``mutants`` are its controls that break one of them."""

    scenario: Scenario
    functions: frozenset[str]
    loads: int
    mutants: tuple[str, ...] = ()


@dataclass(frozen=True)
class ScenarioChoice:
    """``candidates`` are all scenarios that execute what is touched, those that tell most first.

    ``executed`` maps each touched function to those of the kernel that contain it, ``unexecuted`` are the touched
    functions that no load executes.
    """

    touched: Touched
    executed: Mapping[str, frozenset[str]]
    unexecuted: tuple[str, ...]
    candidates: tuple[ChosenScenario, ...]
    outdated: tuple[str, ...] = field(default=())


def choose(
    sources: Sources,
    executed: Executed,
    scenarios: Sequence[Scenario],
    mutants: Mapping[str, Sequence[Mutation]],
) -> ScenarioChoice:
    """The scenarios whose loads execute what differs between the two revisions of ``sources``."""
    touched = sources.touched()
    wanted = dict(touched.functions)
    for name, file in touched.data.items():
        wanted |= {user: where for user, where in sources.users(name, file) if user not in wanted}
    known = {
        name: found
        for name, file in wanted.items()
        if (found := sources.executed_as(name, file, executed.by_function.keys()))
    }
    every = frozenset().union(*known.values())
    candidates = [
        one
        for scenario in scenarios
        if (one := _candidate(scenario, every, executed, _broken(scenario, mutants, wanted.keys()))).loads
    ]
    return ScenarioChoice(
        touched,
        known,
        tuple(sorted(touched.functions.keys() - known.keys())),
        tuple(sorted(candidates, key=lambda one: _rank(one, candidates))),
        tuple(executed.outdated(scenarios)),
    )


def _candidate(
    scenario: Scenario, wanted: frozenset[str], executed: Executed, broken: tuple[str, ...]
) -> ChosenScenario:
    loads = [functions & wanted for load, functions in executed.loads.items() if scenario_of(load) == scenario.name]
    return ChosenScenario(scenario, frozenset().union(*loads), sum(map(bool, loads)), broken)


def _broken(
    scenario: Scenario, mutants: Mapping[str, Sequence[Mutation]], functions: Collection[str]
) -> tuple[str, ...]:
    """The mutants of the scenario's controls that change one of the functions."""
    named = sorted({control.mutant for control in scenario.controls if control.mutant})
    patches = {name: " ".join(one.patch.read_text() for one in mutants.get(name, ())) for name in named}
    return tuple(name for name in named if not frozenset(_HUNK_FUNCTION.findall(patches[name])).isdisjoint(functions))


def _rank(one: ChosenScenario, candidates: Sequence[ChosenScenario]) -> tuple[bool, float, int, str]:
    """First those that are known to detect a defect there, then those whose functions few others execute."""
    rarity = sum(1 / sum(name in other.functions for other in candidates) for name in one.functions)
    return not one.mutants, -rarity, len(one.scenario.arms), one.scenario.name


def choice_lines(choice: ScenarioChoice, most: int) -> Iterator[str]:
    functions = sorted(choice.touched.functions)
    yield f"touches {plural(len(functions), 'function')}: {_listed(functions) or 'none'}"
    if choice.touched.data:
        yield f"and {_listed(sorted(choice.touched.data))}, which the functions that use them count for"
    if choice.touched.others:
        yield f"not C code: {_listed(choice.touched.others)}"
    for name in functions:
        inside = choice.executed.get(name, frozenset())
        if inside and name not in inside:
            yield f"{name} is inlined, and executed in {_listed(sorted(inside))}"
    if choice.unexecuted:
        yield f"no measured load executes {_listed(choice.unexecuted)}"
    for one in choice.candidates[:most]:
        why = f", and detects {_listed(one.mutants)}" if one.mutants else ""
        execute = "executes" if one.loads == 1 else "execute"
        yield f"  {one.scenario.name}: {plural(one.loads, 'load')} {execute} {_listed(sorted(one.functions))}{why}"
    if rest := [one.scenario.name for one in choice.candidates[most:]]:
        yield f"not measured, though they execute them too: {_listed(rest, len(rest))} (--all)"
    if choice.outdated:
        yield f"not chosen from, as no load was observed: {_listed(choice.outdated, len(choice.outdated))}"


def _listed(names: Sequence[str], most: int = _SHOWN) -> str:
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")
