# SPDX-License-Identifier: GPL-2.0-only
"""The page of one run."""

import shlex
from collections.abc import Iterator, Sequence

from markupsafe import Markup

from harness.judge.verdict import Verdict
from harness.record.store import PlannedCell, RunFacts, RunFolder
from harness.report.drawing.svg import topology_figure
from harness.report.format import duration, incidents, plural
from harness.report.page import charts
from harness.report.page.judged import claims, controls, reproductions
from harness.report.page.render import Values, render
from harness.report.terminal.comparison import LEGEND
from harness.report.terminal.conclusion import conclusion
from harness.report.terminal.terminal import BLIND, Surroundings
from harness.scenario.model import Clock, Scenario

_DIGEST = 16
_SCENARIO = 2
"""The word of ``blklab run SCENARIO`` that names it."""


def run_page(run: RunFolder, verdict: Verdict, around: Surroundings) -> str:
    """HTML. Raises Misuse when a run cannot be read."""
    found = list(charts.recorded(run))
    values = {
        "claims": claims(verdict),
        "controls": controls(verdict),
        "reproductions": list(reproductions(verdict)),
        "incidents": [*incidents(verdict.incidents), *incidents(verdict.base_incidents, "BASE kernel: ")],
        "measured": list(charts.figure_rows(verdict, exact=run.scenario.clock is Clock.VIRTUAL)),
        "bottlenecks": around.bottlenecks,
        "latency": list(charts.latency_charts(run.scenario, verdict.cells)),
        "occupancy": list(charts.occupancy_charts(found)),
        "topologies": list(topology_figures(run.scenario, found)),
        "cells": list(_cells(run, verdict)),
        "how": list(_how(run.scenario, run.facts, around)),
    }
    return render(
        "run.html",
        scenario=run.scenario,
        facts=run.facts,
        verdict=verdict,
        conclusion=conclusion(verdict),
        seeds=plural(len(verdict.seeds), "seed"),
        base=around.base,
        noisy=run.scenario.clock is Clock.WALL,
        legend=LEGEND,
        scaled=_scaled(run.scenario),
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


def _scaled(scenario: Scenario) -> str:
    scales = sorted({arm.topology.scale for arm in scenario.arms.values()} - {1})
    if not scales:
        return ""
    times = ", ".join(map(str, scales))
    return (
        f"The model is {times} times slower than the hardware: absolute figures are the lab's, ratios are what counts."
    )


def topology_figures(scenario: Scenario, found: Sequence[charts.RecordedLoad]) -> Iterator[Values]:
    """A drawing for each arm, with the use by all of its loads; one for all arms where no use was recorded."""
    arms = {one.arm.name: one.arm for one in found}
    for arm in arms.values() or list(scenario.arms.values())[:1]:
        topology = arm.topology
        uses = {one.load.name: one.use for one in found if one.arm.name == arm.name}
        settings = ", ".join(f"{key} {value}" for key, value in arm.settings.items())
        heading = f"{topology.name}{' under' if found else ', as'} arm {arm.name}{'' if found else ' has it'}"
        title = f"Topology {topology.name}, {topology.title}: hosts on the left, disks on the right, with their use"
        # The drawing escapes its names by itself.
        svg = Markup(topology_figure(topology, title, uses))  # noqa: S704
        yield {"heading": heading + (f" ({settings})" if settings else ""), "svg": svg}


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


def _how(scenario: Scenario, facts: RunFacts, around: Surroundings) -> Iterator[tuple[str, str]]:
    clock, blind = BLIND[scenario.clock]
    yield "clock", f"{clock}. {blind}"
    yield "kernel", f"{facts.kernel.release} ({facts.kernel.origin})"
    if around.base:
        yield "BASE kernel", around.base
    yield "machine", facts.qemu
    if around.models:
        yield "device models", around.models
    if scenario.source:
        source = scenario.source
        kernel = f"Linux {source.kernel}" if source.kernel else ""
        yield "after", ", ".join(filter(None, (source.report, source.by, source.on, kernel)))
    for arm in scenario.arms.values():
        settings = ", ".join(f"{key} {value}" for key, value in arm.settings.items()) or "as the topology has it"
        yield f"arm {arm.name}", settings + (f": {arm.teaches}" if arm.teaches else "")
    yield "started", facts.started
    took = "" if around.effort.elapsed is None else f" in {duration(around.effort.elapsed)}"
    yield "effort", f"{plural(around.effort.boots, 'boot')}{took}"
    yield "scenario digest", facts.scenario_digest
