# SPDX-License-Identifier: GPL-2.0-only
"""Figures of the queues in a load's window."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from harness.commands.common.options import SCENARIOS
from harness.metrics.figures import figures_of
from harness.scenario.load import load_scenario
from harness.scenario.ratio import ExpressionError, Names, parse_ratio, sampled_names
from lab.base.errors import InputErrors
from lab.topology.model import Driver, Topology
from tests.unit.analysis_samples import TOGETHER, null_topology, role
from tests.unit.store_samples import files

HISTOGRAMS: Mapping[str, Mapping[int, int]] = {"fast": {0: 196, 5: 4}, "slow": {32: 200}}


def series(histogram: Mapping[int, int]) -> dict[str, object]:
    total = sum(value * count for value, count in histogram.items())
    table = {str(value): count for value, count in histogram.items()}
    count = sum(histogram.values())
    return {"count": count, "sum": total, "max": max(histogram), "larger": 0, "histogram": table, "parts": []}


def figures(topology: Topology, load: object = TOGETHER, **more: Mapping[int, int]) -> dict[tuple[str, str], float]:
    """Figures of load together that were sampled, by role and metric."""
    name = "together.samples.json"
    document = json.loads(files()[name])
    held = "device_busy" if topology.hbas["nullb"].driver is Driver.TCM_LOOP else "inflight"
    document["cpu"] = {"ticks": 200, "idle": 150}
    document["series"] = {f"{held}[{lun}]": series(histogram) for lun, histogram in HISTOGRAMS.items()}
    document["series"] |= {f"host_busy[{host}]": series(histogram) for host, histogram in more.items()}
    seen = figures_of({**files(), name: json.dumps(document).encode()}, topology, (load,))  # type: ignore[arg-type]
    return {key[1:]: value for key, value in seen.items() if key[1] in ("lun", "host", "guest")}


def test_tags_are_held_free_or_waited_for() -> None:
    found = figures(null_topology())
    assert found["lun", "fast.tags.mean"] == 0.1
    assert found["lun", "fast.tags.max"] == 5
    assert found["lun", "fast.tags.none"] == 0.98
    assert found["lun", "fast.waiting.mean"] == 63.9
    assert (found["lun", "slow.tags.mean"], found["lun", "slow.tags.none"]) == (32, 0)
    assert found["host", "nullb.tags.mean"] == pytest.approx(32.1)
    assert found["host", "nullb.tags.free"] == pytest.approx(31.9)
    assert found["guest", "cpu.idle"] == 0.75


def test_a_scsi_host_counts_commands_and_not_the_tags_of_requests_that_wait() -> None:
    topology = null_topology()
    host = replace(topology.hbas["nullb"], driver=Driver.TCM_LOOP, cmd_per_lun=16)
    topology = replace(topology, hbas={"nullb": host})
    found = figures(topology, nullb={40: 100, 44: 100})
    assert found["host", "nullb.commands.mean"] == 42
    assert (found["lun", "fast.commands.mean"], found["lun", "fast.commands.none"]) == (0.1, 0.98)
    assert not [metric for _, metric in found if ".tags." in metric]


def test_free_tags_are_those_that_can_queue_leaves_in_a_single_set() -> None:
    topology = null_topology()
    topology = replace(topology, hbas={"nullb": replace(topology.hbas["nullb"], cmd_per_lun=16)})
    assert figures(topology)["host", "nullb.tags.free"] == pytest.approx(31.9)
    topology = null_topology()
    topology = replace(topology, hbas={"nullb": replace(topology.hbas["nullb"], hw_queues=2)})
    assert ("host", "nullb.tags.free") not in figures(topology)


@pytest.mark.parametrize(
    "change",
    [{"options": {"rate_iops": "1"}}, {"options": {"thinktime": "5"}}, {"direct": False}, {"ioengine": "psync"}],
)
def test_a_role_that_paces_itself_does_not_wait_for_tags(change: dict[str, object]) -> None:
    paced = replace(role("fast", "fast"), **change)  # type: ignore[arg-type]
    found = figures(null_topology(), replace(TOGETHER, roles={**TOGETHER.roles, "fast": paced}))
    assert ("lun", "fast.waiting.mean") not in found
    assert found["lun", "slow.waiting.mean"] == 32


NAMES = Names(("none",), {"together": ("fast",)}, sampled={"none": sampled_names(null_topology())})


@pytest.mark.parametrize(
    "text",
    ["none.together.lun.fast.tags.mean", "none.together.host.nullb.tags.free / 64", "none.together.guest.cpu.idle"],
)
def test_sampled_figures_can_be_operands(text: str) -> None:
    assert parse_ratio(text, NAMES).left.path[:2] == ("none", "together")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("none.together.lun.fats.tags.mean", r"no lun of arm none: fats.*fast"),
        ("none.together.lun.fast.tags.free", r"no sampled figure of a lun: tags.free"),
        ("none.together.host.h0.tags.free", r"no host of arm none: h0"),
        ("none.together.guest.idle", r"no figure of the guest: idle"),
        ("none.together.fast.iops / bound.none.together.lun.fast.tags.mean", r"no role of load together: lun"),
    ],
)
def test_what_no_sample_names_is_refused(text: str, says: str) -> None:
    with pytest.raises(ExpressionError, match=says):
        parse_ratio(text, NAMES)


def test_a_diagnosis_of_each_arm_is_one_for_every_arm_that_has_what_it_names(tmp_path: Path) -> None:
    text = (SCENARIOS / "null-shared-tags.yaml").read_text()
    of = load_scenario("null-shared-tags", search=SCENARIOS)
    named = [sorted({one.ratio.left.path[0] for one in diagnosis.when}) for diagnosis in of.diagnoses]
    assert named[: len(of.arms)] == [[arm] for arm in of.arms]
    path = tmp_path / "null-shared-tags.yaml"
    path.write_text(text.replace("*.together.lun.slow.tags.mean / 32", "*.together.lun.slwo.tags.mean / 32"))
    with pytest.raises(InputErrors, match="no lun of arm mq-deadline: slwo"):
        load_scenario(str(path), search=SCENARIOS)
