# SPDX-License-Identifier: GPL-2.0-only
"""All figures of one cell."""

from collections.abc import Callable, Iterable, Mapping

from harness.figures.boot import LoadFiles, sent
from harness.figures.counters import controller_figures, counter_figures, folio_figures
from harness.figures.disks import disk_figures
from harness.figures.fio import fio_figures
from harness.figures.lines import line_figures
from harness.figures.readback import read_tried, tried_counts
from harness.figures.samples import sample_figures
from harness.scenario.model import Load
from harness.scenario.registry import FigureKey, Figures, Readings, Source
from lab.base.record import TRIED
from lab.topology.fields import REPEAT_COUNT
from lab.topology.model import Topology

READERS: Mapping[Source, Callable[[LoadFiles, Figures], Readings]] = {
    Source.INVENTORY: controller_figures,
    Source.FIO: fio_figures,
    Source.COUNTERS: counter_figures,
    Source.TRACE: folio_figures,
    Source.DISKS: disk_figures,
    Source.SAMPLES: sample_figures,
    Source.PLUGIN: line_figures,
}
"""The figures of each file of a load. A reader gets those that were read before."""


def figures_of(files: Mapping[str, bytes], topology: Topology, loads: Iterable[Load]) -> dict[FigureKey, float]:
    """Figures of every load, from the measured files of one boot. Raises MeasurementError."""
    figures = tried_counts(files, topology)
    if any(stack.tried.keys() - {REPEAT_COUNT.name} for stack in topology.stacks.values()):
        figures.update(read_tried(sent(files, TRIED)))
    for load in loads:
        left = LoadFiles(files, topology, load)
        for read in READERS.values():
            figures.update(read(left, figures))
    return figures
