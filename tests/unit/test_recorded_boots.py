# SPDX-License-Identifier: GPL-2.0-only
"""Boots as QEMU left them, judged and explained: every figure, limit, sentence and raised limit.

The expected values were recorded once. Rates, latencies, counters of disks and LUNs, samples and the times of modelled
disks were then computed from the raw files by a program of its own; bounds agree with Little's law (null_blk), with the
rates of the links (12 and 4 MB/s, or twice 4 with equal turns) and of the slowest member (four times 4.5 MB/s).
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import zstandard

from harness.base.plain import from_plain
from harness.figures.boot import LoadFiles
from harness.figures.samples import read_use
from harness.judge.cells import CellResult, result_of_boot
from harness.judge.verdict import judge, verdict_document
from harness.limits.bottleneck import NOTHING, Bottleneck, bottleneck, changes
from harness.limits.limits import allowed, shares_of_bound
from harness.report.terminal.run import sentences
from harness.scenario.model import Load, Scenario, Status
from lab.base.errors import Misuse
from lab.base.record import BootRecord, Outcome

BOOTS = Path(__file__).parent / "fixtures" / "boots"
NAMES = (
    "null-shared-tags-5.10",
    "null-shared-tags-6.1",
    "lvm-slow-member-6.1",
    "bottleneck-selector-6.1",
    "shared-queue-6.1",
    "raid10-read-6.1",
    "scsi-lines-6.1",
    "fsync-flushes-6.1",
)


@dataclass(frozen=True)
class Recorded:
    """One seed of some arms of a scenario."""

    scenario: Scenario
    release: str
    files: Mapping[str, Mapping[str, bytes]]

    @property
    def cells(self) -> list[CellResult]:
        cells = []
        for arm, files in self.files.items():
            record = BootRecord(Path(arm), Outcome.BYE, "", (), files, arm, {}, {}, {})
            loads = self.scenario.loads.values()
            cells.append(result_of_boot(self.scenario.arms[arm], 1, record, loads, release=self.release))
        return cells


@cache
def recorded(name: str) -> Recorded:
    document = json.loads(zstandard.decompress((BOOTS / f"{name}.zst").read_bytes()))
    files = {arm: {file: text.encode() for file, text in own.items()} for arm, own in document["boots"].items()}
    return Recorded(from_plain(Scenario, document["scenario"]), document["release"], files)


def test_transfers_from_other_nodes_are_figures_of_a_guest_that_has_them() -> None:
    """With a node for each CPU they are all transfers, with two nodes some of them."""
    of = recorded("scsi-lines-6.1")
    (arm,) = of.scenario.arms.values()
    remote, moved = (("one", "guest", f"lines.{name}") for name in ("remote", "footprint"))
    counts = dict[int, float]()
    for nodes in (1, 2, 4):
        topology = replace(arm.topology, processors=replace(arm.topology.processors, nodes=nodes))
        scenario = replace(of.scenario, arms={arm.name: replace(arm, topology=topology)})
        (cell,) = replace(of, scenario=scenario).cells
        counts[nodes] = cell.figures.get(remote, 0.0)
        assert (remote in cell.figures) is (nodes > 1)
    assert 0 < counts[2] < counts[4] == cell.figures[moved]


def explained(of: Recorded, served: float = 1.0) -> Iterator[Bottleneck]:
    """``served`` is the part of the recorded throughput that roles have."""
    for cell in of.cells:
        arm = of.scenario.arms[cell.arm]
        for load in of.scenario.loads.values():
            moved = {role: served * cell.figures[load.name, role, "bw"] for role in load.roles}
            yield bottleneck(arm, load, [read_use(LoadFiles(of.files[cell.arm], arm.topology, load))], moved)


@pytest.mark.parametrize("served", [1.0, 0.8, 0.4, 0.1])
@pytest.mark.parametrize("name", NAMES)
def test_no_sentence_has_more_requests_at_the_devices_than_littles_law(name: str, served: float) -> None:
    """As recorded, those are the rate times fio's latency, within a tenth; with the same queues and a part of the
    throughput the rest waits elsewhere.
    """
    of, said = recorded(name), 0
    for named in explained(of, served):
        figures = next(cell.figures for cell in of.cells if cell.arm == named.arm)
        for text in sentences([named]):
            if match := re.search(r"iodepth limits .*: ([0-9.]+) of ([0-9]+) requests at the devices", text):
                roles = of.scenario.loads[named.load].roles
                rates = {role: served * figures[named.load, role, "iops"] for role in roles}
                in_flight = sum(rate * figures[named.load, role, "lat.mean"] / 1e9 for role, rate in rates.items())
                assert abs(in_flight - float(match[1])) <= 0.1 * int(match[2]), text
                said += 1
    assert said == (name.startswith("null-shared-tags") and served == 1.0)


def test_flushes_are_skipped_where_the_kernel_does_not_count_them() -> None:
    """A flush for each write of 8 sectors, and of both devices below a stripe. Before 5.5 a row has 2 fields less."""
    of = recorded("fsync-flushes-6.1")
    counted = judge(of.scenario, of.cells, release=of.release)
    values = [claim.judgement.ensemble.median for claim in counted.claims if claim.judgement.ensemble]
    assert values == [pytest.approx(1 / 8, rel=2e-3), pytest.approx(2 / 32, rel=2e-3)]
    old = {
        arm: {name: re.sub(rb"(?m)^( +\d+ +\d+ (?:sd|dm).*) \d+ \d+$", rb"\1", data) for name, data in files.items()}
        for arm, files in of.files.items()
    }
    verdict = judge(of.scenario, replace(of, files=old).cells, release=of.release)
    assert [claim.judgement.status for claim in verdict.claims] == [Status.SKIP, Status.SKIP]
    assert "has no flushes, which Linux 5.5 and later have" in verdict.claims[0].judgement.reason


def element_rows(named: Bottleneck) -> dict[str, Any]:
    return {
        "label": named.label,
        "reached": named.reached,
        "figure": named.figure,
        "besides": [element.label for element in named.besides],
        "elements": [[e.label, e.share, e.binds, e.counted, e.figure] for e in named.elements],
        "roles": [element_rows(role) for role in named.roles],
    }


def limit_rows(of: Recorded, arm: str, load: Load) -> dict[str, Any]:
    topology, queue = of.scenario.arms[arm].topology, of.scenario.arms[arm].queue
    try:
        found = allowed(topology, load, queue)
        full = shares_of_bound(of.scenario.arms[arm], load, found.rates)
    except Misuse as error:
        return {"refused": error.message}
    assert found.limits[0].use == pytest.approx(max(limit.use for limit in found.limits))
    limits = sorted([f"{limit.element.kind} {limit.element.name}", limit.rate, limit.use] for limit in found.limits)
    return {"rates": dict(found.rates), "limits": limits, "full": full[0], "shares": dict(full[1])}


def raised(of: Recorded, every: list[Bottleneck]) -> dict[str, list[list[Any]]]:
    """The raised limits of all loads of an arm: name, what is said, factor, refusal, and what the arm has otherwise."""
    rows: dict[str, list[list[Any]]] = {arm: [] for arm in of.files}
    for named in (each for each in every if each.label != NOTHING):
        arm, load = of.scenario.arms[named.arm], of.scenario.loads[named.load]
        alterations = changes(arm, load, named)
        assert [row.label for row in alterations if row.named] == [alterations[0].label]
        for row in alterations:
            roles = [f"iodepth {role.iodepth} {role.options}" for role in row.load.roles.values() if row.load != load]
            differing = [*_differing(asdict(arm.topology), asdict(row.arm.topology)), *roles]
            text = [row.label, row.says, row.times, row.refused, differing]
            rows[named.arm] += [] if text in rows[named.arm] else [text]
    return rows


def _differing(was: Any, now: Any, path: str = "") -> Iterator[str]:
    if isinstance(now, dict):
        for key, value in now.items():
            yield from _differing(was[key], value, f"{path}.{key}")
    elif was != now:
        yield f"{path[1:]} {was} -> {now}"


def document(name: str) -> dict[str, Any]:
    of = recorded(name)
    named = list(explained(of))
    loads = of.scenario.loads.values()
    verdict = verdict_document(judge(of.scenario, of.cells, seeds=[1], arms=of.files, release=of.release))
    for cell in verdict["cells"]:
        # Most counters of discards, merges and writes are 0.
        cell["figures"] = {key: value for key, value in cell["figures"].items() if value}
    return {
        "verdict": verdict,
        "explained": {f"{each.arm}.{each.load}": element_rows(each) for each in named},
        "allowed": {f"{arm}.{load.name}": limit_rows(of, arm, load) for arm in of.files for load in loads},
        "raised": raised(of, named),
    }


def flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict | list | tuple):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in items:
            yield from flat(inner, f"{path}/{key}")
    else:
        yield path, value


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_boot_is_judged_explained_and_bounded_as_it_was(name: str) -> None:
    expected = dict(flat(json.loads((BOOTS / f"{name}.json").read_text())))
    close = {
        path: pytest.approx(value, rel=1e-7) if isinstance(value, float) else value for path, value in expected.items()
    }
    assert dict(flat(document(name))) == close
