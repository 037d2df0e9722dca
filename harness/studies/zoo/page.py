# SPDX-License-Identifier: GPL-2.0-only
"""docs/results/zoo.md: detection of published regressions, and false alarms."""

from collections.abc import Iterator, Sequence

from harness.report import markdown
from harness.report.format import figure
from harness.studies.zoo.regressions import Regression
from harness.studies.zoo.score import NullPair, Sighting, Zoo, ZooSide
from harness.studies.zoo.table import reasons, summary

_PREFACE = """\
Each row is a published regression of the block layer: the ratio of the scenario that shows it, and whether it is good
or bad, on distribution kernels and on a build of one source with the mutant. Bold: not the side that was expected. `?`:
not measured, or the seeds disagree; the reason is below. A null pair is a kernel compared with itself under other
seeds: any difference is a false alarm.
"""


def zoo_page(regressions: Sequence[Regression], zoo: Zoo, qemu: str, command: str) -> str:
    """The page in Markdown; ``command`` generates it."""
    lines = [
        *markdown.head("Detection of published regressions", f"Generated from results by: {command}"),
        _PREFACE,
        *(f"- {' '.join(line.split())}" for line in summary(zoo)),
        "",
        *_sides(regressions, zoo),
        "",
        *(_described(one) for one in regressions),
        "",
        *markdown.section("Bad over good", _published(regressions, zoo)),
        *markdown.section("Unexpected or undecided", (f"- {line}" for line in reasons(zoo))),
        *markdown.section("Null pairs", _pairs(zoo.pairs)),
        f"Kernels: {', '.join(_stock(zoo))}. {qemu}. `{command}` measures what is missing.",
    ]
    return "\n".join(lines) + "\n"


def _stock(zoo: Zoo) -> list[str]:
    return list(dict.fromkeys(one.kernel for one in zoo.sightings if not one.by_mutant))


def _sides(regressions: Sequence[Regression], zoo: Zoo) -> Iterator[str]:
    columns = [*_stock(zoo), "mutant"]
    by_place = {(one.regression, "mutant" if one.by_mutant else one.kernel): one for one in zoo.sightings}
    rows = ((one.name, *(_cell(by_place.get((one.name, at))) for at in columns), one.good.text) for one in regressions)
    yield from markdown.table(("regression", *columns, "good is"), rows)


def _cell(one: Sighting | None) -> str:
    if one is None:
        return ""
    if one.found is ZooSide.UNKNOWN:
        return "?"
    shown = f"{figure(one.value)} {one.found}" if one.value is not None else str(one.found)
    return shown if one.found is one.expected else f"**{shown}, expected {one.expected}**"


def _described(one: Regression) -> str:
    mutant = f", mutant `{one.mutant}`" if one.mutant else ""
    return f"- [{one.name}]({one.link}): {one.that}. `{one.scenario.name}`{mutant}, {one.ratio.text}"


def _published(regressions: Sequence[Regression], zoo: Zoo) -> Iterator[str]:
    because = {one.name: one.because for one in regressions}
    rows = [
        (one.regression, figure(one.published), "?" if one.here is None else figure(one.here), because[one.regression])
        for one in zoo.publications
    ]
    if rows:
        yield from markdown.table(("regression", "published", "measured", "why they differ"), rows)


def _pairs(pairs: Sequence[NullPair]) -> Iterator[str]:
    rows = [
        (
            pair.scenario,
            pair.kernel,
            " + ".join(map(str, pair.seeds)),
            "; ".join(pair.alarms) or "-",
            ", ".join(pair.marked) or "-",
        )
        for pair in pairs
    ]
    if rows:
        yield from markdown.table(("scenario", "kernel", "seeds", "claims that differ", "figures that differ"), rows)
