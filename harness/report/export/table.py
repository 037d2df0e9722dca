# SPDX-License-Identifier: GPL-2.0-only
"""CSV of every measured figure: a row for each kernel, arm, seed, load, role and metric."""

import csv
import io
from collections.abc import Iterator, Sequence

from harness.judge.cells import CellResult
from harness.report.export.parts import Export
from harness.scenario.metric_names import unit

_FORMULA = ("=", "+", "-", "@", "\t")
COLUMNS = ("scenario", "run", "kernel", "arm", "load", "role", "metric", "seed", "value", "unit")


def csv_table(export: Export) -> str:
    """RFC 4180 with a header, lines ended by LF; ``unit`` is empty for a count or a share.

    Rows of the BASE kernel come last, with its own run and release. A text that a spreadsheet would take for a
    formula starts with an apostrophe.
    """
    verdict, facts = export.verdict, export.facts
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in _rows(verdict.cells):
        writer.writerow(_safe(export.scenario.name, facts.run_id, facts.kernel.release, *row))
    if facts.base:
        for row in _rows(verdict.base or ()):
            writer.writerow(_safe(export.scenario.name, facts.baseline, facts.base.release, *row))
    return out.getvalue()


def _safe(*row: object) -> tuple[object, ...]:
    """The row without formulas (OWASP, "CSV Injection"); figures stay as they are."""
    return tuple(f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell for cell in row)


def _rows(cells: Sequence[CellResult]) -> Iterator[tuple[object, ...]]:
    """Values as floats, which csv writes by repr: reading them back gives the same figures."""
    for cell in cells:
        for (load, role, metric), value in sorted(cell.figures.items()):
            yield cell.arm, load, role, metric, cell.seed, value, unit(metric)
