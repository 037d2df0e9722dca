# SPDX-License-Identifier: GPL-2.0-only
"""The table of figures: throughput and latency of each arm, load and role."""

from collections.abc import Iterator

from harness.judge.comparison import Difference, kind_of
from harness.judge.ensemble import Ensemble
from harness.judge.verdict import Verdict
from harness.metrics.figures import PER_IO
from harness.report.format import figure, limits
from harness.report.page.charts import time_words
from harness.report.page.render import Values
from harness.report.terminal.comparison import MARKS

_NONE = "-"
_MEGA = 1e6


def figure_rows(verdict: Verdict, *, exact: bool) -> Iterator[Values]:
    """``share`` is the IOPS in per cent of the highest; ``rows`` the rows of an arm, 0 in all but its first."""
    most = max((row.iops.median for row in verdict.measured), default=0.0)
    arm = ""
    for row in verdict.measured:
        rows = 0 if row.arm == arm else sum(other.arm == row.arm for other in verdict.measured)
        arm = row.arm
        name = row.arm, row.load, row.role
        bw, mean, p99, cost = (measured(verdict, name, metric) for metric in ("bw", "lat.mean", "lat.p99", PER_IO))
        yield {
            "arm": row.arm,
            "rows": rows,
            "load": row.load,
            "role": row.role,
            "iops": figure(row.iops.median),
            "range": limits(row.iops),
            "share": 100 * row.iops.median / most if most else 0.0,
            "base": figure(row.base.median) if row.base else _NONE,
            "against": against(row.iops, row.base, exact=exact),
            "bw": f"{bw.median / _MEGA:.3g}" if bw else _NONE,
            "mean": time_words(mean.median) if mean else _NONE,
            "p99": time_words(p99.median) if p99 else _NONE,
            "cost": time_words(cost.median) if cost else _NONE,
        }


def against(one: Ensemble, base: Ensemble | None, *, exact: bool) -> str:
    """The change from ``base`` in per cent, with the mark of ``blklab compare``. ``exact``: virtual clock."""
    if base is None or not base.median:
        return _NONE
    kind = kind_of(base, one, exact=exact)
    if kind is Difference.NONE:
        return MARKS[kind]
    return f"{100 * (one.median / base.median - 1):+.1f} % {MARKS[kind]}".rstrip()


def measured(verdict: Verdict, name: tuple[str, str, str], metric: str) -> Ensemble | None:
    """A metric of an arm, load and role over the seeds; None if no boot recorded it."""
    arm, load, role = name
    key = load, role, metric
    values = {cell.seed: cell.figures[key] for cell in verdict.cells if cell.arm == arm and key in cell.figures}
    return Ensemble(values) if values else None
