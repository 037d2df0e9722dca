# SPDX-License-Identifier: GPL-2.0-only
"""Scenarios from files: every name resolved, all mistakes reported at once."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from harness.base.checkout import SCENARIOS, WALL
from harness.base.plain import identity
from harness.scenario import schema
from harness.scenario.arms import read_arms
from harness.scenario.events import check_events
from harness.scenario.loads import (
    check_carried,
    check_lost,
    check_memory,
    read_clock,
    read_loads,
    read_pause,
)
from harness.scenario.model import (
    Agreement,
    Arm,
    Bound,
    Claim,
    Condition,
    Control,
    Diagnosis,
    KnownFailure,
    Load,
    Ratio,
    Reproduction,
    Requirements,
    Scenario,
    Selftest,
    Unseen,
)
from harness.scenario.ratio import ExpressionError, Names, parse_bound, parse_ratio, sampled_names
from lab.base.errors import Misuse
from lab.kernels import mutants
from lab.kernels.model import RangeError, parse_range
from lab.topology.model import Topology
from lab.yaml import strict
from lab.yaml.fields import NAME, Field, Row, mapping_values
from lab.yaml.strict import Map, Node, Scalar, names, nearest

_NAME_IN_FOLDER = re.compile(rf"{NAME}(/{NAME})*")


def find_scenarios(folder: Path = SCENARIOS) -> dict[str, Path]:
    """The scenario files of a folder, without subfolders, by name and sorted. Empty if the folder does not exist."""
    paths = {path.stem: path for path in folder.glob("*.yaml") if re.fullmatch(NAME, path.stem)}
    return dict(sorted(paths.items()))


def shipped_names() -> list[str]:
    """The names of all scenarios that users run: those of the virtual clock, then ``wall/NAME``."""
    return [*find_scenarios(), *(f"{WALL.name}/{name}" for name in find_scenarios(WALL))]


def is_shipped(ref: str, search: Path = SCENARIOS) -> bool:
    """Whether ``ref`` is a name in the folder ``search`` or one of its folders."""
    return bool(_NAME_IN_FOLDER.fullmatch(ref)) and (search / f"{ref}.yaml").is_file()


def find_scenario(ref: str, *, search: Path = SCENARIOS) -> Path:
    """The file of ``ref``, a name in the folder ``search`` or a path. Raises Misuse."""
    if is_shipped(ref, search):
        return search / f"{ref}.yaml"
    if "/" in ref or ref.endswith((".yaml", ".yml")):
        return Path(ref)
    known = find_scenarios(search)
    raise Misuse(
        f"no scenario {strict.quoted(ref)} in {strict.shown_path(search)}{nearest(ref, known)}",
        remedy=f"known: {names(known)}; a path needs a / or .yaml in it",
    )


def ref_of(scenario: Scenario) -> str:
    """What ``find_scenario`` takes for it: the name of a shipped one in its folder, else the path."""
    path = scenario.path.resolve()
    inside = path.is_relative_to(SCENARIOS)
    return str(path.relative_to(SCENARIOS).with_suffix("")) if inside else strict.shown_path(scenario.path)


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


def _place(node: Node, refused: Refused) -> strict.Mark:
    section = node.entries[refused.section].value if isinstance(node, Map) else node
    return section.items[refused.index].mark if isinstance(section, strict.Items) else section.mark


def _read(node: Node, path: Path, search: Path, problems: strict.Problems) -> Scenario | None:
    row = schema.SCENARIO.read(problems, "scenario", node)
    if row is None:
        return None
    name = row.get("scenario")
    if name is not None and path.parent == search and name != path.stem:
        row.add("scenario", f"scenario: expected {path.stem}, the name of the file, got {name}")
    loads = read_loads(row)
    arms = read_arms(row, near=path.parent)
    check_carried(row, arms, loads)
    check_memory(row, arms, loads)
    check_lost(row, arms, loads)
    queues = {name: (arm.topology, arm.queue) for name, arm in arms.items()}
    for each in loads.values():
        disks = {disk for role in each.roles.values() for disk in role.disks}
        check_events(row.get("loads")[each.name], each.events, disks, queues)
    known = known_names(row, {name: arm.topology for name, arm in arms.items()}, loads)
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
        "hunt": row.get("hunt"),
        "meant": tuple(map(Unseen, row.get("meant", ()))),
        "selftest": _selftest(row, arms, known.loads),
        **read_judged(row, known),
        "windows": windows,
    }
    if problems.all or name is None or values["title"] is None:
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
            remedy = f"arms: {names(arms)}; loads: {names(loads)}"
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
    return variant(scenario, "word", arms=arms)


def variant(scenario: Scenario, word: str, **others: Any) -> Scenario:
    """``scenario`` as ``NAME.word`` with other fields."""
    made = replace(scenario, name=f"{scenario.name}.{word}", selftest=None, **others)
    return replace(made, digest=identity(made))


T = TypeVar("T")
_EACH_ARM = re.compile(r"(?<![^\s/])\*\.")


def known_names(row: Row, topologies: Mapping[str, Topology], sound: Mapping[str, Load]) -> Names:
    """The arms, loads and roles in the file, including those with a mistake, so that no mistake is reported twice."""
    loads = {
        name: tuple(role for role in _members(load) if role not in schema.LOAD_KEYS)
        for name, load in _members(row.node, "loads").items()
    }
    arms = _members(row.node, "arms")
    tried = {arm: tuple(_members(value, "try")) for arm, value in arms.items() if "try" in _members(value)}
    sampled = {arm: sampled_names(topology) for arm, topology in topologies.items()}
    return Names(tuple(arms), loads, sound, tried, sampled)


def _members(node: Node | None, *path: str) -> Mapping[str, Node]:
    """The entries of the mapping at ``path`` below ``node``; none where there is no mapping."""
    for key in path:
        node = _members(node).get(key)
    return {name: entry.value for name, entry in node.entries.items()} if isinstance(node, Map) else {}


def read_judged(row: Row, known: Names) -> dict[str, tuple[Any, ...]]:
    """The fields of a scenario that its ratios make, by their names."""

    def judged(entry: Row) -> dict[str, Any]:
        return {"ratio": _ratio(entry, known), "expect": _expect(entry), "kernels": _kernels(entry)}

    def claim(entry: Row) -> Claim | None:
        known_failures = _entries(entry, "known", lambda each: each.build(KnownFailure, kernels=_kernels(each)))
        return entry.build(Claim, known=known_failures, **judged(entry))

    def control(entry: Row) -> Control | None:
        mutant = entry.get("mutant")
        if mutant and mutant not in (known := mutants.known_names()):
            entry.add("mutant", f"mutant: there is no {mutant}{nearest(mutant, known)}", f"known: {names(known)}")
        return entry.build(Control, **judged(entry))

    def reproduction(report: Row) -> Reproduction | None:
        if (report.entry("reported") is None) == (report.entry("in_words") is None):
            remedy = "write the report's figure, or its words"
            report.add("", "reproduces: expected either reported or in_words", remedy)
        return report.build(partial(Reproduction, reported=None), ratio=_ratio(report, known))

    def agreement(entry: Row) -> Agreement | None:
        return entry.build(Agreement, ratio=_ratio(entry, known), theirs=entry.get("theirs") or entry.get("ratio"))

    _check_pair(row)
    return {
        schema.CLAIMS: _entries(row, schema.CLAIMS, claim),
        schema.CONTROLS: _entries(row, schema.CONTROLS, control),
        "reproduces": _entries(row, "reproduces", reproduction),
        "agrees": _entries(row, "agrees", agreement),
        "diagnoses": _read_diagnoses(row, known),
    }


def _check_pair(row: Row) -> None:
    """Claims without a control are not known to be able to fail; a control without claims shows nothing."""
    wanted = (row.record.field(key) for key in (schema.CLAIMS, schema.CONTROLS))
    lacking = [field for field in wanted if field and not row.entry(field.name)]
    # An unknown key may be the misspelt one.
    if len(lacking) == 1 and all(map(row.record.field, row.node.entries)):
        row.add("", f"scenario: {lacking[0].name} is missing", lacking[0].says)


def _entries(row: Row, section: str, read: Callable[[Row], T | None]) -> tuple[T, ...]:
    """The entries of a section, without those that have a mistake."""
    return tuple(entry for item in row.get(section, ()) if (entry := read(item)) is not None)


def _read_diagnoses(row: Row, known: Names) -> tuple[Diagnosis, ...]:
    """Diagnoses; one whose ratios begin with ``*.`` is one for each arm that has what they name."""
    diagnoses = []
    for diagnosis in row.get("diagnoses", ()):
        that, rows = diagnosis.get("that"), diagnosis.get("when", ())
        texts = [condition.get("ratio", "") for condition in rows]
        expects = [_expect(condition) for condition in rows]
        arms: tuple[str, ...] = ("",)
        if any(_EACH_ARM.search(text) for text in texts):
            fitting = tuple(arm for arm in known.arms if all(_fits(text, arm, known) for text in texts))
            # Where no arm has what they name, that is a mistake of the first one's.
            arms = fitting or known.arms[:1]
        for arm in arms:
            pairs = zip((_ratio(condition, known, arm) for condition in rows), expects, strict=True)
            conditions = tuple(Condition(ratio, expect) for ratio, expect in pairs if ratio and expect)
            if that is not None and rows and len(conditions) == len(rows):
                diagnoses.append(Diagnosis(that, conditions))
    return tuple(diagnoses)


def _fits(text: str, arm: str, known: Names) -> bool:
    with suppress(ExpressionError):
        parse_ratio(_EACH_ARM.sub(f"{arm}.", text), known)
        return True
    return False


def _kernels(row: Row) -> str:
    parsed(row, schema.KERNELS, parse_range)
    return str(row.get("kernels", ""))


def _ratio(row: Row, known: Names, arm: str = "") -> Ratio | None:
    def parse(text: str) -> Ratio:
        return parse_ratio(_EACH_ARM.sub(f"{arm}.", text) if arm else text, known)

    # Without arms or loads every name in a ratio is unknown.
    return parsed(row, schema.RATIO, parse, symptom=not known.arms or not known.loads)


def _expect(row: Row) -> Bound | None:
    return parsed(row, schema.EXPECT, parse_bound)


def parsed(row: Row, field: Field, parse: Callable[[str], T], *, symptom: bool = False) -> T | None:
    """The field's text as ``parse`` reads it; a RangeError becomes a problem at its position."""
    text, entry = row.get(field), row.entry(field.name)
    if text is None or entry is None:
        return None
    try:
        return parse(text)
    except RangeError as error:
        node = entry.value
        mark = node.inside(error.offset) if isinstance(node, Scalar) else node.mark
        place = f"{field.name}, character {error.offset + 1}"
        row.problems.add(mark, f"{place}: {error.message}", error.remedy, symptom=symptom)
        return None
