# SPDX-License-Identifier: GPL-2.0-only
"""Which load of which scenario executes which functions of the kernel, kept in scenarios/executed.json.

The file has a line for each set of loads, with the functions that exactly these execute.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from harness.base.files import read_json
from harness.scenario.model import Scenario
from lab.base.errors import LabBroken

SCHEMA = 1
REMAKE = "scripts/run --dev python -m tools.coverage"
Loads = Mapping[str, frozenset[str]]
"""Functions by SCENARIO.ARM.LOAD."""


@dataclass(frozen=True)
class Coverage:
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
        functions: dict[str, set[str]] = {name: set() for name in names}
        for places, words in document["functions"].items():
            for place in _places(places):
                functions[names[place]].update(words.split())
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise LabBroken(f"{path} is damaged: {error}", remedy=f"make it again: {REMAKE}") from error
    loads = {name: frozenset(found) for name, found in functions.items()}
    return Coverage(document["kernel"], document["digests"], loads)


def _places(text: str) -> Iterator[int]:
    for part in text.split(","):
        first, last = re.fullmatch(r"([0-9]+)(?:-([0-9]+))?", part).groups()  # type: ignore[union-attr]
        yield from range(int(first), int(last or first) + 1)
