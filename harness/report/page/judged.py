# SPDX-License-Identifier: GPL-2.0-only
"""Claims, negative controls and ratios of the field report as a page shows them: word, sentence, strip."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from harness.judge.claims import EntryVerdict
from harness.judge.ensemble import Ensemble
from harness.judge.verdict import Verdict
from harness.noise import Interval
from harness.report.drawing.chart import Axis, Tick, fitting
from harness.report.format import figure, reported, severity, spread, value
from harness.scenario.model import Bound

WIDTH, LABELS = 344.0, 84.0
_ROW, _TOP, _FOOT, _EDGE = 22.0, 22.0, 22.0, 12.0
_CHARACTER = 7.0


@dataclass(frozen=True)
class Dot:
    """``holds`` whether the seed's value is within what is expected."""

    x: float
    holds: bool
    words: str


@dataclass(frozen=True)
class StripRow:
    """Pixels. ``low``, ``median`` and ``high`` are None where nothing was measured.

    ``interval`` is that of the true ratio on the wall clock.
    """

    label: str
    y: float
    dots: tuple[Dot, ...]
    low: float | None = None
    median: float | None = None
    high: float | None = None
    words: str = ""
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Strip:
    """A drawing in pixels. ``band`` is the left edge and width of what is expected, ``mark`` the place
    of the report's figure; ``reported`` and ``expected`` are their words."""

    title: str
    width: float
    height: float
    rows: tuple[StripRow, ...]
    ticks: tuple[Tick, ...]
    left: float
    right: float
    base: float
    band: tuple[float, float] | None = None
    expected: Tick | None = None
    edges: tuple[float, ...] = ()
    reported: Tick | None = None
    mark: float | None = None


@dataclass(frozen=True)
class StripEntry:
    """What a row is made of. ``label`` is empty for a single one."""

    label: str
    ensemble: Ensemble | None = None
    interval: Interval | None = None


def strip(
    title: str,
    shown: Sequence[StripEntry],
    expect: Bound | None = None,
    reported: float | None = None,
    wish: str = "expected",
) -> Strip | None:
    """None when nothing was measured. ``wish`` is the text in front of the bound."""
    ensembles = [each.ensemble for each in shown if each.ensemble is not None]
    if not ensembles:
        return None
    edges = [edge for edge in (expect.low, expect.high) if edge is not None] if expect else []
    values = [value for ensemble in ensembles for value in ensemble.values.values()]
    values += [end for each in shown if each.interval for end in (each.interval.low, each.interval.high)]
    left = LABELS + _EDGE if any(each.label for each in shown) else _EDGE
    axis = fitting([*values, *edges, *([reported] if reported is not None else [])], left, WIDTH - _EDGE)
    base = _TOP + _ROW * len(shown)
    start, end = axis.start, axis.end
    if expect:
        start = start if expect.low is None else axis.at(expect.low)
        end = end if expect.high is None else axis.at(expect.high)
    return Strip(
        title=_title(title, shown, f"{wish} {expect.text}" if expect else "", reported),
        width=WIDTH,
        height=base + _FOOT,
        rows=tuple(_row(place, each, axis, expect) for place, each in enumerate(shown)),
        ticks=axis.ticks(),
        left=left,
        right=WIDTH - _EDGE,
        base=base,
        band=(start, end - start) if expect else None,
        expected=_label(f"{wish} {expect.text}", [axis.at(edge) for edge in edges], left) if expect else None,
        edges=tuple(axis.at(edge) for edge in edges),
        reported=_label(f"reported {reported:g}", [axis.at(reported)], left) if reported is not None else None,
        mark=axis.at(reported) if reported is not None else None,
    )


def _title(title: str, shown: Sequence[StripEntry], wish: str, told: float | None) -> str:
    rows = "; ".join(
        f"{each.label + ': ' if each.label else ''}{spread(each.ensemble) if each.ensemble else 'not measured'}"
        for each in shown
    )
    expected = f", {wish}" if wish else ""
    return f"{title}: {rows}{expected}" + (f", reported {told:g}" if told is not None else "")


def _row(place: int, shown: StripEntry, axis: Axis, expect: Bound | None) -> StripRow:
    y, ensemble = _TOP + _ROW * (place + 0.5), shown.ensemble
    if ensemble is None:
        return StripRow(shown.label, y, (), words="not measured")
    dots = tuple(
        Dot(axis.at(value), expect is None or expect.holds(value), f"seed {seed}: {figure(value)}")
        for seed, value in sorted(ensemble.values.items())
    )
    ends = (axis.at(ensemble.low), axis.at(ensemble.median), axis.at(ensemble.high))
    true = (axis.at(shown.interval.low), axis.at(shown.interval.high)) if shown.interval else None
    return StripRow(shown.label, y, dots, *ends, interval=true)


def _label(text: str, places: Sequence[float], left: float) -> Tick:
    """Over the middle of its places, as far as the drawing is wide."""
    half = len(text) * _CHARACTER / 2
    middle = sum(places) / len(places) if places else (left + WIDTH) / 2
    return Tick(min(max(middle, left - _EDGE + half), WIDTH - half), text)


_NOT_MEASURED = "not measured"
MUST_BE = "must be"


@dataclass(frozen=True)
class Judged:
    """``word`` is a status, XFAIL, XPASS or ``not run``; empty for a ratio that is shown without a bound."""

    word: str
    that: str
    value: str
    expect: str
    ratio: str
    sentence: str
    strip: Strip | None
    wish: str = "expected"


def claims(verdict: Verdict) -> list[Judged]:
    """Failures first."""
    return _worst_first(_judged(one, "expected") for one in verdict.claims)


def controls(verdict: Verdict) -> list[Judged]:
    """Failures first."""
    return _worst_first(_judged(one, MUST_BE) for one in verdict.controls)


def _worst_first(judged: Iterable[Judged]) -> list[Judged]:
    return sorted(judged, key=lambda one: severity(one.word))


def _judged(one: EntryVerdict, wish: str) -> Judged:
    shown, drawn = _NOT_MEASURED, None
    if (judgement := one.judgement) is not None:
        shown, entry = value(judgement), StripEntry("", judgement.ensemble, judgement.interval)
        drawn = strip(one.that, [entry], one.entry.expect, wish=wish)
    return Judged(one.word, one.text, shown, one.expect, one.ratio, one.says, drawn, wish)


def reproductions(verdict: Verdict) -> Iterator[Judged]:
    for one in verdict.reproductions:
        seen = _NOT_MEASURED if one.ensemble is None else spread(one.ensemble)
        drawn = strip(one.that, [StripEntry("", one.ensemble)], reported=one.reported)
        off = "" if one.off is None else f"{100 * one.off:+.1f} % from the report's {reported(one)}. "
        said = f"Report: {reported(one)}. " if one.reported is None else ""
        yield Judged("", one.that, seen, "", one.ratio, said + off + (one.because or one.reason), drawn)
