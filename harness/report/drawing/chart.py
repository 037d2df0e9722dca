# SPDX-License-Identifier: GPL-2.0-only
"""Axes, and what charts have in common: grid, ticks, lines, and strips of values against a bound."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from markupsafe import Markup

from harness.judge.cells import Ensemble
from harness.noise import Interval
from harness.report.drawing import svg
from harness.report.format import figure, spread
from harness.scenario.model import Bound

_STEPS = (1.0, 2.0, 5.0, 10.0)
_FROM_ZERO = 0.4
_PADDING = 0.12
_LEAST_PADDING = 0.02
_LEAST_FACTOR = 4.0
_PLAIN_BELOW, _PLAIN_FROM = 1e5, 1e-3


@dataclass(frozen=True)
class Tick:
    """A place on an axis, in pixels, and what is written there."""

    at: float
    label: str


@dataclass(frozen=True)
class Axis:
    """Values ``low`` to ``high`` lie between the pixels ``start`` and ``end``."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def at(self, value: float) -> float:
        """The pixel of a value; what lies outside is drawn at the edge."""
        low, high = self._inner(self.low), self._inner(self.high)
        share = (self._inner(max(value, self.low)) - low) / (high - low)
        return round(self.start + min(1.0, max(0.0, share)) * (self.end - self.start), 2)

    def _inner(self, value: float) -> float:
        return log10(value) if self.logarithmic else value

    def values(self, most: int = 5) -> tuple[float, ...]:
        """Round numbers on it, ``most`` or fewer."""
        return tuple(
            _log_values(self.low, self.high, most) if self.logarithmic else _round_values(self.low, self.high, most)
        )

    def ticks(self, most: int = 5) -> tuple[Tick, ...]:
        return tuple(Tick(self.at(value), number(value)) for value in self.values(most))


def fitting(values: Iterable[float], start: float, end: float) -> Axis:
    """A linear axis that shows all values, from zero on unless they all lie far from it."""
    numbers = list(values) or [0.0, 1.0]
    low, high = min(numbers), max(numbers)
    padding = max(_PADDING * (high - low), _LEAST_PADDING * abs(high))
    if high <= 0:
        return Axis(low - padding, max(high + padding, low + 1.0), start, end)
    return Axis(0.0 if low < _FROM_ZERO * high else low - padding, high + padding, start, end)


def logarithmic(values: Iterable[float], start: float, end: float) -> Axis:
    """An axis that shows all values, which are above zero, and at least a factor of four."""
    numbers = list(values)
    low, high = min(numbers), max(numbers)
    widen = max(0.0, log10(_LEAST_FACTOR * low / high)) / 2
    padding = _PADDING / 2 * max(log10(high / low), log10(_LEAST_FACTOR))
    return Axis(low / 10 ** (widen + padding), high * 10 ** (widen + padding), start, end, logarithmic=True)


def _round_values(low: float, high: float, most: int) -> Iterator[float]:
    """Multiples of 1, 2 or 5 times a power of ten: not more than ``most``."""
    power = 10 ** floor(log10((high - low) / most))
    step = next(power * times for times in _STEPS if (high - low) / (power * times) <= most)
    for place in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1):
        yield place * step


def _log_values(low: float, high: float, most: int) -> list[float]:
    """1, 2 and 5 times the powers of ten; where these are too many the powers alone, or each second one ..."""
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    fine = [10.0**power * times for power in powers for times in _STEPS[:-1]]
    shown = [value for value in fine if low <= value <= high]
    if len(shown) <= most:
        return shown
    whole = [10.0**power for power in powers if low <= 10.0**power <= high]
    return whole[:: ceil(len(whole) / most)]


def number(value: float) -> str:
    """Short, for an axis: ``0.25``, ``16,000``, ``2e+09``."""
    if value and not _PLAIN_FROM <= abs(value) < _PLAIN_BELOW:
        return f"{value:.3g}"
    return f"{round(value, 6):,.6g}" if abs(value) < 1000 else f"{value:,.0f}"  # noqa: PLR2004


WIDTH = 344.0
Point = tuple[float, float]


def grid(y: Axis, left: float, right: float) -> Iterator[str]:
    """A line for each tick of an upright axis, with its label on the left."""
    for tick in y.ticks(4):
        yield svg.path("grid", "M", left, tick.at, "H", right)
        yield svg.text("soft end", left - 4, tick.at + 4, tick.label)


