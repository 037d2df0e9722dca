# SPDX-License-Identifier: GPL-2.0-only
"""One figure over many runs, and where it changed. Pure.

Change points are ruptures' PELT with a Gaussian cost over logarithms, so that a change is a share
(Killick, Fearnhead, Eckley, "Optimal detection of changepoints with a linear computational cost",
2012). The penalty is that of the Bayesian information criterion for the noise that the ensembles
show. What it finds is told only where the runs on both sides differ as ``compare`` has it.
"""

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from harness.judge.comparison import LARGE, Difference, Threshold, kind_of
from harness.judge.ensemble import Ensemble
from lab.base.errors import LabBroken

LEAST_NOISE = 0.005
"""Share by which figures scatter at least: one space more on the command line moves them by as much."""
_PARAMETERS = 2
"""What a change point adds to the model: its place, and the level after it."""


@dataclass(frozen=True)
class HistoryPoint:
    """A figure of one run. ``label`` says which run it is: its date and release."""

    label: str
    ensemble: Ensemble


@dataclass(frozen=True)
class ChangePoint:
    """Between ``points[at - 1]`` and ``points[at]`` the level went from ``before`` to ``after`` (medians)."""

    at: int
    before: float
    after: float

    @property
    def share(self) -> float:
        return self.after / self.before - 1


def change_points(points: Sequence[HistoryPoint], threshold: Threshold = LARGE) -> tuple[ChangePoint, ...]:
    """Where the level changes, oldest first; nothing for fewer than two points or figures that are not positive.

    Raises LabBroken when ruptures is not installed.
    """
    medians = [point.ensemble.median for point in points]
    if len(points) < 2 or min(medians) <= 0:  # noqa: PLR2004
        return ()
    return tuple(_real(points, _breaks([math.log(value) for value in medians], _noise(points)), threshold))


def _noise(points: Sequence[HistoryPoint]) -> float:
    """Standard deviation of a logarithm, as the seeds scatter."""
    shares = [
        statistics.stdev(math.log(value) for value in point.ensemble.values.values())
        for point in points
        if len(point.ensemble.values) > 1 and point.ensemble.low > 0
    ]
    return max(LEAST_NOISE, statistics.median(shares) if shares else 0.0)


def _breaks(signal: Sequence[float], noise: float) -> list[int]:
    """Starts of the segments but the first."""
    try:
        import numpy  # noqa: PLC0415
        import ruptures  # noqa: PLC0415
    except ImportError as error:
        raise LabBroken(
            "ruptures, which finds change points, is not installed",
            remedy="pip install --require-hashes -r requirements/history.txt in the virtual environment",
        ) from error
    detector: Any = ruptures.Pelt(model="l2", min_size=1, jump=1)
    penalty = _PARAMETERS * noise**2 * math.log(len(signal))
    found: list[int] = detector.fit(numpy.array(signal)).predict(pen=penalty)
    return [int(at) for at in found[:-1]]


def _real(points: Sequence[HistoryPoint], starts: Sequence[int], threshold: Threshold) -> Iterator[ChangePoint]:
    edges = [0, *starts, len(points)]
    for begin, at, end in zip(edges, edges[1:], edges[2:], strict=False):
        if kind_of(points[at - 1].ensemble, points[at].ensemble, threshold) is Difference.MARKED:
            yield ChangePoint(at, _level(points[begin:at]), _level(points[at:end]))


def _level(points: Sequence[HistoryPoint]) -> float:
    return statistics.median(point.ensemble.median for point in points)
