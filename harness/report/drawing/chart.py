# SPDX-License-Identifier: GPL-2.0-only
"""Line charts in pixels. Lines differ in their dashes and have names: colour alone never tells them apart."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

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
    found = list(values) or [0.0, 1.0]
    low, high = min(found), max(found)
    padding = max(_PADDING * (high - low), _LEAST_PADDING * abs(high))
    if high <= 0:
        return Axis(low - padding, max(high + padding, low + 1.0), start, end)
    return Axis(0.0 if low < _FROM_ZERO * high else low - padding, high + padding, start, end)


def logarithmic(values: Iterable[float], start: float, end: float) -> Axis:
    """An axis that shows all values, which are above zero, and at least a factor of four."""
    found = list(values)
    low, high = min(found), max(found)
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


WIDTH, HEIGHT = 344.0, 196.0
LEFT, RIGHT, TOP, BASE = 46.0, 334.0, 14.0, 162.0
MOST_LINES = 6
"""More lines could not be told apart. ``style`` of a line counts from 0."""

Point = tuple[float, float]


@dataclass(frozen=True)
class ChartLine:
    """``path`` and ``area`` are SVG path data; ``area`` is the range over the seeds, empty without one."""

    name: str
    style: int
    path: str
    area: str = ""


@dataclass(frozen=True)
class Chart:
    """``limits`` are horizontal lines with their words. ``title`` says all that a listener needs."""

    heading: str
    title: str
    x_name: str
    y_name: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    lines: tuple[ChartLine, ...]
    limits: tuple[Tick, ...] = ()
    note: str = ""
    width: float = WIDTH
    height: float = HEIGHT


def path(points: Sequence[Point], x: Axis, y: Axis) -> str:
    """One line through all points."""
    return "M" + "L".join(f"{x.at(one):.1f} {y.at(other):.1f}" for one, other in points) if points else ""


def area(lower: Sequence[Point], upper: Sequence[Point], x: Axis, y: Axis) -> str:
    """Between two lines; nothing where they are one."""
    if not lower or lower == upper:
        return ""
    return path([*lower, *reversed(upper)], x, y) + "Z"
