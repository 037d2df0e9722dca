# SPDX-License-Identifier: GPL-2.0-only
"""Tags held over the window, from the sampler: of each host, and of each LUN if there are few."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.metrics.node import MeasurementError
from harness.metrics.samples import Samples, Series, read_samples
from harness.metrics.use import LoadUse, mean_use, read_use
from harness.record.store import RunFolder
from harness.report.drawing.chart import MOST_LINES, Axis, Chart, ChartLine, Point, Tick, across, area, path, upwards
from harness.report.format import plural
from harness.scenario.model import Arm, Load
from lab.base.record import BootRecord, Outcome
from lab.topology.model import SCSI


@dataclass(frozen=True)
class Recorded:
    """``use`` is the mean over all windows of the boots; ``samples`` are those of the first window of ``seed``."""

    arm: Arm
    load: Load
    use: LoadUse
    samples: Samples
    seed: int


def recorded(run: RunFolder) -> tuple[Recorded, ...]:
    """Each load of each arm whose use was recorded in all boots that ended well."""
    return tuple(_recorded(run))


def _recorded(run: RunFolder) -> Iterator[Recorded]:
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
            yield Recorded(arm, load, mean_use(uses), samples, seed)


def _boots(run: RunFolder, arm: Arm) -> Iterator[tuple[int, BootRecord]]:
    for cell in run.facts.cells:
        record = run.boot(cell) if cell.arm == arm.name and not cell.skip and not cell.repeat else None
        if record is not None and record.outcome is Outcome.BYE:
            yield cell.seed, record


_FEW = MOST_LINES - 1
_HEADROOM = 1.08
_FAR = 2.0
"""A limit is drawn up to this multiple of the held tags; a higher one would flatten the lines."""


def occupancy_charts(found: Sequence[Recorded]) -> Iterator[Chart]:
    for one in found:
        series = {**_hosts(one), **_luns(one)}
        if series:
            yield _chart(one, series)


def _hosts(one: Recorded) -> dict[str, Series]:
    return {
        name: series
        for name in one.use.hosts
        if (series := one.samples.series.get(f"host_busy[{name}]")) is not None and series.count
    }


def _luns(one: Recorded) -> dict[str, Series]:
    topology = one.arm.topology
    named = {
        name: f"{'device_busy' if topology.hbas[topology.luns[name].hba].driver in SCSI else 'inflight'}[{name}]"
        for name in one.use.luns
    }
    found = {name: one.samples.series[key] for name, key in named.items() if key in one.samples.series}
    return {f"LUN {name}": series for name, series in found.items() if series.count}


def _chart(one: Recorded, series: dict[str, Series]) -> Chart:
    luns = {name: each for name, each in series.items() if name.startswith("LUN ")}
    shown = series if len(series) <= _FEW else {name: each for name, each in series.items() if name not in luns}
    seconds = (one.samples.ended - one.samples.began) / 1e9
    most = max((max(_values(each), default=0.0) for each in series.values()), default=0.0)
    limits = _limits(one)
    near = [limit for limit, _ in limits if limit <= _FAR * most]
    x, y = across(0.0, seconds), upwards(0.0, max(1.0, _HEADROOM * max([most, *near])))
    lines = [
        ChartLine(name, style, path(_points(each, seconds), x, y)) for style, (name, each) in enumerate(shown.items())
    ]
    if luns and not luns.keys() <= shown.keys():
        lines.append(_many(luns, len(lines), seconds, x, y))
    heading = f"{one.arm.name}.{one.load.name}"
    said = "; ".join(f"{name} {each.mean:.3g} in the mean, {each.max} at most" for name, each in shown.items())
    beyond = [words for limit, words in limits if limit > _FAR * most]
    return Chart(
        heading=heading,
        title=f"Tags held over the window of {heading}, seed {one.seed}: {said or 'LUNs only'}",
        x_name=f"seconds of the window, seed {one.seed}",
        y_name="tags held",
        x_ticks=x.ticks(),
        y_ticks=y.ticks(4),
        lines=tuple(lines[:MOST_LINES]),
        limits=tuple(Tick(y.at(limit), words) for limit, words in limits if limit <= _FAR * most),
        note=f"{', '.join(beyond)}: above the chart" if beyond else "",
    )


def _limits(one: Recorded) -> list[tuple[int, str]]:
    """The distinct limits of the hosts, and of SCSI LUNs if each is drawn."""
    topology = one.arm.topology
    hosts = {topology.hbas[topology.luns[lun].hba].name for lun in one.use.luns}
    found = {topology.hbas[name].can_queue: f"can_queue {topology.hbas[name].can_queue}" for name in hosts}
    if len(one.use.luns) + len(hosts) <= _FEW:
        depths = {topology.hbas[name].cmd_per_lun for name in hosts} - found.keys()
        found.update({depth: f"cmd_per_lun {depth}" for depth in depths})
    return sorted(found.items())


def _many(luns: dict[str, Series], style: int, seconds: float, x: Axis, y: Axis) -> ChartLine:
    """The mean over many LUNs as a line, minimum to maximum as an area."""
    columns: dict[int, list[float]] = {}
    for series in luns.values():
        for place, value in enumerate(series.parts):
            if value is not None:
                columns.setdefault(place, []).append(value)
    count = max(len(series.parts) for series in luns.values())
    times = {place: (place + 0.5) / count * seconds for place in columns}
    ordered = sorted(columns)
    middle: list[Point] = [(times[place], sum(columns[place]) / len(columns[place])) for place in ordered]
    lower: list[Point] = [(times[place], min(columns[place])) for place in ordered]
    upper: list[Point] = [(times[place], max(columns[place])) for place in ordered]
    name = f"mean and range of {plural(len(luns), 'LUN')}"
    return ChartLine(name, style, path(middle, x, y), area(lower, upper, x, y))


def _points(series: Series, seconds: float) -> list[Point]:
    count = len(series.parts)
    return [((place + 0.5) / count * seconds, value) for place, value in enumerate(series.parts) if value is not None]


def _values(series: Series) -> Iterator[float]:
    yield from (value for value in series.parts if value is not None)
