# SPDX-License-Identifier: GPL-2.0-only
"""Evidence as rows: from scenario files, and from scenarios/evidence/*.yaml what belongs to no single scenario."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache, partial
from pathlib import Path
from typing import Any

from harness.judge.cells import arms_needed
from harness.limits.entries import implied, killers, load_scenario
from harness.report.models import CALIBRATION
from harness.scenario import load, schema
from harness.scenario.load import Refused, find_scenarios, parsed, variant
from harness.scenario.model import Agreement, Bound, Claim, Control, Ratio, Reproduction, Scenario, is_in
from harness.scenario.ratio import ExpressionError, names_of, parse_bound, parse_ratio
from lab.base.errors import InputErrors, Misuse
from lab.kernels.model import RANGE_PATTERN, RangeError, parse_range
from lab.topology.limits import refusals
from lab.topology.parameters import multiplied
from lab.yaml.fields import Choice, Field, ListOf, Number, Record, Row, Text, name_text
from lab.yaml.strict import Broken, Problems, nearest, parse, read_bytes, shown_path
from tools.command import command

FACTORS = (0.8, 1.0, 1.25)
"""What a fitted parameter is multiplied by."""
WALL, ROWS = "wall", "evidence"
"""Folders of the scenarios."""
COMMAND = command("evidence")


class Topic(StrEnum):
    """What a row is evidence of; the words of ``tools.evidence``. NOISE has no rows."""

    CONTROLS = "controls"
    ZOO = "zoo"
    CLOCKS = "clocks"
    SENSITIVITY = "sensitivity"
    REPORTS = "reports"
    NOISE = "noise"


class RowSide(StrEnum):
    """Within the expected range (good) or outside (bad). UNKNOWN: not measured, or the seeds disagree."""

    GOOD = "good"
    BAD = "bad"
    UNKNOWN = "unknown"


@dataclass(frozen=True, eq=False)
class EvidenceRow:
    """``ratio`` is within ``expect`` (None: it is only shown) on every kernel but those of the ranges ``bad_on``.

    ``entry`` is the claim or the control of the scenario file that the row is. ``mutant`` is the patch that the row
    is also measured with (a control: only with it), and ``mutant_is`` the side there. ``also`` are specs of further
    kernels. ``published`` is what a report says of ``figure``: of the bad side over the good one, or with a
    ``decision``, which says why no kernel is bad, on one kernel; of a field report it is ``ratio`` itself, or
    ``in_words``. ``twin`` has ``figure`` on the virtual clock. ``because`` says why the measured value differs.
    ``parameter`` was multiplied by ``factor`` in the scenario.
    """

    topic: Topic
    name: str
    that: str
    scenario: Scenario
    ratio: Ratio
    expect: Bound | None = None
    entry: Claim | Control | None = None
    bad_on: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    mutant: str = ""
    mutant_is: RowSide = RowSide.BAD
    figure: Ratio | None = None
    published: float | None = None
    in_words: str = ""
    link: str = ""
    because: str = ""
    decision: str = ""
    twin: Scenario | None = None
    parameter: str = ""
    factor: float = 1.0

    def side_of(self, release: str, mutant: str = "") -> RowSide:
        """The side of a kernel, or of the source with the row's mutant."""
        if mutant:
            return self.mutant_is
        return RowSide.BAD if any(is_in(release, kernels) for kernels in self.bad_on) else RowSide.GOOD

    @property
    def ratios(self) -> tuple[Ratio, ...]:
        """Those of ``scenario``."""
        return (self.ratio,) if self.figure is None or self.twin else (self.ratio, self.figure)


def arms_of(rows: Sequence[EvidenceRow]) -> tuple[str, ...]:
    """The arms that rows of one scenario need, in its order."""
    needed = arms_needed(ratio for row in rows for ratio in row.ratios)
    return tuple(arm for arm in rows[0].scenario.arms if arm in needed) if rows else ()


def by_scenario(rows: Iterable[EvidenceRow]) -> list[list[EvidenceRow]]:
    """The rows of each scenario; variants of one name are several."""
    groups: dict[int, list[EvidenceRow]] = {}
    for row in rows:
        groups.setdefault(id(row.scenario), []).append(row)
    return [*groups.values()]


def _row(topic: Topic, scenario: Scenario, of: Claim | Control | Reproduction | Agreement, **more: Any) -> EvidenceRow:
    return EvidenceRow(topic, scenario.name, of.that, scenario, of.ratio, **more)


