# SPDX-License-Identifier: GPL-2.0-only
"""Figures of a run: latency distributions from fio's percentiles, tags held over the window, and the table of all."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.judge.cells import CellResult, ensemble_of
from harness.judge.comparison import Difference, kind_of
from harness.judge.ensemble import Ensemble
from harness.judge.verdict import Verdict
from harness.metrics.figures import PER_IO
from harness.metrics.node import MeasurementError
from harness.metrics.occupancy import held_series
from harness.metrics.samples import Samples, Series, read_samples
from harness.metrics.use import LoadUse, mean_use, read_use
from harness.record.store import RunFolder
from harness.report.drawing import chart
from harness.report.format import figure, limits, plural
from harness.report.page.render import Values
from harness.report.terminal.comparison import MARKS
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
    """One role of one load on a logarithmic axis, in pixels: ``at`` has the recorded PERCENTILES of each row."""
    for load in scenario.loads.values():
        for role in load.roles:
            found = {arm: distribution(cells, arm, load.name, role) for arm in scenario.arms}
            drawn = {arm: one for arm, one in found.items() if "p50" in one}
            if drawn:
                yield _chart(load.name, role, drawn)


def distribution(cells: Sequence[CellResult], arm: str, load: str, role: str) -> Distribution:
    """Percentiles of the whole latency, with submission; empty if fio counted nothing, or reads and writes apart."""
    found: dict[str, dict[int, float]] = {}
    for cell in cells:
        few = cell.figures.get((load, role, "total_ios"), 0.0) < _TAIL_NEEDS
        for name in (*PERCENTILES, _SLOWEST):
            value = cell.figures.get((load, role, f"lat.{name}"))
            if cell.arm == arm and value and not (few and name == _TAIL):
                found.setdefault(name, {})[cell.seed] = value
    return {name: Ensemble(values) for name, values in found.items()}


def _chart(load: str, role: str, drawn: Mapping[str, Distribution]) -> Values:
    values = [ensemble.median for one in drawn.values() for ensemble in one.values()]
    axis = chart.logarithmic(values, _EDGE, chart.WIDTH - _EDGE)
    rows = tuple(_row(place, arm, one, axis) for place, (arm, one) in enumerate(drawn.items()))
    base = _TOP + _ROW * len(rows)
    said = "; ".join(
        f"{row['arm']} {', '.join(f'{name} {text}' for name, text in row['words'].items())}" for row in rows
    )
    return {
        "load": load,
        "role": role,
        "title": f"Latency of {role} under load {load}: {said}",
        "width": chart.WIDTH,
        "height": base + _FOOT,
        "left": _EDGE,
        "right": chart.WIDTH - _EDGE,
        "base": base,
        "ticks": tuple(chart.Tick(axis.at(value), time_words(value)) for value in axis.values()),
        "rows": rows,
    }


def _row(place: int, arm: str, one: Distribution, axis: chart.Axis) -> Values:
    at = {name: axis.at(one[name].median) for name in PERCENTILES if name in one}
    return {
        "arm": arm,
        "y": _TOP + _ROW * place + 22,
        "at": at,
        "slowest": axis.at(one[_SLOWEST].median) if _SLOWEST in one else max(at.values()),
        "words": {name: _words(one[name]) for name in (*PERCENTILES, _SLOWEST) if name in one},
    }


def _words(ensemble: Ensemble) -> str:
    low, high = time_words(ensemble.low), time_words(ensemble.high)
    return time_words(ensemble.median) + (f" [{low} .. {high}]" if low != high else "")


def time_words(ns: float) -> str:
    """Three significant digits: ``8.53 ms``, ``412 us``."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}" if ns < 1000 * size else f"{ns / size:,.0f} {unit}"
    return f"{ns:.0f} ns"


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
                uses = [read_use(record.files, arm.topology, one) for _, record in boots for one in windows]
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


_FEW = chart.MOST_LINES - 1
_HEADROOM = 1.08
_FAR = 2.0
"""A limit is drawn up to this multiple of the held tags; a higher one would flatten the lines."""


def occupancy_charts(found: Sequence[RecordedLoad]) -> Iterator[chart.Chart]:
    for one in found:
        series = {**_hosts(one), **_luns(one)}
        if series:
            yield _occupancy_chart(one, series)


def _hosts(one: RecordedLoad) -> dict[str, Series]:
    found = {name: one.samples.series.get(f"host_busy[{name}]") for name in one.use.hosts}
    return {name: series for name, series in found.items() if series and series.count}


