# SPDX-License-Identifier: GPL-2.0-only
"""The page of one run."""

import shlex
from collections.abc import Iterable, Iterator, Sequence

from harness.judge.claims import EntryVerdict
from harness.judge.verdict import Verdict
from harness.limits.bottleneck import by_role
from harness.record.store import PlannedCell, RunFolder
from harness.report.drawing.boxes import branches, stack_boxes
from harness.report.drawing.chart import StripRow, strip
from harness.report.format import incidents, plural, reported, severity, spread, value
from harness.report.page import charts
from harness.report.page.render import MUST_BE, Values, render
from harness.report.words import LEGEND, Surroundings, conclusion, method, settings_words, state
from harness.scenario.model import Clock, Scenario, Status

_DIGEST = 16
_SCENARIO = 2
"""The word of ``blklab run SCENARIO`` that names it."""


def run_page(run: RunFolder, verdict: Verdict, around: Surroundings) -> str:
    """HTML. Raises Misuse when a run cannot be read."""
    loads = list(charts.recorded(run))
    claims, controls = _entries(verdict.claims, "expected"), _entries(verdict.controls, MUST_BE)
    values = {
        "claims": claims,
        "controls": controls,
        "reproductions": list(_reproductions(verdict)),
        "incidents": [*incidents(verdict.incidents), *incidents(verdict.base_incidents, "BASE kernel: ")],
        "measured": list(charts.figure_rows(verdict, exact=run.scenario.clock is Clock.VIRTUAL)),
        "bottlenecks": by_role(around.bottlenecks),
        "latency": list(charts.latency_charts(run.scenario, verdict.cells)),
        "occupancy": list(charts.occupancy_charts(loads)),
        "topologies": list(_topologies(run.scenario, loads)),
        "cells": list(_cells(run, verdict)),
        "how": list(method(run.scenario, verdict, around)),
    }
    return render(
        "run.html",
        scenario=run.scenario,
        facts=run.facts,
        verdict=verdict,
        conclusion=conclusion(verdict),
        unmet=[row for row in (*claims, *controls) if severity(row["word"]) <= severity(Status.DONE)],
        seeds=plural(len(verdict.seeds), "seed"),
        base=around.base,
        noisy=run.scenario.clock is Clock.WALL,
        legend=LEGEND,
        scaled=_scale(run.scenario),
        command=shlex.join(run.facts.command),
        percentiles=charts.PERCENTILES,
        parts=[{"anchor": anchor, "name": name} for key, anchor, name in _PARTS if values[key]],
        **values,
    )


_PARTS = (
    ("incidents", "incidents", "Not measured"),
    ("claims", "claims", "Claims"),
    ("controls", "controls", "Negative controls"),
    ("reproductions", "report", "Field report"),
    ("measured", "measured", "Measured"),
    ("bottlenecks", "limits", "Limits"),
    ("latency", "latency", "Latency"),
    ("occupancy", "time", "Over time"),
    ("topologies", "topology", "Topology"),
    ("cells", "repeat", "Repeat"),
    ("how", "how", "How"),
)
"""Parts of the page in their order: a value, its anchor, its name."""


def _scale(scenario: Scenario) -> str:
    scales = sorted({arm.topology.scale for arm in scenario.arms.values()} - {1})
    if not scales:
        return ""
    times = ", ".join(map(str, scales))
    return (
        f"The model is {times} times slower than the hardware: absolute figures are the lab's, ratios are what counts."
    )


def _topologies(scenario: Scenario, loads: Sequence[charts.RecordedLoad]) -> Iterator[Values]:
    """A tree for each arm, with the use by all of its loads; one for all arms where no use was recorded."""
    arms = {load.arm.name: load.arm for load in loads}
    for arm in arms.values() or list(scenario.arms.values())[:1]:
        topology, settings = arm.topology, settings_words(arm)
        uses = {load.load.name: load.use for load in loads if load.arm.name == arm.name}
        heading = f"{topology.name}{' under' if loads else ', as'} arm {arm.name}{'' if loads else ' has it'}"
        stacks, ways = list(stack_boxes(topology)), branches(topology, uses)
        yield {"heading": heading + (f" ({settings})" if settings else ""), "stacks": stacks, "branches": ways}


def _entries(entries: Iterable[EntryVerdict], wish: str) -> list[Values]:
    """Claims or controls, failures first; ``word`` is what it does."""
    rows = []
    for entry in sorted(entries, key=lambda entry: severity(entry.word)):
        judgement, shown, drawn = entry.judgement, "not measured", None
        if judgement is not None:
            row = StripRow("", judgement.ensemble, judgement.interval)
            shown, drawn = value(judgement), strip(entry.that, [row], entry.entry.expect, wish=wish)
        does, must = state(entry)
        sentence = "" if wish == MUST_BE and entry.word == Status.PASS else entry.says
        more = {"expect": f"{wish} {entry.expect}", "ratio": entry.ratio, "sentence": sentence, "strip": drawn}
        rows.append({"word": does, "must": f"must {must}", "that": entry.text, "value": shown, **more})
    return rows


def _reproductions(verdict: Verdict) -> Iterator[Values]:
    for told in verdict.reproductions:
        shown = "not measured" if told.ensemble is None else spread(told.ensemble)
        report = reported(told.reported, told.in_words)
        off = "" if told.off is None else f"{100 * told.off:+.1f} % from the report's {report}. "
        words = f"Report: {report}. " if told.reported is None else ""
        drawn = strip(told.that, [StripRow("", told.ensemble)], reported=told.reported)
        more = {"expect": "", "ratio": told.ratio.text, "sentence": words + off + (told.because or told.reason)}
        yield {"word": "", "must": "", "that": told.that, "value": shown, **more, "strip": drawn}


def _cells(run: RunFolder, verdict: Verdict) -> Iterator[Values]:
    """``lines`` repeat a boot: with blklab, and without."""
    results = {(cell.arm, cell.seed): cell for cell in verdict.cells}
    for cell in run.facts.cells:
        result = results.get((cell.arm, cell.seed))
        if result is None:
            # The rule of the wall clock ended the run before this one.
            continue
        digest = (result.digest or "")[:_DIGEST]
        lines, status = tuple(_lines(run, cell)), str(result.status)
        yield {**vars(cell), "status": status, "lines": lines, "digest": digest or "-"}


def _lines(run: RunFolder, cell: PlannedCell) -> Iterator[str]:
    facts = run.facts
    named = facts.command[_SCENARIO] if len(facts.command) > _SCENARIO else facts.scenario
    words = ["blklab", "run", named, "--kernel", facts.kernel.spec]
    words += ["--base", facts.base.spec] if facts.base else []
    yield shlex.join([*words, "--arm", cell.arm, "--seeds", str(cell.seed)])
    if cell.boot and (run.path / "boots" / cell.boot / "repeat.sh").is_file():
        yield f"sh boots/{cell.boot}/repeat.sh"
