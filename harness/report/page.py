# SPDX-License-Identifier: GPL-2.0-only
"""The page of one run; that of many is in ``harness.grid.page``."""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.figures.boot import LoadFiles, MeasurementError
from harness.figures.samples import LoadUse, Samples, Series, held_series, mean_use, read_samples, read_use
from harness.judge.cells import CellResult, Ensemble, ensemble_of
from harness.judge.claims import EntryVerdict
from harness.judge.difference import ArmFigure, Precision, figure_difference
from harness.judge.verdict import SHOWN_METRIC, Verdict
from harness.limits.bottleneck import by_role
from harness.record.store import PlannedCell, RunFolder
from harness.report import charts
from harness.report import claims as said
from harness.report.charts import FEW_LINES, SLOWEST, Distribution, Occupancy, StripRow, strip
from harness.report.claims import NOT_MEASURED, JudgedRun, claim_text, conclusion, incidents, method, settings_words
from harness.report.format import LEGEND, change_words, figure, limits, plural, reported, severity, spread, time_words
from harness.report.html import Values, render
from harness.report.topology import branches, stack_boxes
from harness.scenario.model import Arm, Load, Scenario, Status
from harness.scenario.registry import PER_IO
from lab.base.record import BootRecord, Outcome


@dataclass(frozen=True)
class RecordedLoad:
    """``use`` is the mean over all windows of the boots; ``samples`` are those of the first window of ``seed``."""

    arm: Arm
    load: Load
    use: LoadUse
    samples: Samples
    seed: int


def recorded(run: RunFolder) -> Iterator[RecordedLoad]:
    """Each load of each arm whose use was recorded in all boots that ended well."""
    for arm in run.scenario.arms.values():
        boots = list(_boots(run, arm))
        for load in run.scenario.loads.values() if boots else ():
            try:
                windows = load.windows(run.scenario.windows)
                uses = [
                    read_use(LoadFiles(record.files, arm.topology, window)) for _, record in boots for window in windows
                ]
                seed, first = boots[0]
                name = f"{windows[0].name}.samples.json"
                samples = read_samples(first.files[name], name)
            except MeasurementError:
                continue
            yield RecordedLoad(arm, load, mean_use(uses), samples, seed)


def _boots(run: RunFolder, arm: Arm) -> Iterator[tuple[int, BootRecord]]:
    for cell in run.facts.cells:
        record = run.boot(cell) if cell.arm == arm.name and not cell.skip and not cell.repeat else None
        if record is not None and record.outcome is Outcome.BYE:
            yield cell.seed, record


PERCENTILES = ("p50", "p90", "p99", "p99.9")
_TAIL, _TAIL_NEEDS = "p99.9", 1000
"""With fewer I/Os this percentile is just the maximum."""
_NONE = "-"
_MEGA = 1e6
_DIGEST = 16