def claim_rows(scenario: Scenario) -> Iterator[EvidenceRow]:
    """The claims and the controls of a scenario."""
    for claim in scenario.claims:
        known = tuple(failure.kernels for failure in claim.known)
        yield _row(Topic.CONTROLS, scenario, claim, expect=claim.expect, entry=claim, bad_on=known)
    for control in scenario.controls:
        of_mutant = {"mutant": control.mutant, "mutant_is": RowSide.GOOD}
        yield _row(Topic.CONTROLS, scenario, control, expect=control.expect, entry=control, **of_mutant)


def report_rows(scenario: Scenario) -> Iterator[EvidenceRow]:
    """The ratios of the field report that a scenario reproduces."""
    link = scenario.source.link if scenario.source else ""
    for entry in scenario.reproduces:
        report = {"published": entry.reported, "in_words": entry.in_words, "link": link, "because": entry.because}
        yield _row(Topic.REPORTS, scenario, entry, **report)


def clock_rows(scenario: Scenario, search: Path) -> Iterator[EvidenceRow]:
    """The ratios that a scenario of the wall clock shares with one of the virtual clock. Raises Misuse."""
    for entry in scenario.agrees:
        twin = load_scenario(entry.scenario, search=search)
        place = f"{scenario.name}: agrees:"
        if not twin.timing.exact:
            raise Misuse(f"{place} {twin.name} is on the {twin.clock} clock", remedy="name one on the virtual clock")
        try:
            theirs = parse_ratio(entry.theirs, names_of(twin))
        except ExpressionError as error:
            where = f"{place} theirs, character {error.offset + 1}"
            raise Misuse(f"{where}: {error.message} in {twin.name}", remedy=error.remedy) from error
        yield _row(Topic.CLOCKS, scenario, entry, figure=theirs, because=entry.because, twin=twin)


def sensitivity_rows(scenario: Scenario) -> Iterator[EvidenceRow]:
    """Each reproduced ratio with each fitted parameter at each of FACTORS times its value. Raises Misuse."""
    if not scenario.reproduces:
        return
    origins = [origin for arm in scenario.arms.values() for origin in arm.topology.origins]
    for parameter in dict.fromkeys(origin.of for origin in origins if origin.kind == "fitted"):
        for factor in FACTORS:
            changed = multiply(scenario, parameter, factor)
            for row in report_rows(changed):
                yield replace(row, topic=Topic.SENSITIVITY, name=scenario.name, parameter=parameter, factor=factor)


def multiply(scenario: Scenario, parameter: str, factor: float) -> Scenario:
    """The arms of reproduced ratios with the parameter changed, without claims. Raises Misuse beyond a limit."""
    needed = arms_needed(entry.ratio for entry in scenario.reproduces)
    arms = {}
    for name, arm in scenario.arms.items():
        if name in needed:
            topology = multiplied(arm.topology, parameter, factor)
            for reason in refusals(topology):
                raise Misuse(
                    f"{parameter} cannot be {factor:g} times as large: {reason}",
                    remedy="mark the parameter as chosen, or widen a limit",
                )
            arms[name] = replace(arm, topology=topology)
    return variant(scenario, Topic.SENSITIVITY, arms=arms, claims=(), controls=())


def unproven(scenario: Scenario) -> Iterator[Refused]:
    """Claims that implied ones do not explain and that no row makes fail."""
    yield from implied(scenario)
    for index, claim in enumerate(scenario.claims):
        if not killers(scenario, claim):
            yield Refused("claims", index, "no row makes this claim fail", "add a control: an arm, load or mutant")


def shipped_scenarios(search: Path) -> tuple[Scenario, ...]:
    """The scenarios of ``search``, the calibrations and those of the wall clock, without selftests.

    Raises InputErrors with all mistakes; a claim that nothing makes fail is one.
    """
    loaded: list[Scenario] = []
    problems: list[InputErrors] = []
    for folder in (search, search / CALIBRATION, search / WALL):
        for path in find_scenarios(folder).values():
            try:
                loaded.append(load.read_scenario(str(path), search=search, check=unproven))
            except InputErrors as error:
                problems.append(error)
    if problems:
        raise InputErrors([problem for error in problems for problem in error.problems])
    return tuple(scenario for scenario in loaded if scenario.selftest is None)


def load_rows(search: Path) -> tuple[EvidenceRow, ...]:
    """Every row of every topic. Raises InputErrors with all mistakes, Misuse for a wrong twin or parameter."""
    scenarios = shipped_scenarios(search)
    rows = [row for scenario in scenarios for row in claim_rows(scenario)]
    rows += load_zoo(search)
    for scenario in scenarios:
        rows += [*clock_rows(scenario, search), *report_rows(scenario), *sensitivity_rows(scenario)]
    return tuple(rows)


