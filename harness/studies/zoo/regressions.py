# SPDX-License-Identifier: GPL-2.0-only
"""The zoo: published regressions, each with the scenario, the ratio and the mutant that show it."""

from dataclasses import dataclass
from pathlib import Path

from harness.limits.load import load_scenario
from harness.scenario import schema
from harness.scenario.claims import parsed
from harness.scenario.load import find_scenarios
from harness.scenario.model import Bound, Ratio, Scenario
from harness.scenario.ratio import names_of, parse_bound, parse_ratio
from lab.kernels.ranges import RANGE_PATTERN, RangeError, parse_range
from lab.yaml.fields import Choice, Field, ListOf, Number, Record, Row, Text, name_text
from lab.yaml.strict import Broken, Problems, nearest, parse, read_bytes, shown_path

BAD, GOOD = "bad", "good"


@dataclass(frozen=True)
class Regression:
    """``ratio`` is within ``good`` on a kernel without the bug. ``bad_on`` are the ranges of stock kernels with it.

    ``mutant`` restores the bug, or removes it where ``mutant_is`` is ``good``; empty without one. ``published`` is
    ``figure`` on the bad side over that on the good side, from the source; None without one. ``because`` says why
    the measured value differs. ``also`` are specs of further stock kernels, next to a release in which it changes.
    ``decision`` says why a report is no regression: no kernel is bad, and ``figure`` is
    what was reported, on one kernel.
    """

    name: str
    that: str
    link: str
    scenario: Scenario
    ratio: Ratio
    good: Bound
    bad_on: tuple[str, ...] = ()
    mutant: str = ""
    mutant_is: str = BAD
    figure: Ratio | None = None
    published: float | None = None
    because: str = ""
    decision: str = ""
    also: tuple[str, ...] = ()

    @property
    def ratios(self) -> tuple[Ratio, ...]:
        return (self.ratio,) if self.figure is None else (self.ratio, self.figure)


_NAME = Field("regression", name_text(), "its name", required=True)
_SCENARIO = Field("scenario", name_text(), "the scenario that shows it", required=True)
_GOOD = Field("good", schema.EXPECT.kind, "the ratio's bound on a kernel without the bug", required=True)
_BAD_ON = Field("bad_on", ListOf(Text('kernels such as "< 5.14"', RANGE_PATTERN)), "stock kernels with the bug")
_MUTANT_IS = Field("mutant_is", Choice((BAD, GOOD)), "whether the mutant is bad (default) or good")
_FIGURE = Field("figure", schema.RATIO.kind, "what the publication compares")
_PUBLISHED = Field("published", Number(0, 1e6), "that figure on the bad side over the good one")
_ALSO = Field(
    "also", ListOf(Text("a packaged kernel such as debian:6.17")), "further stock kernels that it is shown on"
)
_DECISION = Field("decision", Text("a sentence"), "why this is no regression, and no kernel is bad")
_REGRESSION = Record(
    (
        _NAME,
        schema.THAT,
        schema.LINK,
        _SCENARIO,
        schema.RATIO,
        _GOOD,
        _BAD_ON,
        schema.MUTANT,
        _MUTANT_IS,
        _FIGURE,
        _PUBLISHED,
        schema.BECAUSE_OFF,
        _DECISION,
        _ALSO,
    )
)
_REGRESSIONS = Field("regressions", ListOf(_REGRESSION, least=1), required=True)
_OUT_OF_SCOPE = Field(
    "out_of_scope", ListOf(Record((schema.THAT, schema.LINK, schema.BECAUSE))), "regressions that the lab cannot show"
)
_FILE = Record((_REGRESSIONS, _OUT_OF_SCOPE))


def load_regressions(path: Path, *, search: Path) -> tuple[Regression, ...]:
    """All of a file, with their scenarios from the folder ``search``. Raises InputErrors with all mistakes."""
    problems = Problems()
    node = parse(read_bytes(path, "list of regressions"), shown_path(path), problems)
    row = None if isinstance(node, Broken) else _FILE.read(problems, "regressions", node)
    known = find_scenarios(search)
    scenarios: dict[str, Scenario] = {}
    found = [_regression(one, known, scenarios, search) for one in (row.get(_REGRESSIONS) or () if row else ())]
    problems.raise_if_any()
    return tuple(one for one in found if one is not None)


@dataclass(frozen=True)
class OutOfScope:
    """A published regression that the lab cannot show, and why."""

    that: str
    link: str
    because: str


def load_out_of_scope(path: Path) -> tuple[OutOfScope, ...]:
    """What the list of regressions names as out of scope. Raises InputErrors."""
    problems = Problems()
    row = _FILE.read(
        problems, "regressions", parse(read_bytes(path, "list of regressions"), shown_path(path), problems)
    )
    problems.raise_if_any()
    rows = (row.get(_OUT_OF_SCOPE) or ()) if row else ()
    return tuple(
        OutOfScope(one.get_or(schema.THAT, ""), one.get_or(schema.LINK, ""), one.get_or(schema.BECAUSE, ""))
        for one in rows
    )


def _ranges(row: Row) -> tuple[str, ...]:
    found = tuple(row.get_or(_BAD_ON, []))
    for one in found:
        try:
            parse_range(one)
        except RangeError as error:
            row.problems.add(row.place(_BAD_ON.name), f"{_BAD_ON.name}: {error.message}", error.remedy)
    return found


def _regression(row: Row, known: dict[str, Path], scenarios: dict[str, Scenario], search: Path) -> Regression | None:
    name, that, link, ref = row.get(_NAME), row.get(schema.THAT), row.get(schema.LINK), row.get(_SCENARIO)
    if ref is None:
        return None
    if ref not in known:
        row.problems.add(row.place(_SCENARIO.name), f"there is no scenario {ref}{nearest(ref, known)}")
        return None
    if ref not in scenarios:
        scenarios[ref] = load_scenario(ref, search=search)
    scenario = scenarios[ref]
    names = names_of(scenario)
    ratio = parsed(row, schema.RATIO, lambda text: parse_ratio(text, names))
    figure = parsed(row, _FIGURE, lambda text: parse_ratio(text, names))
    good = parsed(row, _GOOD, parse_bound)
    bad_on = _ranges(row)
    mutant, published = row.get_or(schema.MUTANT, ""), row.get(_PUBLISHED)
    decision = row.get_or(_DECISION, "")
    if published is not None and (row.entry(_FIGURE.name) is None or not (mutant or bad_on or decision)):
        row.problems.add(row.place(_PUBLISHED.name), "published: needs a figure, and a bad side or a decision")
    if decision and (mutant or bad_on):
        row.problems.add(row.place(_DECISION.name), "decision: with one, no kernel is bad (remove bad_on and mutant)")
    if name is None or that is None or link is None or ratio is None or good is None:
        return None
    side, because = row.get_or(_MUTANT_IS, BAD), row.get_or(schema.BECAUSE_OFF, "")
    also = tuple(row.get_or(_ALSO, []))
    return Regression(
        name, that, link, scenario, ratio, good, bad_on, mutant, side, figure, published, because, decision, also
    )
