# SPDX-License-Identifier: GPL-2.0-only
"""Which load of which scenario executes which functions of the kernel, kept in scenarios/executed.json.

The file has a line for each set of loads, with the functions that exactly these execute.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from harness.base.files import read_json, write_atomic
from harness.profile.model import DEVICE_MODELS
from harness.run.bench import Bench
from harness.run.plan import Request, expand, guest_job
from harness.scenario.model import Scenario
from lab.base.errors import LabBroken
from lab.base.record import Outcome
from lab.observers import executed, executed_functions, loaded_modules
from lab.symbols import image_symbols, twin_symbols

SCHEMA = 1
REMAKE = "blklab check executed"
Loads = Mapping[str, frozenset[str]]
"""Functions by SCENARIO.ARM.LOAD."""


@dataclass(frozen=True)
class Executed:
    """``kernel`` is the origin of the measured one, ``digests`` those of the scenarios when they were measured."""

    kernel: str
    digests: Mapping[str, str]
    loads: Loads = field(repr=False)

    @cached_property
    def by_function(self) -> Mapping[str, frozenset[str]]:
        """The loads that execute a function."""
        found: dict[str, set[str]] = {}
        for load, functions in self.loads.items():
            for function in functions:
                found.setdefault(function, set()).add(load)
        return {function: frozenset(loads) for function, loads in found.items()}

    def outdated(self, scenarios: Collection[Scenario]) -> list[str]:
        """The names of those that were not measured as they are now."""
        return [one.name for one in scenarios if self.digests.get(one.name) != one.digest]

    def with_scenario(self, scenario: Scenario, loads: Loads) -> "Executed":
        others = {load: functions for load, functions in self.loads.items() if scenario_of(load) != scenario.name}
        return Executed(self.kernel, {**self.digests, scenario.name: scenario.digest}, {**others, **loads})


def scenario_of(load: str) -> str:
    return load.partition(".")[0]


def observe(bench: Bench, request: Request) -> Loads:
    """Boot every arm of the request once and return what its loads execute, without arms that this kernel cannot run.

    Arms in which another plugin counts (several CPUs) are left out: QEMU would have to load both. Raises what a run and
    a profile raise.
    """
    scenario = request.scenario
    named = request.arms or tuple(scenario.arms)
    arms = tuple(name for name in named if not scenario.arms[name].topology.processors.observed)
    if not arms:
        return {}
    plan = bench.plan(replace(request, seeds=1, arms=arms))
    plan = replace(plan, jobs={cell: executed(bench.lab, prepared) for cell, prepared in plan.jobs.items()})
    run = bench.run(plan).folder
    jobs = {arm.name: guest_job(scenario, arm, seed) for arm, seed in expand(scenario, 1)}
    found: dict[str, frozenset[str]] = {}
    for cell in run.facts.cells:
        record = None if cell.skip else run.boot(cell)
        if record is None or record.outcome is not Outcome.BYE:
            continue
        prepared, arm = plan.jobs[cell.arm, cell.seed], scenario.arms[cell.arm]
        if loaded_modules(prepared) - DEVICE_MODELS:
            symbols = twin_symbols(bench.lab, prepared, arm.topology, jobs[cell.arm])
        else:
            symbols = image_symbols(bench.lab, prepared)
        loads = executed_functions(prepared.plugin.windows(run.boot_folder(cell)), symbols)
        found |= {f"{scenario.name}.{cell.arm}.{load}": functions for load, functions in loads.items()}
    return found


def load_executed(path: Path) -> Executed | None:
    """None where there is no file. Raises LabBroken for one that is damaged."""
    document = read_json(path)
    if document is None:
        return None
    try:
        if document["schema"] != SCHEMA:
            raise ValueError(f"schema {document['schema']}")
        names: list[str] = document["loads"]
        functions: dict[str, set[str]] = {name: set() for name in names}
        for places, words in document["functions"].items():
            for place in _places(places):
                functions[names[place]].update(words.split())
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise LabBroken(f"{path} is damaged: {error}", remedy=f"make it again: {REMAKE}") from error
    loads = {name: frozenset(found) for name, found in functions.items()}
    return Executed(document["kernel"], document["digests"], loads)


def save_executed(path: Path, executed: Executed) -> None:
    names = sorted(executed.loads)
    numbers = {name: number for number, name in enumerate(names)}
    groups: dict[str, list[str]] = {}
    for function, loads in sorted(executed.by_function.items()):
        groups.setdefault(_ranges(sorted(numbers[load] for load in loads)), []).append(function)
    document = {
        "schema": SCHEMA,
        "made by": REMAKE,
        "kernel": executed.kernel,
        "digests": dict(sorted(executed.digests.items())),
        "loads": names,
        "functions": {places: " ".join(functions) for places, functions in sorted(groups.items())},
    }
    write_atomic(path, (json.dumps(document, indent=1) + "\n").encode())


def _ranges(places: Sequence[int]) -> str:
    """``0-3,7``."""
    parts: list[list[int]] = []
    for place in places:
        if parts and parts[-1][-1] == place - 1:
            parts[-1][1:] = [place]
        else:
            parts.append([place])
    return ",".join("-".join(map(str, part)) for part in parts)


def _places(text: str) -> Iterator[int]:
    for part in text.split(","):
        first, last = re.fullmatch(r"([0-9]+)(?:-([0-9]+))?", part).groups()  # type: ignore[union-attr]
        yield from range(int(first), int(last or first) + 1)