def _luns(one: RecordedLoad) -> dict[str, Series]:
    found = {name: one.samples.series.get(held_series(one.arm.topology, name)) for name in one.use.luns}
    return {f"LUN {name}": series for name, series in found.items() if series and series.count}


def _occupancy_chart(one: RecordedLoad, series: dict[str, Series]) -> chart.Chart:
    luns = {name: each for name, each in series.items() if name.startswith("LUN ")}
    shown = series if len(series) <= _FEW else {name: each for name, each in series.items() if name not in luns}
    seconds = (one.samples.ended - one.samples.began) / 1e9
    most = max((max(_values(each), default=0.0) for each in series.values()), default=0.0)
    bounds = _limits(one)
    near = [limit for limit, _ in bounds if limit <= _FAR * most]
    x = chart.Axis(0.0, seconds, chart.LEFT, chart.RIGHT)
    y = chart.Axis(0.0, max(1.0, _HEADROOM * max([most, *near])), chart.BASE, chart.TOP)
    lines = [
        chart.ChartLine(name, style, chart.path(_points(each, seconds), x, y))
        for style, (name, each) in enumerate(shown.items())
    ]
    if luns and not luns.keys() <= shown.keys():
        lines.append(_many(luns, len(lines), seconds, x, y))
    heading = f"{one.arm.name}.{one.load.name}"
    said = "; ".join(f"{name} {each.mean:.3g} in the mean, {each.max} at most" for name, each in shown.items())
    beyond = [words for limit, words in bounds if limit > _FAR * most]
    return chart.Chart(
        heading=heading,
        title=f"Tags held over the window of {heading}, seed {one.seed}: {said or 'LUNs only'}",
        x_name=f"seconds of the window, seed {one.seed}",
        y_name="tags held",
        x_ticks=x.ticks(),
        y_ticks=y.ticks(4),
        lines=tuple(lines[: chart.MOST_LINES]),
        limits=tuple(chart.Tick(y.at(limit), words) for limit, words in bounds if limit <= _FAR * most),
        note=f"{', '.join(beyond)}: above the chart" if beyond else "",
    )


def _limits(one: RecordedLoad) -> list[tuple[int, str]]:
    """The distinct limits of the hosts, and of SCSI LUNs if each is drawn."""
    topology = one.arm.topology
    hosts = {topology.hbas[topology.luns[lun].hba].name for lun in one.use.luns}
    found = {topology.hbas[name].can_queue: f"can_queue {topology.hbas[name].can_queue}" for name in hosts}
    if len(one.use.luns) + len(hosts) <= _FEW:
        depths = {topology.hbas[name].cmd_per_lun for name in hosts} - found.keys()
        found.update({depth: f"cmd_per_lun {depth}" for depth in depths})
    return sorted(found.items())


def _many(luns: dict[str, Series], style: int, seconds: float, x: chart.Axis, y: chart.Axis) -> chart.ChartLine:
    """The mean over many LUNs as a line, minimum to maximum as an area."""
    columns: dict[int, list[float]] = {}
    for series in luns.values():
        for place, value in enumerate(series.parts):
            if value is not None:
                columns.setdefault(place, []).append(value)
    count = max(len(series.parts) for series in luns.values())
    times = {place: (place + 0.5) / count * seconds for place in columns}
    ordered = sorted(columns)
    middle: list[chart.Point] = [(times[place], sum(columns[place]) / len(columns[place])) for place in ordered]
    lower: list[chart.Point] = [(times[place], min(columns[place])) for place in ordered]
    upper: list[chart.Point] = [(times[place], max(columns[place])) for place in ordered]
    name = f"mean and range of {plural(len(luns), 'LUN')}"
    return chart.ChartLine(name, style, chart.path(middle, x, y), chart.area(lower, upper, x, y))


def _points(series: Series, seconds: float) -> list[chart.Point]:
    count = len(series.parts)
    return [((place + 0.5) / count * seconds, value) for place, value in enumerate(series.parts) if value is not None]


def _values(series: Series) -> Iterator[float]:
    yield from (value for value in series.parts if value is not None)


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
        metrics = ("bw", "lat.mean", "lat.p99", PER_IO)
        bw, mean, p99, cost = (ensemble_of(verdict.cells, row.arm, (*name, metric)) for metric in metrics)
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
