# SPDX-License-Identifier: GPL-2.0-only
"""The claims, controls and reported ratios of a scenario file, with every name resolved."""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TypeVar

from harness.scenario import schema
from harness.scenario.model import (
    MIXED,
    Agreement,
    Bound,
    Claim,
    Clock,
    Condition,
    Control,
    Diagnosis,
    KnownFailure,
    Ratio,
    Reproduction,
)
from harness.scenario.ratio import ExpressionError, Names, parse_bound, parse_ratio, sampled_names
from lab.kernels.ranges import RangeError, parse_range
from lab.topology.model import Topology
from lab.yaml.fields import Field, Row
from lab.yaml.strict import Entry, Map, Node, Scalar

T = TypeVar("T")
_EACH_ARM = re.compile(r"(?<![^\s/])\*\.")


def known_names(row: Row, topologies: Mapping[str, Topology]) -> Names:
    """The arms, loads and roles in the file, including those with a mistake, so that no mistake is reported twice."""
    loads: dict[str, tuple[str, ...]] = {}
    mixed: set[tuple[str, str]] = set()
    for name, value in _members(row, "loads").items():
        members: Mapping[str, Entry] = value.entries if isinstance(value, Map) else {}
        loads[name] = tuple(role for role in members if role not in schema.LOAD_KEYS)
        mixed.update((name, role) for role in loads[name] if _mixes(members[role].value))
    arms = _members(row, "arms")
    tried = {arm: tuple(settings.entries) for arm, value in arms.items() if (settings := _tried(value)) is not None}
    return Names(
        tuple(arms),
        loads,
        frozenset(mixed),
        tried,
        noisy=_text(row, schema.CLOCK.name) == Clock.WALL,
        sampled={arm: sampled_names(topology) for arm, topology in topologies.items()},
    )


def _text(row: Row, key: str) -> str:
    entry = row.entry(key)
    return entry.value.text if entry is not None and isinstance(entry.value, Scalar) else ""


def _tried(arm: object) -> Map | None:
    entry = arm.entries.get(schema.TRY.name) if isinstance(arm, Map) else None
    return entry.value if entry is not None and isinstance(entry.value, Map) else None


def _mixes(role: Node) -> bool:
    rw = role.entries.get(schema.RW.name) if isinstance(role, Map) else None
    return rw is not None and isinstance(rw.value, Scalar) and rw.value.text in MIXED


def _members(row: Row, key: str) -> dict[str, object]:
    entry = row.entry(key)
    if entry is None or not isinstance(entry.value, Map):
        return {}
    return {name: member.value for name, member in entry.value.entries.items()}


def read_claims(row: Row, known: Names) -> tuple[Claim, ...]:
    claims = []
    for claim in row.get(schema.CLAIMS) or ():
        that, ratio, expect = claim.get(schema.THAT), _ratio(claim, known), _bound(claim)
        optional, draft = claim.value(schema.OPTIONAL), claim.value(schema.DRAFT)
        means, otherwise = claim.value(schema.MEANS), claim.value(schema.OTHERWISE)
        known_failures, kernels = _known_failures(claim), _only_on(claim)
        if that is not None and ratio is not None and expect is not None:
            claims.append(Claim(that, ratio, expect, optional, means, otherwise, known_failures, kernels, draft))
    return tuple(claims)


def read_controls(row: Row, known: Names) -> tuple[Control, ...]:
    controls = []
    for control in row.get(schema.CONTROLS) or ():
        that, ratio, expect = control.get(schema.THAT), _ratio(control, known), _bound(control)
        mutant = control.value(schema.MUTANT)
        if that is not None and ratio is not None and expect is not None:
            hangs = control.get_or(schema.HANGS, False)
            controls.append(Control(that, ratio, expect, mutant, _only_on(control), hangs))
    return tuple(controls)


def read_diagnoses(row: Row, known: Names) -> tuple[Diagnosis, ...]:
    """Diagnoses; one whose ratios begin with ``*.`` is one for each arm that has what they name."""
    found = []
    for one in row.get(schema.DIAGNOSES) or ():
        that, rows = one.get(schema.THAT), one.get(schema.WHEN) or []
        texts = [condition.get_or(schema.RATIO, "") for condition in rows]
        expects = [_bound(condition) for condition in rows]
        arms: tuple[str, ...] = ("",)
        if any(_EACH_ARM.search(text) for text in texts):
            fitting = tuple(arm for arm in known.arms if all(_fits(text, arm, known) for text in texts))
            # Where no arm has what they name, that is a mistake of the first one's.
            arms = fitting or known.arms[:1]
        for arm in arms:
            pairs = zip((_ratio(condition, known, arm) for condition in rows), expects, strict=True)
            conditions = tuple(Condition(ratio, expect) for ratio, expect in pairs if ratio and expect)
            if that is not None and rows and len(conditions) == len(rows):
                found.append(Diagnosis(that, conditions))
    return tuple(found)


def _fits(text: str, arm: str, known: Names) -> bool:
    with suppress(ExpressionError):
        parse_ratio(_EACH_ARM.sub(f"{arm}.", text), known)
        return True
    return False


def read_reproductions(row: Row, known: Names) -> tuple[Reproduction, ...]:
    found = []
    for one in row.get(schema.REPRODUCES) or ():
        that, ratio, reported = one.get(schema.THAT), _ratio(one, known), one.get(schema.REPORTED)
        in_words, because = one.value(schema.IN_WORDS), one.value(schema.BECAUSE_OFF)
        if (one.entry(schema.REPORTED.name) is None) == (one.entry(schema.IN_WORDS.name) is None):
            row.problems.add(
                one.mark, "reproduces: expected either reported or in_words", "write the report's figure, or its words"
            )
        elif that is not None and ratio is not None:
            found.append(Reproduction(that, ratio, reported, in_words, because))
    return tuple(found)


def read_agreements(row: Row, known: Names) -> tuple[Agreement, ...]:
    found = []
    for one in row.get(schema.AGREES) or ():
        that, ratio, twin = one.get(schema.THAT), _ratio(one, known), one.get(schema.TWIN)
        theirs, because = one.get(schema.THEIRS), one.value(schema.BECAUSE_APART)
        if that is not None and ratio is not None and twin is not None:
            found.append(Agreement(that, ratio, twin, theirs or ratio.text, because))
    return tuple(found)


def _only_on(row: Row) -> str:
    kernels = row.get_or(schema.ONLY_ON, "")
    parsed(row, schema.ONLY_ON, parse_range)
    return kernels


def _known_failures(claim: Row) -> tuple[KnownFailure, ...]:
    found = []
    for row in claim.get(schema.KNOWN) or ():
        because, link = row.get(schema.BECAUSE), row.get(schema.LINK)
        kernels = row.get(schema.KERNELS)
        sound = parsed(row, schema.KERNELS, parse_range) is not None
        if sound and kernels is not None and because is not None and link is not None:
            found.append(KnownFailure(kernels, because, link))
    return tuple(found)


def _ratio(row: Row, known: Names, arm: str = "") -> Ratio | None:
    # Without arms or loads every name in a ratio is unknown.
    unusable = not known.arms or not known.loads
    return parsed(
        row,
        schema.RATIO,
        lambda text: parse_ratio(_EACH_ARM.sub(f"{arm}.", text) if arm else text, known),
        symptom=unusable,
    )


def _bound(row: Row) -> Bound | None:
    return parsed(row, schema.EXPECT, parse_bound)


def parsed(row: Row, field: Field[str], parse: Callable[[str], T], *, symptom: bool = False) -> T | None:
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
