# SPDX-License-Identifier: GPL-2.0-only
"""Figures as people read them, and tables in Markdown."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from harness.judge.cells import Ensemble
from harness.judge.claims import XFAIL, XPASS
from harness.judge.difference import Difference, Significance
from harness.scenario.model import Status

STYLES: Mapping[str, str] = {
    Status.FAIL: "bold red",
    XPASS: "bold red",
    Status.ERROR: "bold magenta",
    Status.MISS: "bold yellow",
    Status.DONE: "bold cyan",
    XFAIL: "bold yellow",
    Status.PASS: "bold green",
    Status.SKIP: "bold blue",
}
"""Of the words of a verdict, failures first."""
_DIGITS = 4
_SMALL = 1e-4
_MINUTE = 60


def figure(value: float) -> str:
    """Four digits that count: ``15,923``, ``329.4``, ``1.000``, ``0.006012``."""
    if value == 0:
        return "0"
    if abs(value) >= 10 ** (_DIGITS - 1):
        return f"{value:,.0f}"
    return f"{value:#.{_DIGITS}g}" if abs(value) >= _SMALL else f"{value:.2e}"


def severity(word: str) -> int:
    """Sorts words of a verdict, failures first; other words come last."""
    return [*STYLES].index(word) if word in STYLES else len(STYLES)


def limits(ensemble: Ensemble, show: Callable[[float], str] = figure) -> str:
    """``low .. high``, or nothing when the seeds agree to the digits shown."""
    low, high = show(ensemble.low), show(ensemble.high)
    return "" if low == high else f"{low} .. {high}"


def spread(ensemble: Ensemble, show: Callable[[float], str] = figure) -> str:
    """``median [low .. high]``, or the one value when the seeds agree to the digits shown."""
    between = limits(ensemble, show)
    return show(ensemble.median) + (f" [{between}]" if between else "")


def reported(value: float | None, in_words: str) -> str:
    """The report's figure, or its words in quotation marks where it has none."""
    return f'"{in_words}"' if value is None else f"{value:g}"


def duration(seconds: float) -> str:
    """``8.4 s``, ``72 s`` or ``12 min 5 s``."""
    if seconds < 10:  # noqa: PLR2004
        return f"{seconds:.1f} s"
    if seconds < 2 * _MINUTE:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), _MINUTE)
    return f"{minutes} min {rest} s"


def time_words(ns: float) -> str:
    """Three significant digits: ``8.53 ms``, ``412 us``."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}" if ns < 1000 * size else f"{ns / size:,.0f} {unit}"
    return f"{ns:.0f} ns"


def percent(share: float) -> str:
    """A share in per cent with three digits, or all of those before the point."""
    return f"{100 * share:,.0f} %" if share >= 1 else f"{100 * share:.3g} %"


def listed(names: Sequence[str], most: int = 6) -> str:
    """``a, b and 3 more``: the first ``most`` names, and how many are left."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


MARKS = {Significance.MARKED: "*", Significance.REAL: "", Significance.NONE: "~", Significance.UNKNOWN: "?"}
LEGEND = "* differs; ~ the ranges overlap: no difference; ? cannot tell: fewer than two seeds on a side"


def change_words(change: Difference) -> str:
    """The change from before to after in per cent, with the mark of ``blklab compare``."""
    if change.share is None:
        return "-"
    if change.mark is Significance.NONE:
        return MARKS[change.mark]
    return f"{100 * change.share:+.1f} % {MARKS[change.mark]}".rstrip()


def markdown_head(title: str, made: str) -> Iterator[str]:
    """The first lines of a page; ``made`` names the command that wrote it."""
    yield from ("<!-- SPDX-License-Identifier: GPL-2.0-only -->", f"<!-- {made} -->", f"# {title}", "")


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: int = 0) -> Iterator[str]:
    """A line for the columns, the rule and each row. The last ``numbers`` columns are aligned to the right."""
    yield _markdown_line(columns)
    yield f"|{'---|' * (len(columns) - numbers)}{'---:|' * numbers}"
    yield from map(_markdown_line, rows)


def markdown_section(title: str, body: Iterable[str]) -> Iterator[str]:
    """A heading and its body, nothing if the body is empty."""
    if lines := list(body):
        yield from (f"## {title}", "", *lines, "")


def _markdown_line(cells: Sequence[str]) -> str:
    escaped = (cell.replace("|", r"\|").replace("\n", " ") for cell in cells)
    return f"| {' | '.join(escaped)} |"