def ground(x: Axis, base: float, ticks: Iterable[Tick]) -> Iterator[str]:
    """The axis at the bottom with its ticks."""
    yield svg.path("axis", "M", x.start, base, "H", x.end)
    for tick in ticks:
        yield svg.path("axis", "M", tick.at, base, "v", 4.0)
        yield svg.text("soft mid", tick.at, base + 16, tick.label)


def along(points: Iterable[Point], x: Axis, y: Axis) -> str:
    """Path data of one line through all points."""
    return "M" + "L".join(f"{x.at(across):.1f} {y.at(up):.1f}" for across, up in points)


_ROW, _TOP, _EDGE = 22.0, 22.0, 12.0
_CHARACTER = 7.0


@dataclass(frozen=True)
class StripRow:
    """The values of a row, on the wall clock with the interval of the true ratio. A single row has no ``label``."""

    label: str
    ensemble: Ensemble | None = None
    interval: Interval | None = None


def strip(
    title: str,
    rows: Sequence[StripRow],
    expect: Bound | None = None,
    reported: float | None = None,
    wish: str = "expected",
) -> Markup | None:
    """Each seed of each row, what is expected as a band, what was reported as a diamond; None without a value.

    ``wish`` is the text in front of the bound.
    """
    ensembles = [row.ensemble for row in rows if row.ensemble is not None]
    if not ensembles:
        return None
    edges = [edge for edge in (expect.low, expect.high) if edge is not None] if expect else []
    values = [*edges, *([] if reported is None else [reported])]
    values += [value for ensemble in ensembles for value in ensemble.values.values()]
    values += [end for row in rows if row.interval for end in (row.interval.low, row.interval.high)]
    x = fitting(values, _EDGE + _CHARACTER * max(len(row.label) for row in rows), WIDTH - _EDGE)
    base = _TOP + _ROW * len(rows)
    body: list[str] = []
    said = "; ".join(
        f"{row.label}: ".removeprefix(": ") + (spread(row.ensemble) if row.ensemble else "not measured") for row in rows
    )
    if expect:
        start = x.start if expect.low is None else x.at(expect.low)
        body.append(
            svg.rect("band", start, 18, (x.end if expect.high is None else x.at(expect.high)) - start, base - 18)
        )
        body += [svg.path("edge", "M", x.at(edge), 18.0, "V", base) for edge in edges]
        body.append(_label("expected", f"{wish} {expect.text}", [x.at(edge) for edge in edges], x))
        said += f", {wish} {expect.text}"
    if reported is not None:
        body.append(_label("told", f"reported {reported:g}", [x.at(reported)], x))
        said += f", reported {reported:g}"
    body += ground(x, base, x.ticks())
    for place, row in enumerate(rows):
        body += _strip_row(row, _TOP + _ROW * (place + 0.5), x, expect)
    if reported is not None:
        body.append(svg.path("told", "M", x.at(reported), _TOP + _ROW / 2 - 6, "l5 6-5 6-5-6Z"))
    return svg.picture("strip drawn", f"{title}: {said}", (WIDTH, base + _ROW), body)


def _strip_row(row: StripRow, y: float, x: Axis, expect: Bound | None) -> Iterator[str]:
    yield svg.text("", 2, y + 4, row.label)
    if row.ensemble is None:
        yield svg.text("soft", x.start + 6, y + 4, "not measured")
        return
    if row.interval:
        yield svg.path("true", "M", x.at(row.interval.low), y, "H", x.at(row.interval.high))
    yield svg.path("range", "M", x.at(row.ensemble.low), y, "H", x.at(row.ensemble.high))
    yield svg.path("median", "M", x.at(row.ensemble.median), y - 7, "v", 14.0)
    for seed, value in sorted(row.ensemble.values.items()):
        words = f"seed {seed}: {figure(value)}"
        if expect is None or expect.holds(value):
            yield svg.dot("dot", x.at(value), y, 4, words)
        else:
            yield svg.cross("miss-dot", x.at(value), y, 4, f"{words}, outside")


def _label(kind: str, words: str, places: Sequence[float], x: Axis) -> str:
    """Over the middle of its places, as far as the drawing is wide."""
    half = len(words) * _CHARACTER / 2
    middle = sum(places) / len(places) if places else (x.start + WIDTH) / 2
    return svg.text(f"{kind} mid", min(max(middle, x.start - _EDGE + half), WIDTH - half), 12, words)
