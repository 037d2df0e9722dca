# SPDX-License-Identifier: GPL-2.0-only
"""Scenarios from files: every name resolved, all mistakes reported at once."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.base.checkout import SCENARIOS, WALL
from harness.base.plain import identity
from harness.scenario import schema
from harness.scenario.arms import read_arms
from harness.scenario.carry import check_carried, check_lost
from harness.scenario.claims import known_names, read_judged
from harness.scenario.loads import read_clock, read_loads, read_pause
from harness.scenario.model import Arm, Load, Requirements, Scenario, Selftest, Unseen
from lab.base.errors import Misuse
from lab.yaml import strict
from lab.yaml.fields import NAME, Row, mapping_values

_NAME_IN_FOLDER = re.compile(rf"{NAME}(/{NAME})*")


def find_scenarios(folder: Path = SCENARIOS) -> dict[str, Path]:
    """The scenario files of a folder, without subfolders, by name and sorted. Empty if the folder does not exist."""
    paths = {path.stem: path for path in folder.glob("*.yaml") if re.fullmatch(NAME, path.stem)}
    return dict(sorted(paths.items()))


def shipped_names() -> list[str]:
    """The names of all scenarios that users run: those of the virtual clock, then ``wall/NAME``."""
    return [*find_scenarios(), *(f"{WALL.name}/{name}" for name in find_scenarios(WALL))]


def find_scenario(ref: str, *, search: Path = SCENARIOS) -> Path:
    """The file of ``ref``, a name in the folder ``search`` or a path. Raises Misuse."""
    if _NAME_IN_FOLDER.fullmatch(ref) and (named := search / f"{ref}.yaml").is_file():
        return named
    if "/" in ref or ref.endswith((".yaml", ".yml")):
        return Path(ref)
    known = find_scenarios(search)
    raise Misuse(
        f"no scenario {strict.quoted(ref)} in {strict.shown_path(search)}{strict.nearest(ref, known)}",
        remedy=f"known: {strict.names(known)}; a path needs a / or .yaml in it",
    )


@dataclass(frozen=True)
class Refused:
    """What a check of a whole scenario says of entry ``index`` of ``section``, claims or controls."""

    section: str
    index: int
    message: str
    remedy: str


def read_scenario(
    ref: str, *, search: Path = SCENARIOS, check: Callable[[Scenario], Iterable[Refused]] = lambda _: ()
) -> Scenario:
    """The scenario of that name in the folder ``search``, or at that path.

    ``check`` looks at a scenario without mistakes. Raises InputErrors with all mistakes of the file and of its
    topology, Misuse if there is no such file.
    """
    path = find_scenario(ref, search=search)
    data = strict.read_bytes(path, "scenario")
    problems = strict.Problems()
    node = strict.parse(data, strict.shown_path(path), problems)
    scenario = None if isinstance(node, strict.Broken) else _read(node, path, search, problems)
    for refusal in check(scenario) if scenario is not None else ():
        problems.add(_place(node, refusal), refusal.message, refusal.remedy)
    problems.raise_if_any()
    if scenario is None:
        raise Misuse(f"scenario {strict.shown_path(path)} cannot be read", remedy="report this as a bug of blklab")
    return scenario


def _place(node: strict.Node, refused: Refused) -> strict.Mark:
    section = node.entries[refused.section].value if isinstance(node, strict.Map) else node
    return section.items[refused.index].mark if isinstance(section, strict.Items) else section.mark


def _read(node: strict.Node, path: Path, search: Path, problems: strict.Problems) -> Scenario | None:
    row = schema.SCENARIO.read(problems, "scenario", node)
    if row is None:
        return None
    name = row.get("scenario")
    if name is not None and path.parent == search and name != path.stem:
        row.add("scenario", f"scenario: expected {path.stem}, the name of the file, got {name}")
    loads = read_loads(row)
    arms = read_arms(row, near=path.parent)
    check_carried(row, arms, loads)
    check_lost(row, arms, loads)
    known = known_names(row, {name: arm.topology for name, arm in arms.items()}, loads.values())
    clock, seeds, windows = read_clock(row, loads)
    values: dict[str, Any] = {
        "name": name,
        "title": row.get("title"),
        "clock": clock,
        "source": row.get("from"),
        "teaches": row.get("teaches"),
        "seeds": seeds,
        "pause": read_pause(row, arms, len(known.loads) * windows),
        "arms": arms,
        "loads": loads,
        "requires": row.get("requires", Requirements()),
        "meant": tuple(map(Unseen, row.get("meant", ()))),
        "selftest": _selftest(row, arms, known.loads),
        **read_judged(row, known),
        "windows": windows,
    }
    if problems.found or name is None or values["title"] is None:
        return None
    scenario = Scenario(path=path, digest="", **values)
    return replace(scenario, digest=identity(scenario))


def _selftest(row: Row, arms: Mapping[str, Arm], loads: Collection[str]) -> Selftest | None:
    selftest: Row | None = row.get("selftest")
    if selftest is None:
        return None
    bottleneck = selftest.get("bottleneck")
    named = mapping_values(bottleneck) if bottleneck else {}
    for key in named:
        arm, _, load = key.partition(".")
        if arm not in arms or load not in loads:
            remedy = f"arms: {strict.names(arms)}; loads: {strict.names(loads)}"
            bottleneck.add(key, f"bottleneck: no arm and load {key}", remedy, symptom=True)
    return selftest.build(Selftest, bottleneck=named)


LAYOUT_WORD = "printk.time=Y"
"""A kernel parameter at the value that it has anyway: a longer command line is another layout of the same code."""


def in_another_layout(scenario: Scenario) -> Scenario:
    """``scenario`` as ``NAME.word``, with one more word on the kernel command line of each arm."""
    arms = {}
    for name, arm in scenario.arms.items():
        words = (*arm.topology.kernel_words, LAYOUT_WORD)
        arms[name] = replace(arm, topology=replace(arm.topology, kernel_words=words))
    made = replace(scenario, name=f"{scenario.name}.word", arms=arms, selftest=None)
    return replace(made, digest=identity(made))


def variant(
    scenario: Scenario, word: str, arms: Mapping[str, Arm], loads: Mapping[str, Load] | None = None
) -> Scenario:
    """``scenario`` as ``NAME.word`` with other arms (and loads). Ratios to reproduce are kept, claims are not."""
    loads = scenario.loads if loads is None else loads
    made = replace(
        scenario, name=f"{scenario.name}.{word}", arms=arms, loads=loads, claims=(), controls=(), selftest=None
    )
    return replace(made, digest=identity(made))
