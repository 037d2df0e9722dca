# SPDX-License-Identifier: GPL-2.0-only
"""Which scenarios a night measures: those that execute what changed since their last record, then the stalest."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.patch.choice import ScenarioChoice
from harness.report.format import listed
from harness.scenario.model import Scenario
from harness.track.state import Base

NEVER = "never measured"
_CODE = ("Makefile", "Kconfig", "Kbuild", ".S", ".lds", ".h", ".config", ".include")
"""Ends of files that are no C code, and can change what it is compiled to."""


@dataclass(frozen=True)
class Reach:
    """What the loads of scenarios execute of a change: functions by scenario, in the order of relevance.

    ``sure``: scenarios that are not among them execute nothing of it. ``unknown`` ones were not observed. ``touched``
    are all functions of the change.
    """

    functions: Mapping[str, Sequence[str]]
    sure: bool
    unknown: Collection[str] = ()
    touched: Collection[str] = ()

    @classmethod
    def of(cls, choice: ScenarioChoice, own: Collection[str]) -> "Reach":
        """``own`` scenarios are not among those that were looked at."""
        functions = {each.scenario.name: sorted(each.functions) or list(each.modules) for each in choice.candidates}
        sure = not any(name.endswith(_CODE) for name in choice.touched.others)
        return cls(functions, sure, (*choice.outdated, *own), {name for name, _ in choice.touched.functions})

    def spares(self, scenario: str) -> bool:
        """Whether the scenario is known to execute nothing of the change."""
        return self.sure and scenario not in self.functions and scenario not in self.unknown


def due(
    scenarios: Iterable[Scenario],
    bases: Mapping[str, Base],
    head: str,
    reached: Mapping[str, Reach],
    within: tuple[float, Callable[[Scenario], float]],
) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """The scenarios to measure, each with why, and those that the budget leaves out.

    ``reached`` is the change up to ``head`` by the commits of the ``bases``; ``within`` the budget and what a scenario
    takes, in seconds. The first one is measured in any case.
    """
    budget, seconds = within
    ranked: list[tuple[tuple[int, int, int], Scenario, str]] = []
    for place, scenario in enumerate(scenarios):
        base = bases.get(scenario.name)
        reach = reached.get(base.commit) if base else None
        if base is not None and base.commit == head:
            continue
        names = [*reach.functions] if reach else []
        if base is None:
            ranked.append(((1, 0, place), scenario, NEVER))
        elif reach and scenario.name in names:
            why = f"executes {listed(reach.functions[scenario.name], 3)}"
            ranked.append(((0, names.index(scenario.name), place), scenario, why))
        else:
            ranked.append(((2, base.night, place), scenario, f"measured last in night {base.night}"))
    chosen: dict[str, str] = {}
    left: list[str] = []
    spent = 0.0
    for _, scenario, why in sorted(ranked, key=lambda row: row[0]):
        spent += seconds(scenario)
        if chosen and spent > budget:
            left.append(scenario.name)
        else:
            chosen[scenario.name] = why
    return chosen, tuple(left)
