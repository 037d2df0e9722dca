# SPDX-License-Identifier: GPL-2.0-only
"""Repeat counts of path selectors: asked for, read back, and what becomes of an arm whose count the kernel changed."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.judge.cells import measured
from harness.metrics.node import MeasurementError
from harness.metrics.readback import overridden, repeat_counts, tried_counts
from harness.scenario.model import Arm, Status
from lab.guest.steps.setting import Try
from lab.realise.stacks import steps
from lab.topology.model import Stack, StackKind
from lab.topology.settings import apply_try
from tests.unit.analysis_samples import SOLO, TOGETHER, null_topology
from tests.unit.store_samples import files, record

RR = "0 2097152 multipath 0 0 1 1 round-robin 0 2 1 8:0 1 65:128 1 \n"
WARNING = "[    4.306514] device-mapper: multipath round-robin: repeat_count > 1 is deprecated, using 1 instead\n"
MP = Stack("mp", StackKind.MULTIPATH, ("fast", "slow"), repeat_count=100)
TOPOLOGY = replace(null_topology(), stacks={"mp": MP})


@pytest.mark.parametrize(
    ("table", "counts"),
    [
        (RR, {1}),
        ("0 8 multipath 2 queue_mode bio 1 alua 2 1 round-robin 0 1 1 8:0 50 round-robin 0 1 1 8:16 100", {50, 100}),
        ("0 8 multipath 0 0 1 1 service-time 0 2 2 8:0 7 1 8:16 7 1", {7}),
        ("0 8 multipath 0 0 1 1 historical-service-time 2 x y 2 0 8:0 8:16", set()),
    ],
)
def test_counts_are_read_from_the_table(table: str, counts: set[int]) -> None:
    assert repeat_counts(table, "mp.table") == counts


@pytest.mark.parametrize("table", ["", "0 8 linear 8:0 0", "0 8 multipath 0 0 1 1 round-robin 0 2 1 8:0 1"])
def test_other_tables_are_refused(table: str) -> None:
    with pytest.raises(MeasurementError, match="not a table of a multipath device") as caught:
        repeat_counts(table, "mp.table")
    assert caught.value.file == "mp.table"


def test_an_arm_whose_count_the_kernel_changed_is_skipped_in_its_words(tmp_path: Path) -> None:
    sent = {**files(), "mp.table": RR.encode(), "kmsg": WARNING.encode()}
    arm = Arm("rr-100", TOPOLOGY, {}, {})
    cell = measured(arm, 1, record(tmp_path, sent), (SOLO, TOGETHER), release="6.1")
    assert cell.status is Status.SKIP
    assert not cell.figures
    (reason,) = cell.reasons
    assert "round-robin of mp runs with repeat_count 1, not 100" in reason
    assert '"device-mapper: multipath round-robin: repeat_count > 1 is deprecated, using 1 instead"' in reason
    assert RR.strip() in reason


def test_an_arm_whose_count_is_effective_is_measured(tmp_path: Path) -> None:
    sent = {**files(), "mp.table": RR.replace(" 1 65", " 100 65").replace("128 1", "128 100").encode()}
    cell = measured(Arm("rr-100", TOPOLOGY, {}, {}), 1, record(tmp_path, sent), (SOLO, TOGETHER), release="6.1")
    assert cell.status is Status.PASS
    plain = replace(TOPOLOGY, stacks={"mp": replace(MP, repeat_count=1)})
    assert not list(overridden(files(), plain))


def test_a_count_under_try_is_measured_with_what_the_kernel_made_of_it(tmp_path: Path) -> None:
    rig = apply_try(TOPOLOGY, "stack.mp.repeat_count", 50)
    assert rig.stacks["mp"].repeat_count == 50
    for table, accepted, effective in (
        (RR, 0, 1),
        (RR.replace(" 1 65", " 50 65").replace("128 1", "128 50"), 1, 50),
        (RR.replace(" 1 65", " 50 65"), 0, 1),
    ):
        sent = {**files(), "mp.table": table.encode(), "kmsg": WARNING.encode()}
        cell = measured(Arm("rr", rig, {}, {}), 1, record(tmp_path, sent), (SOLO, TOGETHER), release="6.1")
        told = {key[1]: value for key, value in cell.figures.items() if key[0] == "tried"}
        assert (cell.status, told) == (Status.PASS, {"accepted": accepted, "effective": effective})
    with pytest.raises(MeasurementError, match="round-robin has no repeat count"):
        tried_counts({"mp.table": b"0 8 multipath 0 0 1 1 historical-service-time 0 1 0 8:0"}, rig)
    assert not any("repeat_count" in str(step) for step in steps(rig) if isinstance(step, Try))


def test_a_table_that_is_missing_is_an_error() -> None:
    with pytest.raises(MeasurementError, match="did not send it"):
        list(overridden(files(), TOPOLOGY))
