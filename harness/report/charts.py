# SPDX-License-Identifier: GPL-2.0-only
"""Charts as SVG: values against a bound, latency distributions, tags over a window, flame graphs, bytes of cache lines.

All text is escaped. A chart has a title with its figures, for readers that do not see it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from statistics import fmean

from markupsafe import Markup, escape

from harness.figures.samples import Series
from harness.judge.cells import Ensemble
from harness.noise import Interval
from harness.report.format import figure, plural, spread, time_words
from harness.scenario.model import Bound

WIDTH = 344.0
Point = tuple[float, float]


def px(value: float) -> str:
    """A tenth of a pixel is enough."""
    return f"{value:.1f}".removesuffix(".0")


def _element(name: str, kind: str, attributes: Mapping[str, float | str], title: str = "") -> str:
    """An element with a class and a tooltip."""
    shown = "".join(f' {key}="{value if isinstance(value, str) else px(value)}"' for key, value in attributes.items())
    return f'<{name} class="{kind}"{shown}>{f"<title>{escape(title)}</title>" if title else ""}</{name}>'


def _path(kind: str, *data: str | float, title: str = "") -> str:
    """``data`` are commands and pixels: ``"M", 0.0, 10.0, "H", 20.0``."""
    return _element("path", kind, {"d": " ".join(part if isinstance(part, str) else px(part) for part in data)}, title)


def _dot(kind: str, x: float, y: float, radius: float, title: str = "") -> str:
    return _element("circle", kind, {"cx": x, "cy": y, "r": radius}, title)


def _cross(kind: str, x: float, y: float, size: float, title: str = "") -> str:
    strokes = f"l{2 * size} {2 * size}m0 {-2 * size}l{-2 * size} {2 * size}"
    return _path(kind, "M", x - size, y - size, strokes, title=title)


def _text(kind: str, x: float, y: float, text: str) -> str:
    return f'<text class="{kind}" x="{px(x)}" y="{px(y)}">{escape(text)}</text>'


def _picture(kind: str, title: str, size: tuple[float, float], body: Iterable[str], *, scaled: bool = True) -> Markup:
    """The whole SVG of ``size`` pixels, scaled to the room on the page if that is wanted."""
    width, height = map(px, size)
    fixed = "" if scaled else f' width="{width}" height="{height}"'
    return Markup(  # noqa: S704 - all text is escaped
        f'<svg class="{kind}" viewBox="0 0 {width} {height}"{fixed} role="img">'
        f"<title>{escape(title)}</title>{''.join(body)}</svg>"
    )


# Axes

_STEPS = (1.0, 2.0, 5.0, 10.0)
_FROM_ZERO = 0.4
_PADDING = 0.12
_LEAST_PADDING = 0.02
_LEAST_FACTOR = 4.0
_PLAIN_BELOW, _PLAIN_FROM = 1e5, 1e-3


Tick = tuple[float, str]
"""A pixel, and the label there."""


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
        return tuple((self.at(value), number(value)) for value in self.values(most))


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
    for multiple in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1):
        yield multiple * step


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


def _grid(y: Axis, left: float, right: float) -> Iterator[str]:
    """A line for each tick of an upright axis, with its label on the left."""
    for at, label in y.ticks(4):
        yield _path("grid", "M", left, at, "H", right)
        yield _text("soft end", left - 4, at + 4, label)


def _ground(x: Axis, base: float, ticks: Iterable[Tick]) -> Iterator[str]:
    """The axis at the bottom with its ticks."""
    yield _path("axis", "M", x.start, base, "H", x.end)
    for at, label in ticks:
        yield _path("axis", "M", at, base, "v", 4.0)
        yield _text("soft mid", at, base + 16, label)


def _line(points: Iterable[Point], x: Axis, y: Axis) -> str:
    """Path data of one line through all points."""
    return "M" + "L".join(f"{x.at(across):.1f} {y.at(up):.1f}" for across, up in points)


# Values against a bound

_STRIP_ROW, _STRIP_TOP, _EDGE = 22.0, 22.0, 12.0
_CHARACTER = 7.0


@dataclass(frozen=True)
class StripRow:
    """The values of a row, on the wall clock with the interval of the true ratio. A single row has no ``label``."""

    label: str
    ensemble: Ensemble | None = None
    interval: Interval | None = None

    @property
    def text(self) -> str:
        shown = spread(self.ensemble) if self.ensemble else "not measured"
        return f"{self.label}: {shown}" if self.label else shown


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
    base = _STRIP_TOP + _STRIP_ROW * len(rows)
    body: list[str] = []
    title += ": " + "; ".join(row.text for row in rows)
    if expect:
        start = x.start if expect.low is None else x.at(expect.low)
        width = (x.end if expect.high is None else x.at(expect.high)) - start
        body.append(_element("rect", "band", {"x": start, "y": 18, "width": width, "height": base - 18}))
        body += [_path("edge", "M", x.at(edge), 18.0, "V", base) for edge in edges]
        body.append(_label("expected", f"{wish} {expect.text}", [x.at(edge) for edge in edges], x))
        title += f", {wish} {expect.text}"
    if reported is not None:
        body.append(_label("told", f"reported {reported:g}", [x.at(reported)], x))
        title += f", reported {reported:g}"
    body += _ground(x, base, x.ticks())
    for index, row in enumerate(rows):
        body += _strip_row(row, _STRIP_TOP + _STRIP_ROW * (index + 0.5), x, expect)
    if reported is not None:
        body.append(_path("told", "M", x.at(reported), _STRIP_TOP + _STRIP_ROW / 2 - 6, "l5 6-5 6-5-6Z"))
    return _picture("strip drawn", title, (WIDTH, base + _STRIP_ROW), body)


def _strip_row(row: StripRow, y: float, x: Axis, expect: Bound | None) -> Iterator[str]:
    yield _text("", 2, y + 4, row.label)
    if row.ensemble is None:
        yield _text("soft", x.start + 6, y + 4, "not measured")
        return
    if row.interval:
        yield _path("true", "M", x.at(row.interval.low), y, "H", x.at(row.interval.high))
    yield _path("range", "M", x.at(row.ensemble.low), y, "H", x.at(row.ensemble.high))
    yield _path("median", "M", x.at(row.ensemble.median), y - 7, "v", 14.0)
    for seed, value in sorted(row.ensemble.values.items()):
        tooltip = f"seed {seed}: {figure(value)}"
        if expect is None or expect.holds(value):
            yield _dot("dot", x.at(value), y, 4, tooltip)
        else:
            yield _cross("miss-dot", x.at(value), y, 4, f"{tooltip}, outside")


def _label(kind: str, text: str, columns: Sequence[float], x: Axis) -> str:
    """Over the middle of its pixels ``columns``, as far as the drawing is wide."""
    half = len(text) * _CHARACTER / 2
    middle = sum(columns) / len(columns) if columns else (x.start + WIDTH) / 2
    return _text(f"{kind} mid", min(max(middle, x.start - _EDGE + half), WIDTH - half), 12, text)


# Latency

SLOWEST = "max"
Distribution = Mapping[str, Ensemble]
"""Percentile, or SLOWEST -> ns of each seed."""
_LATENCY_ROW, _LATENCY_TOP, _LATENCY_FOOT = 32.0, 6.0, 22.0


def latency(title: str, arms: Mapping[str, Distribution], labels: Mapping[str, str]) -> Markup:
    """The distributions of one role by arm, on one logarithmic axis; ``labels`` has the percentiles of each as text."""
    values = [ensemble.median for percentiles in arms.values() for ensemble in percentiles.values()]
    x = logarithmic(values, _EDGE, WIDTH - _EDGE)
    base = _LATENCY_TOP + _LATENCY_ROW * len(arms)
    ticks = [(x.at(value), time_words(value)) for value in x.values()]
    body = [_path("grid", "M", at, 4.0, "V", base) for at, _ in ticks] + [*_ground(x, base, ticks)]
    for index, (arm, percentiles) in enumerate(arms.items()):
        ends = {name: x.at(ensemble.median) for name, ensemble in percentiles.items()}
        body += _latency_row(arm, labels[arm], ends, _LATENCY_TOP + _LATENCY_ROW * index + 22)
    title = f"{title}: {'; '.join(f'{arm} {labels[arm]}' for arm in arms)}"
    return _picture("chart drawn", title, (WIDTH, base + _LATENCY_FOOT), body)


def _latency_row(arm: str, label: str, ends: Mapping[str, float], y: float) -> Iterator[str]:
    slowest = ends.get(SLOWEST, max(ends.values()))
    yield f"<g><title>{escape(f'{arm}: {label}')}</title>"
    yield _text("", _EDGE, y - 10, arm)
    for kind, end in (("tail", slowest), ("tenth", ends.get("p99")), ("half", ends.get("p90"))):
        if end is not None:
            yield _path(kind, "M", ends["p50"], y, "H", end)
    yield _dot("slowest", slowest, y, 3) + _dot("middle", ends["p50"], y, 4.5) + "</g>"


# Tags over a window

MOST_LINES = 6
"""Lines differ in their dashes and have names; more could not be told apart."""
FEW_LINES = MOST_LINES - 1
_HEIGHT, _LEFT, _RIGHT, _CEILING, _BASE = 196.0, 46.0, 334.0, 14.0, 162.0
_HEADROOM = 1.08
_FAR = 2.0
"""A limit is drawn up to this multiple of the held tags; a higher one would flatten the lines."""


@dataclass(frozen=True)
class Occupancy:
    """Tags held over a window of ``ns``, of ``hosts`` and ``luns`` by name; ``limits`` have a label each."""

    hosts: Mapping[str, Series]
    luns: Mapping[str, Series]
    limits: Sequence[tuple[int, str]]
    ns: float

    @property
    def seconds(self) -> float:
        return self.ns / 1e9

    @property
    def single(self) -> Mapping[str, Series]:
        """Those with a line of their own: all, or only the hosts where they are too many."""
        every = {**self.hosts, **self.luns}
        return every if len(every) <= FEW_LINES else self.hosts

    @property
    def lines(self) -> list[str]:
        """The names of the lines, in the order of their styles."""
        together = [f"mean and range of {plural(len(self.luns), 'LUN')}"] if self._joined else []
        return [*self.single, *together][:MOST_LINES]

    @property
    def _joined(self) -> bool:
        return bool(self.luns) and not self.luns.keys() <= self.single.keys()

    @property
    def most(self) -> float:
        every = (*self.hosts.values(), *self.luns.values())
        return max(value for series in every for value in (*series.parts, 0.0) if value is not None)

    @property
    def note(self) -> str:
        """The limits that are far above the lines; empty without any."""
        beyond = ", ".join(label for limit, label in self.limits if limit > _FAR * self.most)
        return f"{beyond}: above the chart" if beyond else ""

    def points(self, series: Series) -> list[Point]:
        width = self.seconds / len(series.parts)
        return [((part + 0.5) * width, value) for part, value in enumerate(series.parts) if value is not None]

    def svg(self, title: str, below: str) -> Markup:
        """The chart; ``below`` is the text under its time axis."""
        near = [(limit, label) for limit, label in self.limits if limit <= _FAR * self.most]
        x = Axis(0.0, self.seconds, _LEFT, _RIGHT)
        y = Axis(0.0, max(1.0, _HEADROOM * max([self.most, *(limit for limit, _ in near)])), _BASE, _CEILING)
        lines = [_line(self.points(series), x, y) for series in self.single.values()]
        body = [*_grid(y, _LEFT, _RIGHT), *_ground(x, _BASE, x.ticks())]
        body.append(_text("soft mid", (_LEFT + _RIGHT) / 2, 192, below))
        for limit, label in near:
            body.append(_path("limit", "M", _LEFT, y.at(limit), "H", _RIGHT))
            body.append(_text("limit-name end", _RIGHT, y.at(limit) - 4, label))
        if self._joined:
            lower, mean, upper = self._many()
            body.append(_path(f"spread a{len(lines)}", _line([*lower, *reversed(upper)], x, y) + "Z"))
            lines.append(_line(mean, x, y))
        body += [_path(f"series s{style}", line) for style, line in enumerate(lines[:MOST_LINES])]
        shown = [f"{name} {each.mean:.3g} in the mean, {each.max} at most" for name, each in self.single.items()]
        return _picture("chart drawn", f"{title}: {'; '.join(shown) or 'LUNs only'}", (WIDTH, _HEIGHT), body)

    def _many(self) -> tuple[list[Point], list[Point], list[Point]]:
        """Minimum, mean and maximum over all LUNs."""
        columns: dict[float, list[float]] = {}
        for series in self.luns.values():
            for time, value in self.points(series):
                columns.setdefault(time, []).append(value)
        ordered = sorted(columns.items())
        lower, mean, upper = ([(time, of(values)) for time, values in ordered] for of in (min, fmean, max))
        return lower, mean, upper


# Tiles: frames of a flame graph, bytes of a cache line


@dataclass(frozen=True)
class Tile:
    """A rectangle with a tooltip; ``kind`` is its class, ``fill`` a colour where the class has none.

    ``label`` is written into it.
    """

    x: float
    y: float
    width: float
    height: float
    tooltip: str
    kind: str = ""
    fill: str = ""
    label: str = ""


def tiles(kind: str, title: str, size: tuple[float, float], of: Iterable[Tile], labels: Iterable[Tick] = ()) -> Markup:
    """A picture in its own size, with ``labels`` at the left edge: the pixel of a row and its text."""
    body = [_text("", 0, y, label) for y, label in labels]
    for tile in of:
        area: dict[str, float | str] = {"x": tile.x, "y": tile.y, "width": tile.width, "height": tile.height}
        area |= {"fill": tile.fill} if tile.fill else {}
        body.append(_element("rect", tile.kind, area, tile.tooltip))
        body += [_text("", tile.x + 3, tile.y + 12, tile.label)] if tile.label else []
    return _picture(kind, title, size, body, scaled=False)


# One figure over many commits


def multiples(
    title: str, labels: Sequence[str], lines: Mapping[str, Sequence[float | None]], marks: Mapping[int, str]
) -> Markup:
    """Lines over the places of ``labels``, each relative to its first value; ``marks`` says what changed at a place."""
    values = [value for line in lines.values() for value in line if value is not None]
    x = Axis(0.0, max(1.0, len(labels) - 1.0), _LEFT, _RIGHT - _EDGE)
    y = fitting([1.0, *values], _BASE, _CEILING)
    ends = [(x.at(place), labels[int(place)][:7]) for place in sorted({0.0, len(labels) - 1.0})]
    body = [*_grid(y, _LEFT, _RIGHT), *_ground(x, _BASE, ends)]
    body += [_path("limit", "M", x.at(place), _CEILING, "V", _BASE, title=text) for place, text in marks.items()]
    for style, (name, line) in enumerate(lines.items()):
        points = [(float(place), value) for place, value in enumerate(line) if value is not None]
        body.append(_path(f"series s{style % MOST_LINES}", _line(points, x, y)))
        for place, value in points:
            tooltip = f"{labels[int(place)]}, {name}: {100 * value:.2f} %"
            body.append(_dot("dot", x.at(place), y.at(value), 2.5, tooltip))
    shown = "; ".join(f"{name} {100 * line[-1]:.2f} %" for name, line in lines.items() if line[-1] is not None)
    return _picture("chart drawn", f"{title}: {shown} of the first value", (WIDTH, _HEIGHT - 14), body)
