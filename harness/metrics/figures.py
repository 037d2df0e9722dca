# SPDX-License-Identifier: GPL-2.0-only
"""All figures of one cell, by (load, role, metric)."""

from collections.abc import Iterable, Mapping

from harness.metrics.counters import CounterWindow, checked_inventory, controller_figures, read_window
from harness.metrics.fio import bytes_read, read_fio
from harness.metrics.folios import folio_figures
from harness.metrics.node import MeasurementError, sent
from harness.metrics.occupancy import Samples, occupancy_figures, read_handler, read_samples
from harness.metrics.readback import FILE as READBACK
from harness.metrics.readback import devices, read_readback, read_tried, tried_counts
from harness.metrics.sharing import read_names, read_sharing, sharing_figures
from harness.scenario.model import Load
from harness.scenario.registry import KNOWN_IDLE, PER_IO, FigureKey, Figures, Readings
from lab.base.record import LINE_NAMES, TRIED
from lab.topology.fields import REPEAT_COUNT
from lab.topology.model import Topology

_SECOND = 1e9
_SECTOR = 512


def figures_of(files: Mapping[str, bytes], topology: Topology, loads: Iterable[Load]) -> dict[FigureKey, float]:
    """Figures of every role of every load, from the measured files of one boot. Raises MeasurementError.

    ``disk.*`` and ``members.*`` are added up over the block devices of a role's disks, and the LUNs below them, over
    the window with its ramp; two roles on one LUN share them. ``resync.bw`` and ``cpu.per_io`` (ns of CPU time for each
    I/O of the load; under the virtual clock that many instructions) are the same for every role of a load.
    """
    block = devices(read_readback(sent(files, READBACK)))
    figures = tried_counts(files, topology)
    if any(stack.tried.keys() - {REPEAT_COUNT.name} for stack in topology.stacks.values()):
        figures.update(read_tried(sent(files, TRIED)))
    seen = checked_inventory(files, topology) if topology.emulated else {}
    for load in loads:
        if topology.emulated:
            figures.update(controller_figures(files, load, topology, seen))
        record = f"{load.name}.json"
        sizes = {role.name: role.bs for role in load.roles.values()}
        for role, own in read_fio(sent(files, record), sizes, record, load.runtime).items():
            figures.update({(load.name, role, metric): value for metric, value in own.items()})
        window = read_window(sent(files, f"{load.name}.before"), sent(files, f"{load.name}.after"), load.name)
        if window.resync is not None:
            figures.update({(load.name, role, "resync.bw"): window.resync for role in load.roles})
        figures.update(_disk_figures(window, load, topology, block))
        figures.update(_hits(files, load, topology, figures))
        if load.folios:
            figures.update(folio_figures(files, load, block))
        figures.update(handled_figures(files, load, topology))
        if (name := f"{load.name}.samples.json") in files:
            samples = read_samples(files[name], name)
            figures.update(_cost_figures(samples, load, figures))
            figures.update(occupancy_figures(files, topology, load, samples))
            if (counted := f"{load.name}.lines") in files:
                sharing = read_sharing(files[counted], counted)
                names, of_node = read_names(files.get(LINE_NAMES, b""), LINE_NAMES), topology.processors.of_node
                figures.update(dict(sharing_figures(sharing, load, names, of_node=of_node)))
    return figures


def _hits(files: Mapping[str, bytes], load: Load, topology: Topology, figures: Figures) -> Readings:
    """``page_cache.hits`` of each role that tells them, where its LUNs are its own and count what they read."""
    below = {name: {lun for disk in role.disks for lun in topology.leaves(disk)} for name, role in load.roles.items()}
    counts = not any(row.path.endswith("/iostats") and row.value == "0" for row in read_readback(files[READBACK]))
    for role in filter(load.tells_hits, load.roles.values()):
        alone = not any(below[role.name] & luns for name, luns in below.items() if name != role.name)
        # A path group of NVMe counts nothing itself.
        sectors = [figures[load.name, role.name, f"{where}.reads.sectors"] for where in ("disk", "members")]
        asked = bytes_read(files[f"{load.name}.json"], f"{load.name}.json")[role.name]
        if alone and counts and asked:
            yield (load.name, role.name, "page_cache.hits"), max(0.0, 1 - (sectors[0] or sectors[1]) * _SECTOR / asked)


def _cost_figures(samples: Samples, load: Load, figures: Figures) -> dict[FigureKey, float]:
    """Busy time over I/Os, without what the sampler took; nothing where no I/Os are, or where ticks do not tell it."""
    iops = sum(figures[load.name, role, "iops"] for role in load.roles)
    if not iops or (samples.in_ticks and samples.idle > KNOWN_IDLE):
        return {}
    cost = max(0.0, (1 - samples.idle) * samples.cpus - samples.cost) * _SECOND / iops
    return {(load.name, role, PER_IO): cost for role in load.roles}


def handled_figures(files: Mapping[str, bytes], load: Load, topology: Topology) -> Readings:
    """``members.bw``, ``members.iops`` and ``members.seeks`` of each role, where the handler's counters are there.

    Raises MeasurementError.
    """
    before, after = files.get(f"{load.name}.before.disks.json"), files.get(f"{load.name}.after.disks.json")
    if before is None or after is None:
        return
    window = read_handler(before, after, load.name)
    for role in load.roles.values():
        below = {lun for disk in role.disks for lun in topology.leaves(disk)}
        if missing := below - window.paths.keys():
            raise MeasurementError(f"{load.name}.after.disks.json", f"the handler counted nothing for {min(missing)}")
        paths = [window.paths[lun] for lun in below]
        yield (load.name, role.name, "members.bw"), sum(path.bytes for path in paths) / window.time * _SECOND
        yield (load.name, role.name, "members.iops"), sum(path.requests for path in paths) / window.time * _SECOND
        seeks = [window.seeks[disk] for disk in {disk for lun in below for disk in topology.luns[lun].disks}]
        if requests := sum(done for done, _ in seeks):
            yield (load.name, role.name, "members.seeks"), sum(sought for _, sought in seeks) / requests


def _disk_figures(
    window: CounterWindow, load: Load, topology: Topology, block: Mapping[str, str]
) -> dict[FigureKey, float]:
    figures: dict[FigureKey, float] = {}
    for role in load.roles.values():
        own = dict.fromkeys(topology.region(disk).lun for disk in role.disks)
        below = dict.fromkeys(lun for disk in role.disks for lun in topology.leaves(disk))
        for where, luns in (("disk", own), ("members", below)):
            for lun in luns:
                for counter, value in _counters(lun, window, load, block).items():
                    name = load.name, role.name, f"{where}.{counter}"
                    figures[name] = figures.get(name, 0.0) + value
        requests = [_counters(lun, window, load, block)["requests"] for lun in below]
        if sum(requests):
            figures[load.name, role.name, "paths.busiest"] = max(requests) / sum(requests)
    return figures


def _counters(lun: str, window: CounterWindow, load: Load, block: Mapping[str, str]) -> Mapping[str, float]:
    if lun not in block:
        raise MeasurementError(READBACK, f"no block device is named for LUN {lun}")
    if block[lun] not in window.disks:
        raise MeasurementError(f"{load.name}.after", f"/proc/diskstats has no row for {block[lun]} (LUN {lun})")
    return window.disks[block[lun]]
