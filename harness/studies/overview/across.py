# SPDX-License-Identifier: GPL-2.0-only
"""One scenario on several kernels or over several runs: each ratio as a strip with a row for each."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from harness.judge.claims import NOT_RUN, EntryVerdict, Judgement
from harness.judge.ensemble import Ensemble
from harness.judge.verdict import SHOWN_METRIC, Verdict
from harness.report.format import figure, reported, severity, spread, value
from harness.report.page.figures import against, measured
from harness.report.page.judged import MUST_BE, Strip, StripEntry, strip
from harness.scenario.model import Claim, Clock, Control, Scenario
from harness.studies.overview.collection import JudgedRun

Row = tuple[str, JudgedRun | None]
"""The label of a row, and its run."""
Seen = tuple[str, Judgement]
"""A status and its judgement."""
_NOTHING = "-"


@dataclass(frozen=True)
class Across:
    """``words`` has a status and a value for each row's label."""

    that: str
    ratio: str
    expect: str
    words: tuple[tuple[str, str, str], ...]
    strip: Strip | None
    wish: str = ""

    @property
    def severity(self) -> int:
        return min((severity(word) for _, word, _ in self.words), default=severity(NOT_RUN))


@dataclass(frozen=True)
class ComparedFigure:
    """A figure of one role: for each row the median, the range, and the change from the first row that has it."""

    arm: str
    load: str
    role: str
    cells: tuple[tuple[str, str, str], ...]


def claims(rows: Sequence[Row]) -> list[Across]:
    """Claims of the newest run on all rows that have the same claim, failures first."""
    return _across(rows, _newest(rows).claims, lambda verdict: verdict.claims, "expected")


def controls(rows: Sequence[Row]) -> list[Across]:
    """Negative controls that ran on at least one row, failures first."""
    return _across(rows, _newest(rows).controls, lambda verdict: verdict.controls, MUST_BE)


def reproductions(rows: Sequence[Row]) -> Iterator[Across]:
    for wanted in _newest(rows).reproduces:
        shown = []
        for label, one in rows:
            found = [each for each in one.verdict.reproductions if each.ratio == wanted.ratio.text] if one else []
            shown.append(StripEntry(label, found[0].ensemble if found else None))
        words = tuple((each.label, "", spread(each.ensemble) if each.ensemble else _NOTHING) for each in shown)
        drawn = strip(wanted.that, shown, reported=wanted.reported)
        yield Across(wanted.that, wanted.ratio.text, reported(wanted), words, drawn, "report:")


def compared(
    rows: Sequence[Row], metric: str = SHOWN_METRIC, show: Callable[[float], str] = figure
) -> Iterator[ComparedFigure]:
    """A metric of every measured role; ``show`` formats its values."""
    exact = _newest(rows).clock is Clock.VIRTUAL
    names = dict.fromkeys(
        (row.arm, row.load, row.role) for _, one in rows if one is not None for row in one.verdict.measured
    )
    for name in names:
        ensembles = [measured(one.verdict, name, metric) if one else None for _, one in rows]
        first = next((ensemble for ensemble in ensembles if ensemble is not None), None)
        if first is None:
            continue
        cells = []
        for ensemble in ensembles:
            change = "" if ensemble is None or ensemble is first else against(ensemble, first, exact=exact)
            cells.append(("-", "", "") if ensemble is None else (*_shown(ensemble, show), change))
        yield ComparedFigure(*name, tuple(cells))


def _shown(ensemble: Ensemble, show: Callable[[float], str]) -> tuple[str, str]:
    """The median, and the range where it differs from it."""
    low, high = show(ensemble.low), show(ensemble.high)
    return show(ensemble.median), "" if low == high else f"{low} .. {high}"


def _across(
    rows: Sequence[Row],
    entries: Iterable[Claim | Control],
    judged: Callable[[Verdict], Iterable[EntryVerdict]],
    wish: str,
) -> list[Across]:
    found = []
    for entry in entries:
        seen = [(label, _seen(judged(one.verdict) if one else (), entry)) for label, one in rows]
        if any(each for _, each in seen):
            that = f"{entry.that} (optional)" if isinstance(entry, Claim) and entry.optional else entry.that
            shown = [
                StripEntry(label, each[1].ensemble, each[1].interval) if each else StripEntry(label)
                for label, each in seen
            ]
            words = tuple(
                (label, each[0], value(each[1])) if each else (label, NOT_RUN, _NOTHING) for label, each in seen
            )
            drawn = strip(that, shown, entry.expect, wish=wish)
            found.append(Across(that, entry.ratio.text, entry.expect.text, words, drawn, wish))
    return sorted(found, key=lambda one: one.severity)


def _seen(judged: Iterable[EntryVerdict], wanted: Claim | Control) -> Seen | None:
    for found in judged:
        if (found.that, found.ratio) == (wanted.that, wanted.ratio.text) and found.judgement is not None:
            return found.word, found.judgement
    return None


def _newest(rows: Sequence[Row]) -> Scenario:
    runs = [one.run for _, one in rows if one is not None]
    return max(runs, key=lambda run: run.facts.run_id).scenario
