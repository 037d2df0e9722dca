# SPDX-License-Identifier: GPL-2.0-only
"""Figures of a run: latency distributions from fio's percentiles, tags held over the window, and the table of all."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from markupsafe import escape

from harness.judge.cells import CellResult, Ensemble, ensemble_of
from harness.judge.verdict import Verdict
from harness.metrics.figures import PER_IO
from harness.metrics.node import MeasurementError
from harness.metrics.occupancy import LoadUse, Samples, Series, held_series, mean_use, read_samples, read_use
from harness.record.store import RunFolder
from harness.report.drawing import chart, svg
from harness.report.format import figure, limits, plural, time_words
from harness.report.page.render import Values
from harness.report.words import against
from harness.scenario.model import Arm, Load, Scenario
from lab.base.record import BootRecord, Outcome

PERCENTILES = ("p50", "p90", "p99", "p99.9")
_SLOWEST = "max"
_TAIL, _TAIL_NEEDS = "p99.9", 1000
"""With fewer I/Os this percentile is just the maximum."""
_ROW, _TOP, _FOOT, _EDGE = 32.0, 6.0, 22.0, 12.0


Distribution = Mapping[str, Ensemble]
"""Percentile, or ``max`` -> ns of each seed."""


def latency_charts(scenario: Scenario, cells: Sequence[CellResult]) -> Iterator[Values]:
    """One role of one load on a logarithmic axis; ``rows`` has the words of the recorded percentiles of each arm."""
    for load in scenario.loads.values():
        for role in load.roles:
            every = {arm: distribution(cells, arm, load.name, role) for arm in scenario.arms}
            drawn = {arm: percentiles for arm, percentiles in every.items() if "p50" in percentiles}
            if drawn:
                yield _chart(load.name, role, drawn)


def distribution(cells: Sequence[CellResult], arm: str, load: str, role: str) -> Distribution:
    """Percentiles of the whole latency, with submission; empty if fio counted nothing, or reads and writes apart."""
    by_name: dict[str, dict[int, float]] = {}
    for cell in cells:
        few = cell.figures.get((load, role, "total_ios"), 0.0) < _TAIL_NEEDS
        for name in (*PERCENTILES, _SLOWEST):
            value = cell.figures.get((load, role, f"lat.{name}"))
            if cell.arm == arm and value and not (few and name == _TAIL):
                by_name.setdefault(name, {})[cell.seed] = value
    return {name: Ensemble(values) for name, values in by_name.items()}


def _chart(load: str, role: str, drawn: Mapping[str, Distribution]) -> Values:
    values = [ensemble.median for percentiles in drawn.values() for ensemble in percentiles.values()]
    x = chart.logarithmic(values, _EDGE, chart.WIDTH - _EDGE)
    base = _TOP + _ROW * len(drawn)
    ticks = [chart.Tick(x.at(value), time_words(value)) for value in x.values()]
    words = {
        arm: {name: _words(percentiles[name]) for name in (*PERCENTILES, _SLOWEST) if name in percentiles}
        for arm, percentiles in drawn.items()
    }
    said = {arm: ", ".join(f"{name} {text}" for name, text in row.items()) for arm, row in words.items()}
    body = [svg.path("grid", "M", tick.at, 4.0, "V", base) for tick in ticks] + [*chart.ground(x, base, ticks)]
    for place, (arm, percentiles) in enumerate(drawn.items()):
        body += _row(arm, said[arm], {name: x.at(each.median) for name, each in percentiles.items()}, place)
    title = f"Latency of {role} under load {load}: {'; '.join(f'{arm} {text}' for arm, text in said.items())}"
    return {
        "load": load,
        "role": role,
        "rows": words,
        "svg": svg.picture("chart drawn", title, (chart.WIDTH, base + _FOOT), body),
    }


def _row(arm: str, said: str, at: Mapping[str, float], place: int) -> Iterator[str]:
    y, slowest = _TOP + _ROW * place + 22, at.get(_SLOWEST, max(at.values()))
    yield f"<g><title>{escape(f'{arm}: {said}')}</title>"
    yield svg.text("", _EDGE, y - 10, arm)
    for kind, end in (("tail", slowest), ("tenth", at.get("p99")), ("half", at.get("p90"))):
        if end is not None:
            yield svg.path(kind, "M", at["p50"], y, "H", end)
    yield svg.dot("slowest", slowest, y, 3) + svg.dot("middle", at["p50"], y, 4.5) + "</g>"


def _words(ensemble: Ensemble) -> str:
    low, high = time_words(ensemble.low), time_words(ensemble.high)
    return time_words(ensemble.median) + (f" [{low} .. {high}]" if low != high else "")


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
                uses = [read_use(record.files, arm.topology, window) for _, record in boots for window in windows]
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


_MOST_LINES = 6
"""Lines differ in their dashes and have names; more could not be told apart."""
_FEW = _MOST_LINES - 1
_HEIGHT, _LEFT, _RIGHT, _CEILING, _BASE = 196.0, 46.0, 334.0, 14.0, 162.0
_HEADROOM = 1.08
_FAR = 2.0
"""A limit is drawn up to this multiple of the held tags; a higher one would flatten the lines."""


def occupancy_charts(loads: Sequence[RecordedLoad]) -> Iterator[Values]:
    """Tags held over the window: ``lines`` are the names of the lines, in the order of their styles."""
    for load in loads:
        topology, recorded_series = load.arm.topology, load.samples.series
        sources = {name: f"host_busy[{name}]" for name in load.use.hosts}
        sources |= {f"LUN {name}": held_series(topology, name) for name in load.use.luns}
        series = {name: recorded_series.get(source) for name, source in sources.items()}
        if counted := {name: each for name, each in series.items() if each and each.count}:
            yield _occupancy_chart(load, counted)


def _occupancy_chart(load: RecordedLoad, series: Mapping[str, Series]) -> Values:
    luns = {name: each for name, each in series.items() if name.startswith("LUN ")}
    shown = series if len(series) <= _FEW else {name: each for name, each in series.items() if name not in luns}
    seconds = (load.samples.ended - load.samples.began) / 1e9
    most = max(value for each in series.values() for value in (*each.parts, 0.0) if value is not None)
    limits = _limits(load)
    near = [(limit, words) for limit, words in limits if limit <= _FAR * most]
    x = chart.Axis(0.0, seconds, _LEFT, _RIGHT)
    y = chart.Axis(0.0, max(1.0, _HEADROOM * max([most, *(limit for limit, _ in near)])), _BASE, _CEILING)
    names, areas, lines = list(shown), list[str](), list[str]()
    for each in shown.values():
        points = ((_time(place, each, seconds), value) for place, value in enumerate(each.parts) if value is not None)
        lines.append(chart.along(points, x, y))
    if luns and not luns.keys() <= shown.keys():
        middle, around = _many(luns, seconds, x, y)
        areas.append(svg.path(f"spread a{len(lines)}", around))
        lines.append(middle)
        names.append(f"mean and range of {plural(len(luns), 'LUN')}")
    heading = f"{load.arm.name}.{load.load.name}"
    said = "; ".join(f"{name} {each.mean:.3g} in the mean, {each.max} at most" for name, each in shown.items())
    body = [*chart.grid(y, _LEFT, _RIGHT), *chart.ground(x, _BASE, x.ticks())]
    body.append(svg.text("soft mid", (_LEFT + _RIGHT) / 2, 192, f"seconds of the window, seed {load.seed}"))
    for limit, words in near:
        body.append(svg.path("limit", "M", _LEFT, y.at(limit), "H", _RIGHT))
        body.append(svg.text("limit-name end", _RIGHT, y.at(limit) - 4, words))
    body += [*areas, *(svg.path(f"series s{style}", line) for style, line in enumerate(lines[:_MOST_LINES]))]
    beyond = ", ".join(words for limit, words in limits if limit > _FAR * most)
    title = f"Tags held over the window of {heading}, seed {load.seed}: {said or 'LUNs only'}"
    return {
        "heading": heading,
        "lines": names[:_MOST_LINES],
        "note": f"{beyond}: above the chart" if beyond else "",
        "svg": svg.picture("chart drawn", title, (chart.WIDTH, _HEIGHT), body),
    }


def _limits(load: RecordedLoad) -> list[tuple[int, str]]:
    """The distinct limits of the hosts, and of SCSI LUNs if each is drawn."""
    topology = load.arm.topology
    hosts = {topology.hbas[topology.luns[lun].hba] for lun in load.use.luns}
    limits = {hba.can_queue: f"can_queue {hba.can_queue}" for hba in hosts}
    if len(load.use.luns) + len(hosts) <= _FEW:
        limits = {hba.cmd_per_lun: f"cmd_per_lun {hba.cmd_per_lun}" for hba in hosts} | limits
    return sorted(limits.items())


def _many(luns: Mapping[str, Series], seconds: float, x: chart.Axis, y: chart.Axis) -> tuple[str, str]:
    """The mean over many LUNs as a line, minimum to maximum as an area."""
    columns: dict[float, list[float]] = {}
    for series in luns.values():
        for place, value in enumerate(series.parts):
            if value is not None:
                columns.setdefault(_time(place, series, seconds), []).append(value)
    ordered = sorted(columns.items())
    upper = [(time, max(values)) for time, values in reversed(ordered)]
    around = chart.along([*((time, min(values)) for time, values in ordered), *upper], x, y) + "Z"
    return chart.along([(time, fmean(values)) for time, values in ordered], x, y), around


def _time(place: int, series: Series, seconds: float) -> float:
    return (place + 0.5) / len(series.parts) * seconds


_NONE = "-"
_MEGA = 1e6


def figure_rows(verdict: Verdict, *, exact: bool) -> Iterator[Values]:
    """``share`` is the IOPS in per cent of the highest; ``rows`` the rows of an arm, 0 in all but its first."""
    most = max((row.iops.median for row in verdict.measured), default=0.0)
    arm = ""
    for row in verdict.measured:
        rows = 0 if row.arm == arm else sum(other.arm == row.arm for other in verdict.measured)
        arm = row.arm
        name = row.load, row.role
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
            "against": against(row.iops, row.base, exact=exact),
            "bw": f"{bw.median / _MEGA:.3g}" if bw else _NONE,
            "mean": time_words(mean.median) if mean else _NONE,
            "skewed": f"above p99: the slowest I/O took {time_words(slowest.median)}" if skewed and slowest else "",
            "p99": time_words(p99.median) if p99 else _NONE,
            "cost": time_words(cost.median) if cost else _NONE,
        }
