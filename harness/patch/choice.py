# SPDX-License-Identifier: GPL-2.0-only
"""The scenarios whose loads execute what a change touches."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from harness.patch.coverage import Coverage, scenario_of
from harness.patch.sources import Touched
from harness.report.format import plural
from harness.scenario.model import Scenario
from lab.kernels.mutants import Mutation


class CodeChange(Protocol):
    """What a change touches, and what that means for the functions that were seen to be executed."""

    def touched(self) -> Touched: ...

    def executed_as(self, name: str, file: str, executed: Collection[str]) -> frozenset[str]:
        """The executed functions that contain ``name``."""
        ...

    def users(self, name: str, file: str) -> Iterator[tuple[str, str]]:
        """Functions, with their files, that use one of ``touched().data``."""
        ...


@dataclass(frozen=True)
class BuiltChange:
    """A change whose ``functions`` are those that differ between two builds, with their objects. Variables and tables
    of C files, which are no code, are those of the ``text``.
    """

    functions: Mapping[str, str]
    text: CodeChange

    def touched(self) -> Touched:
        said = self.text.touched()
        data = {name: file for name, file in said.data.items() if file.endswith(".c") and "." not in name}
        return Touched(self.functions, data, said.others, built=True)

    def executed_as(self, name: str, file: str, executed: Collection[str]) -> frozenset[str]:
        """The function itself: those that contain an inlined one differ, too."""
        return frozenset({name} & set(executed))

    def users(self, name: str, file: str) -> Iterator[tuple[str, str]]:
        return self.text.users(name, file)


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

    ``users`` are further functions that use the touched data, ``executed`` maps all of them to those of the kernel that
    contain them, ``unexecuted`` are the touched functions that no observed load executes. ``outdated`` scenarios were
    not observed as they are now.
    """

    touched: Touched
    users: tuple[str, ...]
    executed: Mapping[str, frozenset[str]]
    unexecuted: tuple[str, ...]
    candidates: tuple[ChosenScenario, ...]
    outdated: tuple[str, ...] = field(default=())


def choose(
    change: CodeChange,
    executed: Coverage,
    scenarios: Sequence[Scenario],
    mutants: Mapping[str, Sequence[Mutation]],
) -> ScenarioChoice:
    """The scenarios whose loads execute what the change touches."""
    touched = change.touched()
    wanted = dict(touched.functions)
    for name, file in touched.data.items():
        wanted |= {user: where for user, where in change.users(name, file) if user not in wanted}
    known = {
        name: found
        for name, file in wanted.items()
        if (found := change.executed_as(name, file, executed.by_function.keys()))
    }
    every = frozenset().union(*known.values())
    candidates = [
        one
        for scenario in scenarios
        if (one := _candidate(scenario, every, executed, _broken(scenario, mutants, wanted.keys()))).loads
    ]
    return ScenarioChoice(
        touched,
        tuple(sorted(wanted.keys() - touched.functions.keys())),
        known,
        tuple(sorted(touched.functions.keys() - known.keys())),
        tuple(sorted(candidates, key=lambda one: _rank(one, candidates))),
        tuple(executed.outdated(scenarios)),
    )


def _candidate(
    scenario: Scenario, wanted: frozenset[str], executed: Coverage, broken: tuple[str, ...]
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
    functions, data = sorted(choice.touched.functions), sorted(choice.touched.data)
    touches = "between the builds of both differs the code of" if choice.touched.built else "touches"
    yield f"{touches} {plural(len(functions), 'function')}: {_listed(functions) or 'none'}"
    if data:
        users = plural(len(choice.users), "further function")
        yield f"and {_listed(data)}, which the text of {users} has: {_listed(choice.users) or 'none'}"
    if choice.touched.others:
        yield f"not C code: {_listed(choice.touched.others)}"
    for name in functions:
        inside = choice.executed.get(name, frozenset())
        if inside and name not in inside:
            yield f"{name} is inlined, and executed in {_listed(sorted(inside))}"
    if choice.unexecuted:
        among = f", as {plural(len(choice.outdated), 'scenario')} were not observed" if choice.outdated else ""
        yield f"{'not observed' if among else 'no observed load executes'}: {_listed(choice.unexecuted)}{among}"
    for one in choice.candidates[:most]:
        why = f", and detects {_listed(one.mutants)}" if one.mutants else ""
        execute = "executes" if one.loads == 1 else "execute"
        yield f"  {one.scenario.name}: {plural(one.loads, 'load')} {execute} {_listed(sorted(one.functions))}{why}"
    if rest := [one.scenario.name for one in choice.candidates[most:]]:
        yield f"not measured, though they execute them too: {_listed(rest, len(rest))} (--all)"
    if choice.outdated:
        yield f"not observed as they are now: {_listed(choice.outdated, len(choice.outdated))}"


def _listed(names: Sequence[str], most: int = _SHOWN) -> str:
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")
