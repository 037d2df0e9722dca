# SPDX-License-Identifier: GPL-2.0-only
"""The claims, controls and reported ratios of a scenario file, with every name resolved."""

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from harness.scenario import schema
from harness.scenario.model import (
    Agreement,
    Bound,
    Claim,
    Condition,
    Control,
    Diagnosis,
    KnownFailure,
    Load,
    Ratio,
    Reproduction,
)
from harness.scenario.ratio import ExpressionError, Names, lacking, parse_bound, parse_ratio, sampled_names
from lab.kernels import mutants
from lab.kernels.release import RangeError, parse_range
from lab.topology.model import Topology
from lab.yaml.fields import Field, Row
from lab.yaml.strict import Map, Node, Scalar, names, nearest

T = TypeVar("T")
_EACH_ARM = re.compile(r"(?<![^\s/])\*\.")


def known_names(row: Row, topologies: Mapping[str, Topology], sound: Iterable[Load]) -> Names:
    """The arms, loads and roles in the file, including those with a mistake, so that no mistake is reported twice."""
    loads = {
        name: tuple(role for role in _members(load) if role not in schema.LOAD_KEYS)
        for name, load in _members(row.node, "loads").items()
    }
    arms = _members(row.node, "arms")
    tried = {arm: tuple(_members(value, "try")) for arm, value in arms.items() if "try" in _members(value)}
    sampled = {arm: sampled_names(topology) for arm, topology in topologies.items()}
    return Names(tuple(arms), loads, lacking(sound), tried, sampled)


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
        return entry.build(Claim, known=_entries(entry, "known", _known_failure), **judged(entry))

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


def _known_failure(row: Row) -> KnownFailure | None:
    return row.build(KnownFailure, kernels=_kernels(row))


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