_NAME = Field("row", name_text(), "its name", required=True)
_SCENARIO = Field("scenario", name_text(), "the scenario that shows it", required=True)
_BAD_ON = Field("bad_on", ListOf(Text('kernels such as "< 5.14"', RANGE_PATTERN)), "kernels outside the range")
_MUTANT_IS = Field("mutant_is", Choice((RowSide.BAD, RowSide.GOOD)), "whether the mutant is bad (default) or good")
_FIGURE = Field("figure", schema.RATIO.kind, "what the publication compares")
_PUBLISHED = Field("published", Number(0, 1e6), "that figure on the bad side over the good one")
_ALSO = Field("also", ListOf(Text("a packaged kernel such as debian:6.17")), "further kernels that it is shown on")
_DECISION = Field("decision", Text("a sentence"), "why this is no regression, and no kernel is bad")
_ROW_KEYS = (schema.THAT, schema.LINK, schema.RATIO, schema.EXPECT, schema.MUTANT, schema.BECAUSE_OFF)
_ROW = Record((_NAME, _SCENARIO, *_ROW_KEYS, _BAD_ON, _MUTANT_IS, _FIGURE, _PUBLISHED, _DECISION, _ALSO))
_LIST = Field("rows", ListOf(_ROW, least=1), required=True)
_OUT_OF_SCOPE = Field(
    "out_of_scope", ListOf(Record((schema.THAT, schema.LINK, schema.BECAUSE))), "what the lab cannot show"
)
_FILE = Record((_LIST, _OUT_OF_SCOPE))


def load_zoo(search: Path) -> tuple[EvidenceRow, ...]:
    """The rows of scenarios/evidence. Raises InputErrors with all mistakes."""
    known, problems, values = find_scenarios(search), Problems(), list[EvidenceRow | None]()
    scenario_of = cache(partial(load_scenario, search=search))
    for file in _files(search, problems):
        values += [_read_row(row, known, scenario_of) for row in file.get(_LIST, [])]
    problems.raise_if_any()
    return tuple(value for value in values if value is not None)


def load_out_of_scope(search: Path) -> list[tuple[str, str, str]]:
    """What was published, its link and why the lab cannot show it. Raises InputErrors."""
    problems, keys = Problems(), (schema.THAT, schema.LINK, schema.BECAUSE)
    rows = [row for file in _files(search, problems) for row in file.get(_OUT_OF_SCOPE, [])]
    problems.raise_if_any()
    return [(row.get(keys[0], ""), row.get(keys[1], ""), row.get(keys[2], "")) for row in rows]


def _files(search: Path, problems: Problems) -> Iterator[Row]:
    for path in sorted((search / ROWS).glob("*.yaml")):
        node = parse(read_bytes(path, "list of rows"), shown_path(path), problems)
        if not isinstance(node, Broken) and (file := _FILE.read(problems, "rows", node)):
            yield file


def _read_row(row: Row, known: Mapping[str, Path], scenario_of: Callable[[str], Scenario]) -> EvidenceRow | None:
    name, that, link, scenario_name = row.get(_NAME), row.get(schema.THAT), row.get(schema.LINK), row.get(_SCENARIO)
    if scenario_name is None:
        return None
    if scenario_name not in known:
        row.add(_SCENARIO.name, f"there is no scenario {scenario_name}{nearest(scenario_name, known)}")
        return None
    scenario = scenario_of(scenario_name)
    names = names_of(scenario)
    ratio, figure = (parsed(row, field, lambda text: parse_ratio(text, names)) for field in (schema.RATIO, _FIGURE))
    expect, bad_on = parsed(row, schema.EXPECT, parse_bound), _ranges(row)
    mutant, published, decision = row.get(schema.MUTANT, ""), row.get(_PUBLISHED), row.get(_DECISION, "")
    if published is not None and (row.entry(_FIGURE.name) is None or not (mutant or bad_on or decision)):
        row.add(_PUBLISHED.name, "published: needs a figure, and a bad side or a decision")
    if decision and (mutant or bad_on):
        row.add(_DECISION.name, "decision: with one, no kernel is bad (remove bad_on and mutant)")
    if name is None or that is None or link is None or ratio is None or expect is None:
        return None
    more = {"bad_on": bad_on, "also": tuple(row.get(_ALSO, [])), "link": link, "decision": decision}
    more |= {"figure": figure, "published": published, "because": row.get(schema.BECAUSE_OFF, ""), "mutant": mutant}
    side = RowSide(row.get(_MUTANT_IS, RowSide.BAD))
    return EvidenceRow(Topic.ZOO, name, that, scenario, ratio, expect, mutant_is=side, **more)


def _ranges(row: Row) -> tuple[str, ...]:
    ranges = tuple(row.get(_BAD_ON, []))
    for kernels in ranges:
        try:
            parse_range(kernels)
        except RangeError as error:
            row.add(_BAD_ON.name, f"{_BAD_ON.name}: {error.message}", error.remedy)
    return ranges
