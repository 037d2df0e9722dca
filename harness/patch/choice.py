# SPDX-License-Identifier: GPL-2.0-only
"""The scenarios whose loads execute what a change touches.

Which load executes which functions of the kernel is kept in scenarios/executed.json: a line for each set of loads, with
the functions that exactly these execute.

Among them those come first whose words are those of the change: the subject and the changed lines against the
scenario's file. The measure is that of text search: the cosine of word counts, logarithmic and weighted by how few
scenarios have the word (tf-idf, Salton and Buckley 1988). A scenario that detects a mutant of a changed function counts
twice, one that was not seen to execute the change counts half. ``tests/vm/test_choice_real.py`` scores it on
mutants whose scenario is known.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from math import log, sqrt
from pathlib import Path

from harness.base.files import read_json
from harness.patch.sources import UNCOMMITTED, CodeChange, Function, PatchText, Touched
from harness.report.format import listed, plural
from harness.scenario.model import Arm, Scenario
from lab.base.errors import LabBroken
from lab.guest.steps.device import Module
from lab.kernels.mutants import Mutation
from lab.realise.recipe import devices, queue_settings

_WORD = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")
_CHANGED = re.compile(r"^[+-](?![+-])(.*)$", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z0-9]*_\w+")
"""Of C: keywords and short variables such as data say nothing of a subject."""
_SUBJECT = re.compile(r"^(?:Subject|Mutant): *(.*)$", re.MULTILINE)
_SUBJECTS = 3
"""A subject says in few words what the lines do."""
_SHORT = 3
SCHEMA = 1
REMAKE = "scripts/run --dev python -m tools.coverage"
Loads = Mapping[str, frozenset[str]]
"""The loads SCENARIO.ARM.LOAD that execute a function, by its name."""


@dataclass(frozen=True)
class Coverage:
    """``kernel`` is the origin of the measured one, ``digests`` those of the scenarios when they were measured."""

    kernel: str
    digests: Mapping[str, str]
    executed: Loads = field(repr=False)

    @cached_property
    def loads(self) -> frozenset[str]:
        return frozenset().union(*self.executed.values())

    def outdated(self, scenarios: Collection[Scenario]) -> list[str]:
        """The names of those that were not measured as they are now."""
        return [scenario.name for scenario in scenarios if self.digests.get(scenario.name) != scenario.digest]


def scenario_of(load: str) -> str:
    return load.partition(".")[0]


def load_coverage(path: Path) -> Coverage | None:
    """None where there is no file. Raises LabBroken for one that is damaged."""
    document = read_json(path)
    if document is None:
        return None
    try:
        if document["schema"] != SCHEMA:
            raise ValueError(f"schema {document['schema']}")
        names: list[str] = document["loads"]
        executed: dict[str, frozenset[str]] = {}
        for places, words in document["functions"].items():
            executed |= dict.fromkeys(words.split(), frozenset(names[place] for place in _places(places)))
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise LabBroken(f"{path} is damaged: {error}", remedy=f"make it again: {REMAKE}") from error
    return Coverage(document["kernel"], document["digests"], executed)


def _places(text: str) -> Iterator[int]:
    for part in text.split(","):
        first, last = re.fullmatch(r"([0-9]+)(?:-([0-9]+))?", part).groups()  # type: ignore[union-attr]
        yield from range(int(first), int(last or first) + 1)


@dataclass(frozen=True)
class ChosenScenario:
    """A scenario of which ``loads`` execute ``functions``; it detects ``mutants``, each of which changes one of them.

    ``relevance``: how much its words are those of the change. ``modules``: it loads these, of which no function was
    observed that is touched.
    """

    scenario: Scenario
    functions: frozenset[str]
    loads: int
    mutants: tuple[str, ...] = ()
    relevance: float = 0.0
    modules: tuple[str, ...] = ()


_COMPILED = ("Makefile", "Kconfig", "Kbuild", ".S", ".lds", ".h", ".config", ".include")
"""Ends of files that are no C code, and can change what it is compiled to."""


@dataclass(frozen=True)
class ScenarioChoice:
    """``candidates`` are all scenarios that execute what is touched, or that load a touched module of which no load
    executes it, those that tell most first.

    ``users`` are further functions that use the touched data, ``executed`` maps all of them to those of the kernel that
    contain them, ``unexecuted`` are the touched functions that no observed load executes. ``outdated`` scenarios were
    not observed as they are now.
    """

    touched: Touched
    users: tuple[str, ...]
    executed: Mapping[str, frozenset[str]]
    unexecuted: tuple[str, ...]
    candidates: tuple[ChosenScenario, ...]
    outdated: tuple[str, ...] = ()

    @property
    def executing(self) -> Mapping[str, Sequence[str]]:
        """What each candidate executes: functions, where none was observed the modules that it loads."""
        return {each.scenario.name: sorted(each.functions) or list(each.modules) for each in self.candidates}

    def spares(self, scenario: str) -> bool:
        """Whether the scenario is known to execute nothing of the change."""
        compiled = any(name.endswith(_COMPILED) for name in self.touched.others)
        return not compiled and scenario not in self.executing and scenario not in self.outdated


class _Observed:
    """The loads of scenarios with the functions that each executes."""

    def __init__(self, coverage: Coverage, scenarios: Sequence[Scenario], change: CodeChange) -> None:
        names = {each.name for each in scenarios}
        self._arms = {load: load.rpartition(".")[0] for load in coverage.loads if scenario_of(load) in names}
        self._modules = {f"{each.name}.{arm.name}": modules_of(arm) for each in scenarios for arm in each.arms.values()}
        self._all, self._module = coverage.executed, change.module
        self.in_file, self.executed = cache(self._in_file), cache(self._executed)

    def module(self, file: str) -> str:
        """The module of the file, where a scenario loads it; else it may be built in."""
        module = self._module(file).replace("-", "_")
        return module if any(module in names for names in self._modules.values()) else ""

    def loading(self, modules: Collection[str]) -> Mapping[str, set[str]]:
        """The scenarios that load some of the modules, with those."""
        scenarios: dict[str, set[str]] = {}
        for arm, names in self._modules.items():
            if both := {*modules} & {*names}:
                scenarios.setdefault(scenario_of(arm), set()).update(both)
        return scenarios

    def _in_file(self, file: str) -> frozenset[str]:
        """The loads that can execute functions of the file: one without its module executes others of those names."""
        module = self.module(file)
        # An arm that the scenario has not any more may have loaded it.
        arms = self._arms.items()
        return frozenset(load for load, arm in arms if not module or module in self._modules.get(arm, (module,)))

    def _executed(self, file: str) -> frozenset[str]:
        loads = self.in_file(file)
        return frozenset(name for name, executing in self._all.items() if not loads.isdisjoint(executing))

    def by_scenario(self, functions: Collection[Function]) -> Mapping[str, list[frozenset[str]]]:
        """For each scenario those of the functions that each of its loads executes, if any."""
        loads: dict[str, set[str]] = {}
        for name, file in functions:
            for load in self.in_file(file) & self._all.get(name, frozenset()):
                loads.setdefault(load, set()).add(name)
        scenarios: dict[str, list[frozenset[str]]] = {}
        for load, executed in loads.items():
            scenarios.setdefault(scenario_of(load), []).append(frozenset(executed))
        return scenarios


def modules_of(arm: Arm) -> frozenset[str]:
    """The modules that a guest of the arm loads."""
    steps = (*devices(arm.topology), *queue_settings(arm.topology, arm.queue))
    return frozenset(step.name.replace("-", "_") for step in steps if isinstance(step, Module))


def choose(
    change: CodeChange,
    coverage: Coverage,
    scenarios: Sequence[Scenario],
    mutants: Mapping[str, Sequence[Mutation]],
) -> ScenarioChoice:
    """The scenarios whose loads execute what the change touches, those first whose subject it is."""
    touched, observed = change.touched(), _Observed(coverage, scenarios, change)
    users = {user for name, file in touched.data.items() for user in change.users(name, file)} - touched.functions
    wanted = touched.functions | users
    known = {each: inside for each in wanted if (inside := change.executed_as(each, observed.executed))}
    loads = observed.by_scenario(frozenset().union(*known.values()))
    silent = {file for _, file in (*wanted, *touched.data.items())} - {file for _, file in known}
    loading = observed.loading({observed.module(file) for file in silent})
    never = {each.name for each in scenarios} - {scenario_of(load) for load in coverage.loads}
    of_change = observed.loading({observed.module(file) for _, file in wanted})
    loading = {**loading, **{name: modules for name, modules in of_change.items() if name in never}}
    relevance = relevances(change.words(), touched, scenarios)
    known_mutants = (each for versions in mutants.values() for each in versions)
    broken = [each for each in known_mutants if PatchText((each.patch.read_text(),)).touched().functions & wanted]
    candidates = [
        ChosenScenario(
            each,
            frozenset().union(*loads.get(each.name, ())),
            len(loads.get(each.name, ())),
            _detected(each, broken),
            relevance[each.name],
            () if each.name in loads else tuple(sorted(loading[each.name])),
        )
        for each in scenarios
        if each.name in loads or each.name in loading
    ]
    return ScenarioChoice(
        touched,
        tuple(sorted(name for name, _ in users)),
        {name: frozenset(name for name, _ in inside) for (name, _), inside in known.items()},
        tuple(sorted(name for name, _ in touched.functions - known.keys())),
        tuple(sorted(candidates, key=_rank)),
        tuple(coverage.outdated(scenarios)),
    )


def _detected(scenario: Scenario, mutants: Sequence[Mutation]) -> tuple[str, ...]:
    """The mutants that a control of the scenario names, or that name the scenario."""
    own = {control.mutant for control in scenario.controls}
    return tuple(sorted({each.name for each in mutants if each.name in own or scenario.name in each.scenarios}))


def _rank(each: ChosenScenario) -> tuple[float, int, str]:
    weight = (2.0 if each.mutants else 1.0) * (0.5 if each.modules else 1.0)
    return -each.relevance * weight, len(each.scenario.arms), each.scenario.name


def choice_lines(choice: ScenarioChoice, most: int, *, certain: bool = True) -> Iterator[str]:
    """``certain``: that the first ``most`` candidates are those that are measured."""
    functions, data = sorted(choice.touched.names), sorted(choice.touched.data)
    touches = "between the builds of both differs the code of" if choice.touched.built else "touches"
    yield f"{touches} {plural(len(functions), 'function')}: {listed(functions) or 'none'}"
    if data:
        users = plural(len(choice.users), "further function")
        yield f"and {listed(data)}, which the text of {users} has: {listed(choice.users) or 'none'}"
    if choice.touched.others:
        yield f"not C code: {listed(choice.touched.others)}"
    for name in functions:
        inside = choice.executed.get(name, frozenset())
        if inside and name not in inside:
            yield f"{name} was not observed, but {listed(sorted(inside))}, which may contain it"
    if choice.unexecuted:
        among = f", as {plural(len(choice.outdated), 'scenario')} were not observed" if choice.outdated else ""
        yield f"{'not observed' if among else 'no observed load executes'}: {listed(choice.unexecuted)}{among}"
    for row in choice.candidates[:most]:
        why = f", and detects {listed(row.mutants)}" if row.mutants else ""
        execute = f"{plural(row.loads, 'load')} {'executes' if row.loads == 1 else 'execute'}"
        what = f"{execute} {listed(sorted(row.functions))}" if row.loads else f"loads {listed(row.modules)}"
        yield f"  {row.scenario.name}: {what}{why}"
    if rest := [row.scenario.name for row in choice.candidates[most:]]:
        which = "not measured, though they execute them too" if certain else "these execute them too"
        yield f"{which}: {', '.join(rest)} (--all)"
    if choice.outdated:
        yield f"not observed as they are now: {', '.join(choice.outdated)}"


def relevances(change: str, touched: Touched, scenarios: Sequence[Scenario]) -> Mapping[str, float]:
    """For each scenario by name a figure from 0: the names in the lines of ``change``, and the words of its subjects.

    What is not committed has no subject: then the names of functions and files take its place.
    """
    texts = {each.name: _counts(each.path.read_text()) for each in scenarios}
    among = Counter(word for words in texts.values() for word in words)
    rarity = {word: log((len(texts) + 1) / count) for word, count in among.items()}
    subjects = [each for each in _SUBJECT.findall(change) if not each.startswith(UNCOMMITTED)]
    subjects = subjects or [f"{name} {Path(file).stem}" for name, file in touched.functions]
    asked = _counts(*(" ".join(_NAME.findall(line)) for line in _CHANGED.findall(change)), *subjects * _SUBJECTS)
    return {name: _cosine(asked, words, rarity) for name, words in texts.items()}


def _counts(*texts: str) -> Counter[str]:
    """The words of the texts and the parts of those with ``_`` or ``-``, without case and the plural's s."""
    counts = Counter[str]()
    for word, count in Counter(_WORD.findall(" ".join(texts).lower().replace("-", "_"))).items():
        parts = [part for part in word.split("_") if len(part) >= _SHORT]
        for part in [word, *parts] if "_" in word else parts:
            counts[part.removesuffix("s")] += count
    return counts


def _cosine(asked: Mapping[str, int], words: Mapping[str, int], rarity: Mapping[str, float]) -> float:
    """The length of ``asked`` is the same for all scenarios and left out."""

    def weight(counts: Mapping[str, int], word: str) -> float:
        return (1 + log(counts[word])) * rarity[word]

    length = sqrt(sum(weight(words, word) ** 2 for word in words))
    return sum(weight(asked, word) * weight(words, word) for word in asked.keys() & words.keys()) / length
