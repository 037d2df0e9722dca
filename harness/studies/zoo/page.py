# SPDX-License-Identifier: GPL-2.0-only
"""docs/results/zoo.md: what the lab sees of published regressions, and what it sees where there is nothing."""

from collections.abc import Iterator, Sequence

from harness.report.format import figure
from harness.studies.zoo.regressions import Regression
from harness.studies.zoo.score import NullPair, Side, Sighting, Zoo
from harness.studies.zoo.table import reasons, summary

_PREFACE = """\
Each row is a published regression of the block layer: the ratio of the scenario that shows it, and the side on which
that puts a kernel, on stock kernels of a distribution and on a build of one source with the mutant. A cell in bold is
on another side than was expected, which is a finding; `?` was not measured, or the seeds disagree, and the reason
stands below. A null pair is a kernel against itself under other seeds: whatever differs there is a false alarm.
"""


def zoo_page(regressions: Sequence[Regression], zoo: Zoo, qemu: str, command: str) -> str:
    """The page in Markdown. ``command`` made it."""
    lines = [
        "<!-- SPDX-License-Identifier: GPL-2.0-only -->",
        f"<!-- Made from results by: {command} -->",
        "# What the lab sees of published regressions",
        "",
        _PREFACE,
        *(f"- {' '.join(line.split())}" for line in summary(zoo)),
        "",
        *_sides(regressions, zoo),
        "",
        *(_described(one) for one in regressions),
        "",
        *_section("Bad over good", _published(regressions, zoo)),
        *_section("What is not as expected, or could not be said", (f"- {line}" for line in reasons(zoo))),
        *_section("Null pairs", _pairs(zoo.pairs)),
        f"Kernels: {', '.join(_stock(zoo))}. {qemu}. `{command}` measures what was not measured yet.",
    ]
    return "\n".join(lines) + "\n"


def _section(title: str, body: Iterator[str]) -> Iterator[str]:
    lines = list(body)
    if lines:
        yield from (f"## {title}", "", *lines, "")


def _stock(zoo: Zoo) -> list[str]:
    return list(dict.fromkeys(one.kernel for one in zoo.sightings if not one.by_mutant))


def _sides(regressions: Sequence[Regression], zoo: Zoo) -> Iterator[str]:
    columns = [*_stock(zoo), "mutant"]
    by_place = {(one.regression, "mutant" if one.by_mutant else one.kernel): one for one in zoo.sightings}
    yield f"| regression | {' | '.join(columns)} | good is |"
    yield "|---|" + "---|" * len(columns) + "---|"
    for one in regressions:
        cells = " | ".join(_cell(by_place.get((one.name, column))) for column in columns)
        yield f"| {one.name} | {cells} | {one.good.text} |"


def _cell(one: Sighting | None) -> str:
    if one is None:
        return ""
    if one.found is Side.UNKNOWN:
        return "?"
    shown = f"{figure(one.value)} {one.found}" if one.value is not None else str(one.found)
    return shown if one.found is one.expected else f"**{shown}, expected {one.expected}**"


def _described(one: Regression) -> str:
    mutant = f", mutant `{one.mutant}`" if one.mutant else ""
    return f"- [{one.name}]({one.link}): {one.that}. `{one.scenario.name}`{mutant}, {one.ratio.text}"


def _published(regressions: Sequence[Regression], zoo: Zoo) -> Iterator[str]:
    because = {one.name: one.because for one in regressions}
    for number, one in enumerate(zoo.publications):
        if number == 0:
            yield "| regression | published | here | why it is another |"
            yield "|---|---|---|---|"
        here = "?" if one.here is None else figure(one.here)
        yield f"| {one.regression} | {figure(one.published)} | {here} | {because[one.regression]} |"


def _pairs(pairs: Sequence[NullPair]) -> Iterator[str]:
    for number, pair in enumerate(pairs):
        if number == 0:
            yield "| scenario | kernel | seeds | claims that differ | figures that compare marks |"
            yield "|---|---|---|---|---|"
        seeds = " + ".join(map(str, pair.seeds))
        differs, marked = "; ".join(pair.alarms) or "-", ", ".join(pair.marked) or "-"
        yield f"| {pair.scenario} | {pair.kernel} | {seeds} | {differs} | {marked} |"
