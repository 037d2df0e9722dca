# SPDX-License-Identifier: GPL-2.0-only
"""docs/results/zoo.md: detection of published regressions, and false alarms."""

from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from harness.report import markdown
from harness.report.format import figure, plural
from harness.studies.zoo.regressions import OutOfScope, Regression
from harness.studies.zoo.score import NullPair, Sighting, Zoo, ZooSide

_STYLES = {ZooSide.BAD: "bold", ZooSide.GOOD: "", ZooSide.UNKNOWN: "dim"}


def print_zoo(console: Console, regressions: Sequence[Regression], zoo: Zoo) -> None:
    """A row for each regression, a column for each kernel: ratio and side; ``!`` where the other was expected."""
    console.print(_sides_table(regressions, zoo))
    console.print("! not the side that was expected; ? not measured, or the seeds disagree\n")
    if zoo.publications:
        console.print(_published_table(regressions, zoo))
    for line in reasons(zoo):
        console.print(Text(line, "dim"), soft_wrap=True, highlight=False)
    for line in summary(zoo):
        console.print(Text(line), soft_wrap=True, highlight=False)


def _sides_table(regressions: Sequence[Regression], zoo: Zoo) -> Table:
    stock = list(dict.fromkeys(one.kernel for one in zoo.sightings if not one.by_mutant))
    kernels = (Column(kernel, justify="right") for kernel in (*stock, "mutant"))
    name, good = (Column(head, no_wrap=True) for head in ("regression", "good is"))
    table = Table(name, *kernels, good, title="published regressions")
    by_place = {(one.regression, "mutant" if one.by_mutant else one.kernel): one for one in zoo.sightings}
    for one in regressions:
        cells = [_cell_text(by_place.get((one.name, kernel))) for kernel in (*stock, "mutant")]
        table.add_row(one.name, *cells, one.good.text)
    return table


def _cell_text(one: Sighting | None) -> Text:
    if one is None:
        return Text("")
    if one.found is ZooSide.UNKNOWN:
        return Text("?", _STYLES[one.found])
    shown = "" if one.value is None else f"{figure(one.value)} "
    return Text(f"{shown}{one.found}{'' if one.found is one.expected else ' !'}", _STYLES[one.found])


def _published_table(regressions: Sequence[Regression], zoo: Zoo) -> Table:
    known: Mapping[str, Regression] = {one.name: one for one in regressions}
    short = (Column(head, no_wrap=True) for head in ("regression", "published", "measured"))
    table = Table(*short, "why they differ", title="bad / good")
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
        if pair.marked:
            shown = (
                pair.marked[0]
                if len(pair.marked) == 1
                else f"{plural(len(pair.marked), 'figure')}, first {pair.marked[0]}"
            )
            yield f"{pair.scenario} on {pair.kernel} against itself: marked: {shown}"


def summary(zoo: Zoo) -> Iterator[str]:
    expected = len(zoo.detected) + len(zoo.missed)
    good = sum(one.expected is ZooSide.GOOD and one.found is not ZooSide.UNKNOWN for one in zoo.sightings)
    alarmed = sum(bool(pair.alarms) for pair in zoo.pairs)
    marked = sum(bool(pair.marked) for pair in zoo.pairs)
    figures, of = sum(len(pair.marked) for pair in zoo.pairs), sum(pair.figures for pair in zoo.pairs)
    covered, known = (
        {*names}
        for names in (
            (name for pair in zoo.pairs for name in pair.regressions),
            (one.regression for one in zoo.sightings),
        )
    )
    yield f"detected      {len(zoo.detected)} of {expected} where the bad side was expected"
    yield f"false alarms  {len(zoo.false_alarms)} of {good} where the good side was expected"
    pairs = plural(len(zoo.pairs), "pair")
    yield f"null pairs    {pairs} of {len(covered)} of {plural(len(known), 'regression')}"
    yield f"claims        {alarmed} of {pairs} with one that differs"
    yield f"figures       {figures} of {of:,} marked, in {plural(marked, 'pair')}"


_PREFACE = """\
Each row is a published regression of the block layer: the ratio of the scenario that shows it, and whether it is good
or bad, on distribution kernels and on a build of one source with the mutant. Bold: not the side that was expected. `?`:
not measured, or the seeds disagree; the reason is below. A null pair is a kernel compared with itself under other
seeds: any difference is a false alarm. Its figures are judged by the rule of `blklab compare` for one configuration:
other seeds read other offsets, so a figure is marked where it differs by more than any two boots of one code
([thresholds.md](thresholds.md), measured on another kernel). A report that was declined ("Do not alarm") is good on
every kernel.
"""


def zoo_page(
    regressions: Sequence[Regression], zoo: Zoo, qemu: str, command: str, out: Sequence[OutOfScope] = ()
) -> str:
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
        *markdown.section("Changes between packaged kernels", _changes(zoo)),
        *markdown.section("Bad over good", _published(regressions, zoo)),
        *markdown.section("Do not alarm", (f"- {one.name}: {one.decision}" for one in regressions if one.decision)),
        *markdown.section("Unexpected or undecided", (f"- {line}" for line in reasons(zoo))),
        *markdown.section("Null pairs", _pairs(zoo.pairs)),
        *markdown.section("Out of scope", (f"- [{one.that}]({one.link}): {one.because}" for one in out)),
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


def _changes(zoo: Zoo) -> Iterator[str]:
    for one, other in zoo.changes:
        yield f"- {one.regression}: {one.found} on {one.kernel}, {other.found} on {other.kernel}"


def _published(regressions: Sequence[Regression], zoo: Zoo) -> Iterator[str]:
    because = {one.name: one.because for one in regressions}
    rows = [
        (
            one.regression,
            figure(one.published),
            "?" if one.here is None else figure(one.here),
            one.on,
            because[one.regression],
        )
        for one in zoo.publications
    ]
    if rows:
        yield from markdown.table(("regression", "published", "measured", "on", "why they differ"), rows)


def _pairs(pairs: Sequence[NullPair]) -> Iterator[str]:
    rows = [
        (
            pair.scenario,
            pair.kernel,
            " + ".join(map(str, pair.seeds)),
            ", ".join(pair.regressions) or "-",
            "; ".join(pair.alarms) or "-",
            str(pair.figures),
            ", ".join(pair.marked) or "-",
        )
        for pair in pairs
    ]
    if rows:
        yield from markdown.table(
            ("scenario", "kernel", "seeds", "regressions", "claims that differ", "figures", "marked"), rows
        )
