# SPDX-License-Identifier: GPL-2.0-only
"""Line charts in pixels. A line is told from its neighbours by its dashes and by name, never by colour alone."""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.report.drawing.scale import Axis, Tick

WIDTH, HEIGHT = 344.0, 196.0
LEFT, RIGHT, TOP, BASE = 46.0, 334.0, 14.0, 162.0
MOST_LINES = 6
"""As many as can be told apart: ``style`` of a line counts from 0 to one less."""

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


def across(low: float, high: float, *, logarithmic: bool = False) -> Axis:
    return Axis(low, high, LEFT, RIGHT, logarithmic)


def upwards(low: float, high: float, *, logarithmic: bool = False) -> Axis:
    return Axis(low, high, BASE, TOP, logarithmic)


def path(points: Sequence[Point], x: Axis, y: Axis) -> str:
    """One line through all points."""
    return "M" + "L".join(f"{x.at(one):.1f} {y.at(other):.1f}" for one, other in points) if points else ""


def area(lower: Sequence[Point], upper: Sequence[Point], x: Axis, y: Axis) -> str:
    """Between two lines; nothing where they are one."""
    if not lower or lower == upper:
        return ""
    return path([*lower, *reversed(upper)], x, y) + "Z"