def run_page(run: RunFolder, judged: JudgedRun) -> str:
    """HTML. Raises Misuse when a run cannot be read."""
    verdict, loads = judged.verdict, list(recorded(run))
    claims, controls = _entries(verdict.claims), _entries(verdict.controls)
    values = {
        "claims": claims,
        "controls": controls,
        "reproductions": list(_reproductions(verdict)),
        "incidents": [*incidents(verdict.incidents), *incidents(verdict.base_incidents, "BASE kernel: ")],
        "measured": list(figure_rows(verdict, judged.precision)),
        "bottlenecks": by_role(judged.bottlenecks),
        "latency": list(latency_charts(run.scenario, verdict.cells)),
        "occupancy": list(occupancy_charts(loads)),
        "topologies": list(_topologies(run.scenario, loads)),
        "cells": list(_cells(run, verdict)),
        "how": list(method(judged)),
    }
    return render(
        "run.html",
        scenario=run.scenario,
        facts=run.facts,
        verdict=verdict,
        conclusion=conclusion(verdict),
        headline=said.headline(verdict),
        unmet=[row for row in (*claims, *controls) if severity(row["word"]) <= severity(Status.DONE)],
        seeds=plural(len(verdict.seeds), "seed"),
        base=judged.kernels[0],
        noisy=not run.scenario.timing.exact,
        legend=LEGEND,
        scaled=_scale(run.scenario),
        command=shlex.join(run.facts.command),
        percentiles=PERCENTILES,
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


def _topologies(scenario: Scenario, loads: Sequence[RecordedLoad]) -> Iterator[Values]:
    """A tree for each arm, with the use by all of its loads; one for all arms where no use was recorded."""
    arms = {load.arm.name: load.arm for load in loads}
    for arm in arms.values() or list(scenario.arms.values())[:1]:
        topology, settings = arm.topology, settings_words(arm)
        uses = {load.load.name: load.use for load in loads if load.arm.name == arm.name}
        heading = f"{topology.name}{' under' if loads else ', as'} arm {arm.name}{'' if loads else ' has it'}"
        stacks, ways = list(stack_boxes(topology)), branches(topology, uses)
        yield {"heading": heading + (f" ({settings})" if settings else ""), "stacks": stacks, "branches": ways}


def _entries(entries: Iterable[EntryVerdict]) -> list[Values]:
    """Claims or controls, failures first; ``word`` is what it does."""
    rows = []
    for text in map(claim_text, sorted(entries, key=lambda entry: severity(entry.word))):
        entry, judgement, drawn = text.entry, text.entry.judgement, None
        if judgement is not None:
            row = StripRow("", judgement.ensemble, judgement.interval)
            drawn = strip(entry.that, [row], entry.entry.expect, wish=text.wish)
        shown = {"that": entry.text, "value": text.value, "expect": text.bound, "ratio": entry.ratio}
        sentence = {"sentence": text.explanation, "strip": drawn}
        rows.append({"word": text.state, "must": f"must {text.must}", **shown, **sentence})
    return rows


def _reproductions(verdict: Verdict) -> Iterator[Values]:
    for entry in verdict.reproductions:
        shown = NOT_MEASURED if entry.ensemble is None else spread(entry.ensemble)
        report = reported(entry.reported, entry.in_words)
        off = "" if entry.off is None else f"{100 * entry.off:+.1f} % from the report's {report}. "
        off = f"Far off: {entry.mark}. {off}" if entry.mark else off
        before = f"Report: {report}. " if entry.reported is None else ""
        drawn = strip(entry.that, [StripRow("", entry.ensemble)], reported=entry.reported)
        more = {"expect": "", "ratio": entry.ratio.text, "sentence": before + off + (entry.because or entry.reason)}
        yield {"word": "", "must": "", "that": entry.that, "value": shown, **more, "strip": drawn}


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
    command = ["blklab", "run", facts.ref, "--kernel", facts.kernel.spec]
    command += ["--base", facts.base.spec] if facts.base else []
    yield shlex.join([*command, "--arm", cell.arm, "--seeds", str(cell.seed)])
    if cell.boot and (run.path / "boots" / cell.boot / "repeat.sh").is_file():
        yield f"sh boots/{cell.boot}/repeat.sh"


def figure_rows(verdict: Verdict, precision: Precision) -> Iterator[Values]:
    """``share`` is the IOPS in per cent of the highest; ``rows`` the rows of an arm, 0 in all but its first.

    ``precision`` is that between both kernels.
    """
    most = max((row.iops.median for row in verdict.measurements), default=0.0)
    arm = ""
    for row in verdict.measurements:
        rows = 0 if row.arm == arm else sum(other.arm == row.arm for other in verdict.measurements)
        arm = row.arm
        name = row.load, row.role
        iops = ArmFigure(row.arm, *name, SHOWN_METRIC)
        metrics = ("bw", "lat.mean", "lat.p99", "lat.max", PER_IO)
        bw, mean, p99, slowest, cost = (ensemble_of(verdict.cells, row.arm, (*name, metric)) for metric in metrics)
        # Fewer than 1 % of the I/Os then take longer than the mean, and the largest shows how much longer.
        skewed = mean and p99 and slowest and mean.median > p99.median
        yield {
            "arm": row.arm,
            "rows": rows,
            "load": row.load,
            "role": row.role,
            "iops": figure(row.iops.median),
            "range": limits(row.iops),
            "share": 100 * row.iops.median / most if most else 0.0,
            "base": figure(row.base.median) if row.base else _NONE,
            "against": change_words(figure_difference(iops, verdict.base or (), verdict.cells, precision)),
            "bw": f"{bw.median / _MEGA:.3g}" if bw else _NONE,
            "mean": time_words(mean.median) if mean else _NONE,
            "skewed": f"above p99: the slowest I/O took {time_words(slowest.median)}" if skewed and slowest else "",
            "p99": time_words(p99.median) if p99 else _NONE,
            "cost": time_words(cost.median) if cost else _NONE,
        }


def latency_charts(scenario: Scenario, cells: Sequence[CellResult]) -> Iterator[Values]:
    """The latency of each role of each load; ``rows`` has the recorded percentiles of each arm as text."""
    for load in scenario.loads.values():
        for role in load.roles:
            every = {arm: distribution(cells, arm, load.name, role) for arm in scenario.arms}
            drawn = {arm: percentiles for arm, percentiles in every.items() if "p50" in percentiles}
            rows = {
                arm: {
                    name: spread(percentiles[name], time_words)
                    for name in (*PERCENTILES, SLOWEST)
                    if name in percentiles
                }
                for arm, percentiles in drawn.items()
            }
            labels = {arm: ", ".join(f"{name} {text}" for name, text in row.items()) for arm, row in rows.items()}
            if drawn:
                svg = charts.latency(f"Latency of {role} under load {load.name}", drawn, labels)
                yield {"load": load.name, "role": role, "rows": rows, "svg": svg}


def distribution(cells: Sequence[CellResult], arm: str, load: str, role: str) -> Distribution:
    """Percentiles of the whole latency, with submission; empty if fio counted nothing, or reads and writes apart."""
    by_name: dict[str, dict[int, float]] = {}
    for cell in cells:
        few = cell.figures.get((load, role, "total_ios"), 0.0) < _TAIL_NEEDS
        for name in (*PERCENTILES, SLOWEST):
            value = cell.figures.get((load, role, f"lat.{name}"))
            if cell.arm == arm and value and not (few and name == _TAIL):
                by_name.setdefault(name, {})[cell.seed] = value
    return {name: Ensemble(values) for name, values in by_name.items()}


def occupancy_charts(loads: Sequence[RecordedLoad]) -> Iterator[Values]:
    """Tags held over the window: ``lines`` are the names of the lines, in the order of their styles."""
    for load in loads:
        series = load.samples.series
        hosts = {name: series.get(f"host_busy[{name}]") for name in load.use.hosts}
        luns = {f"LUN {name}": series.get(held_series(load.arm.topology, name)) for name in load.use.luns}
        held = Occupancy(_counted(hosts), _counted(luns), _tag_limits(load), load.samples.ended - load.samples.began)
        if held.hosts or held.luns:
            heading = f"{load.arm.name}.{load.load.name}"
            title = f"Tags held over the window of {heading}, seed {load.seed}"
            svg = held.svg(title, f"seconds of the window, seed {load.seed}")
            yield {"heading": heading, "lines": held.lines, "note": held.note, "svg": svg}


def _counted(series: Mapping[str, Series | None]) -> dict[str, Series]:
    return {name: each for name, each in series.items() if each and each.count}


def _tag_limits(load: RecordedLoad) -> list[tuple[int, str]]:
    """The distinct limits of the hosts, and of SCSI LUNs if each is drawn."""
    topology = load.arm.topology
    hosts = {topology.hbas[topology.luns[lun].hba] for lun in load.use.luns}
    limits = {hba.can_queue: f"can_queue {hba.can_queue}" for hba in hosts}
    if len(load.use.luns) + len(hosts) <= FEW_LINES:
        limits = {hba.cmd_per_lun: f"cmd_per_lun {hba.cmd_per_lun}" for hba in hosts} | limits
    return sorted(limits.items())
