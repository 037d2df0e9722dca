# SPDX-License-Identifier: GPL-2.0-only
"""How much each element of the way to the disks was in use inside a load's window."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from harness.metrics.node import MeasurementError, sent
from harness.metrics.occupancy import DiskTime, HandlerWindow, held_series, read_handler
from harness.metrics.samples import Samples, read_samples
from harness.scenario.model import Load
from lab.topology.model import SCSI, Driver, Topology

_SHORT = "windows shorter than 20 ms are not sampled"


@dataclass(frozen=True)
class Held:
    """How many requests something held: their mean, and the share of the window, 0 to 1, of each number."""

    mean: float
    shares: Mapping[int, float]

    def share_at(self, limit: int) -> float:
        """Share of the window in which ``limit`` or more were held."""
        return sum(share for value, share in self.shares.items() if value >= limit)


@dataclass(frozen=True)
class LoadUse:
    """One load: the CPU's ``idle`` share of the window, and uses by names of the topology.

    ``disks`` and ``links`` are known where the disks are modelled, ``hosts`` where they are SCSI's; LUNs and hosts
    are those of the load. What a LUN holds are tags; null_blk has no other count of them than its requests in flight.
    """

    idle: float
    disks: Mapping[str, DiskTime] = field(default_factory=dict)
    links: Mapping[str, float] = field(default_factory=dict)
    luns: Mapping[str, Held] = field(default_factory=dict)
    hosts: Mapping[str, Held] = field(default_factory=dict)


def read_use(files: Mapping[str, bytes], topology: Topology, load: Load) -> LoadUse:
    """The use that one boot recorded of one load. Raises MeasurementError, also where nothing was sampled."""
    samples_file = f"{load.name}.samples.json"
    samples = read_samples(sent(files, samples_file, _SHORT), samples_file)
    handler = _handler(files, topology, load)
    luns = dict.fromkeys(lun for role in load.roles.values() for disk in role.disks for lun in topology.leaves(disk))
    hbas = {hba: None for lun in luns if topology.hbas[hba := topology.luns[lun].hba].driver in SCSI}
    return LoadUse(
        idle=samples.idle,
        disks=handler.disks if handler else {},
        links=handler.links if handler else {},
        luns={name: _held_by(samples, held_series(topology, name), samples_file) for name in luns},
        hosts={name: _held_by(samples, f"host_busy[{name}]", samples_file) for name in hbas},
    )


def _handler(files: Mapping[str, bytes], topology: Topology, load: Load) -> HandlerWindow | None:
    if all(hba.driver is not Driver.TCMU for hba in topology.hbas.values()):
        return None
    before, after = (sent(files, f"{load.name}.{when}.disks.json", _SHORT) for when in ("before", "after"))
    return read_handler(before, after, load.name)


def _held_by(samples: Samples, name: str, file: str) -> Held:
    series = samples.series.get(name)
    if series is None or not series.count:
        why = f": {series.ended}" if series else ""
        raise MeasurementError(file, f"{name} was not sampled{why}")
    shares = {value: count / series.count for value, count in series.values.items()}
    return Held(series.mean, shares | ({series.max: series.larger / series.count} if series.larger else {}))


def mean_use(uses: Sequence[LoadUse]) -> LoadUse:
    """The mean over boots of the same arm and load, of which there is one at least."""
    first = uses[0]
    return LoadUse(
        idle=fmean(use.idle for use in uses),
        disks={
            name: DiskTime(fmean(use.disks[name].busy for use in uses), fmean(use.disks[name].waited for use in uses))
            for name in first.disks
        },
        links={name: fmean(use.links[name] for use in uses) for name in first.links},
        luns={name: _mean_held([use.luns[name] for use in uses]) for name in first.luns},
        hosts={name: _mean_held([use.hosts[name] for use in uses]) for name in first.hosts},
    )


def _mean_held(all_held: Sequence[Held]) -> Held:
    values = sorted({value for held in all_held for value in held.shares})
    shares = {value: fmean(held.shares.get(value, 0.0) for held in all_held) for value in values}
    return Held(fmean(held.mean for held in all_held), shares)
