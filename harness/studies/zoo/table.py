# SPDX-License-Identifier: GPL-2.0-only
"""The zoo on the terminal: regression x kernel, published and measured ratios, alarms of null pairs."""

from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.report.format import figure, plural
from harness.studies.zoo.regressions import Regression
from harness.studies.zoo.score import Sighting, Zoo, ZooSide

_STYLES = {ZooSide.BAD: "bold", ZooSide.GOOD: "", ZooSide.UNKNOWN: "dim"}


def print_zoo(console: Console, regressions: Sequence[Regression], zoo: Zoo) -> None:
    """A row for each regression, a column for each kernel: ratio and side; ``!`` where the other was expected."""
    console.print(_sides(regressions, zoo))
    console.print("! not the side that was expected; ? not measured, or the seeds disagree\n")
    if zoo.publications:
        console.print(_published(regressions, zoo))
    for line in reasons(zoo):
        console.print(Text(line, "dim"), soft_wrap=True, highlight=False)
    for line in summary(zoo):
        console.print(Text(line), soft_wrap=True, highlight=False)


def _sides(regressions: Sequence[Regression], zoo: Zoo) -> Table:
    stock = list(dict.fromkeys(one.kernel for one in zoo.sightings if not one.by_mutant))
    table = Table(title="published regressions")
    table.add_column("regression", no_wrap=True)
    for kernel in (*stock, "mutant"):
        table.add_column(kernel, justify="right")
    table.add_column("good is", no_wrap=True)
    by_place = {(one.regression, "mutant" if one.by_mutant else one.kernel): one for one in zoo.sightings}
    for one in regressions:
        cells = [_cell(by_place.get((one.name, kernel))) for kernel in (*stock, "mutant")]
        table.add_row(one.name, *cells, one.good.text)
    return table


def _cell(one: Sighting | None) -> Text:
    if one is None:
        return Text("")
    if one.found is ZooSide.UNKNOWN:
        return Text("?", _STYLES[one.found])
    shown = "" if one.value is None else f"{figure(one.value)} "
    return Text(f"{shown}{one.found}{'' if one.found is one.expected else ' !'}", _STYLES[one.found])


def _published(regressions: Sequence[Regression], zoo: Zoo) -> Table:
    known: Mapping[str, Regression] = {one.name: one for one in regressions}
    table = Table(title="bad / good")
    for head in ("regression", "published", "measured", "why they differ"):
        table.add_column(head, no_wrap=head != "why they differ")
    for one in zoo.publications:
        here = "?" if one.here is None else figure(one.here)
        table.add_row(one.regression, figure(one.published), here, known[one.regression].because)
    return table


def reasons(zoo: Zoo) -> Iterator[str]:
    for one in zoo.undecided:
        yield f"{one.regression} on {one.kernel}: {one.reason}"
    for one in (*zoo.missed, *zoo.false_alarms):
        yield f"{one.regression} on {one.kernel}: {one.found}, expected {one.expected}"
    for pair in zoo.pairs:
        for alarm in pair.alarms:
            yield f"{pair.scenario} on {pair.kernel} against itself: {alarm}"
        for marked in pair.marked:
            yield f"{pair.scenario} on {pair.kernel} against itself: {marked} differs"


def summary(zoo: Zoo) -> Iterator[str]:
    expected = len(zoo.detected) + len(zoo.missed)
    good = sum(one.expected is ZooSide.GOOD and one.found is not ZooSide.UNKNOWN for one in zoo.sightings)
    alarmed = sum(bool(pair.alarms) for pair in zoo.pairs)
    marked = sum(bool(pair.marked) for pair in zoo.pairs)
    yield f"detected      {len(zoo.detected)} of {expected} where the bad side was expected"
    yield f"false alarms  {len(zoo.false_alarms)} of {good} where the good side was expected"
    pairs = plural(len(zoo.pairs), "pair")
    yield f"null pairs    {alarmed} of {pairs} with a claim that differs, {marked} with a marked figure"
