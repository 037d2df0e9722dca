# SPDX-License-Identifier: GPL-2.0-only
"""A timeline as one HTML page: the picture, the changes, and every value in a table."""

from collections.abc import Iterator

from markupsafe import Markup

from harness.report.format import spread
from harness.report.page.render import render
from harness.studies.timeline.lines import TimelineRow
from harness.studies.timeline.measure import Timeline
from harness.studies.timeline.options import differences
from harness.studies.timeline.picture import picture
from harness.studies.timeline.sweep import label
from harness.studies.timeline.text import between, by, seeds, values


def page(timeline: Timeline, command: str) -> str:
    """The whole file; ``command`` made it."""
    sweep = timeline.sweep
    return render(
        "timeline.html",
        name=sweep.scenario.name,
        title=sweep.scenario.title,
        kernels=len(sweep.specs),
        measured=len(sweep.points),
        seeds=seeds(timeline),
        picture=Markup(picture(timeline)),  # noqa: S704 - made here, with every word escaped
        changes=[
            {
                "between": between(change, sweep),
                "name": change.line.title,
                "by": "" if change.share is None else by(change.share),
                "values": values(change),
            }
            for change in timeline.changes
        ],
        options=list(differences(sweep, {(change.before, change.after) for change in timeline.changes})),
        heads=[label(spec) for spec in sweep.specs],
        rows=[{"name": line.title, "cells": list(_cells(timeline, line))} for line in timeline.lines if line.values],
        origins=[{"label": label(spec), "words": words} for spec, words in _origins(timeline)],
        command=command,
    )


def _cells(timeline: Timeline, line: TimelineRow) -> Iterator[str]:
    for place in range(len(timeline.sweep.specs)):
        ensemble, status = line.values.get(place), line.status(place)
        yield " ".join(filter(None, (spread(ensemble) if ensemble else "", str(status or ""))))


def _origins(timeline: Timeline) -> Iterator[tuple[str, str]]:
    sweep = timeline.sweep
    for place, spec in enumerate(sweep.specs):
        if (point := sweep.points.get(place)) is not None:
            yield spec, f"{point.kernel.release}, {point.kernel.origin}; run {point.run}"
        else:
            yield spec, f"MISS: {sweep.missing[place]}" if place in sweep.missing else "not measured"
