# SPDX-License-Identifier: GPL-2.0-only
"""CSV of every measured figure: a row for each kernel, arm, seed, load, role and metric."""

import csv
import io
from collections.abc import Iterator, Sequence

from harness.judge.cells import CellResult
from harness.judge.verdict import Verdict
from harness.record.store import RunFacts
from harness.scenario.metric_names import unit
from harness.scenario.model import Scenario

COLUMNS = ("scenario", "run", "kernel", "arm", "load", "role", "metric", "seed", "value", "unit")


def csv_table(scenario: Scenario, verdict: Verdict, facts: RunFacts) -> str:
    """RFC 4180 with a header, lines ended by LF; ``unit`` is empty for a count or a share.

    The BASE kernel's rows come last, under its own run and release.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in _rows(verdict.cells):
        writer.writerow((scenario.name, facts.run_id, facts.kernel.release, *row))
    if facts.base:
        for row in _rows(verdict.base or ()):
            writer.writerow((scenario.name, facts.baseline, facts.base.release, *row))
    return out.getvalue()


def _rows(cells: Sequence[CellResult]) -> Iterator[tuple[object, ...]]:
    """Values in full, so that reading them back gives the very same figures."""
    for cell in cells:
        for (load, role, metric), value in sorted(cell.figures.items()):
            yield cell.arm, load, role, metric, cell.seed, repr(value), unit(metric)
