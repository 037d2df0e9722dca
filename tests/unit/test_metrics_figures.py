# SPDX-License-Identifier: GPL-2.0-only
"""The figures of a cell from the files that its boot left."""

import pytest

from harness.metrics.figures import PER_IO, figures_of
from harness.metrics.node import MeasurementError
from harness.metrics.samples import read_samples
from harness.scenario.metric_names import COUNTED_ON, COUNTERS, IDLE, METRICS
from tests.unit.analysis_samples import SOLO, TOGETHER, load, null_topology, role
from tests.unit.store_samples import files, sampled

LOADS = (SOLO, TOGETHER)


def test_every_role_of_every_load_has_its_figures() -> None:
    figures = figures_of(files(solo=100.0, together=95.0), null_topology(), LOADS)
    assert figures["solo", "fast", "iops"] == 100.0
    assert figures["together", "fast", "iops"] == 95.0
    assert figures["together", "slow", "iops"] == 80.0
    assert figures["together", "slow", "lat.p99"] > 0
    assert figures["together", "slow", "disk.reads"] == 1000
    assert figures["together", "slow", "members.reads"] == 1000
    assert ("solo", "slow", "iops") not in figures


def test_what_an_io_costs_the_processor() -> None:
    """Busy time over I/Os of all roles, without what the sampler took."""
    seen = read_samples(sampled("together", "fast", "slow")["together.samples.json"], "together.samples.json")
    figures = figures_of(files(together=95.0) | sampled("together", "fast", "slow"), null_topology(), LOADS)
    assert figures["together", "fast", PER_IO] == pytest.approx((1 - seen.idle - seen.cost) * 1e9 / (95 + 80))
    assert figures["together", "slow", PER_IO] == figures["together", "fast", PER_IO]
    assert 0 < seen.cost < 0.01 < 1 - seen.idle
    unsampled = {name: data for name, data in files().items() if not name.endswith("samples.json")}
    assert not {PER_IO, IDLE} & {metric for _, _, metric in figures_of(unsampled, null_topology(), LOADS)}
    assert PER_IO in METRICS


def test_a_role_on_several_disks_has_the_sum_of_their_counters() -> None:
    both = load("together", role("fast", ("fast", "slow")), role("slow", "slow"))
    figures = figures_of(files(), null_topology(), (both,))
    assert figures["together", "fast", "disk.reads"] == 2000
    assert figures["together", "slow", "disk.reads"] == 1000


def test_every_counter_has_a_name_for_ratios_and_every_name_a_counter() -> None:
    figures = figures_of(files(solo=100.0, together=95.0), null_topology(), LOADS)
    measured = {metric for _, _, metric in figures if metric.startswith(tuple(f"{where}." for where in COUNTED_ON))}
    assert measured == {f"{where}.{counter}" for where in COUNTED_ON for counter in COUNTERS}
    assert measured <= set(METRICS)


def test_sums_are_over_reads_and_writes() -> None:
    figures = figures_of(files(solo=100.0, together=95.0), null_topology(), LOADS)
    for whole, parts in {"requests": ("reads", "writes"), "merges": ("reads.merged", "writes.merged")}.items():
        assert figures["solo", "fast", f"disk.{whole}"] == sum(
            figures["solo", "fast", f"disk.{part}"] for part in parts
        )
    bios = figures["solo", "fast", "disk.requests"] + figures["solo", "fast", "disk.merges"]
    assert figures["solo", "fast", "disk.bios"] == bios > 0


@pytest.mark.parametrize("name", [name for name in files() if name != "kmsg" and not name.endswith("samples.json")])
def test_no_file_may_be_missing(name: str) -> None:
    measured = files()
    del measured[name]
    with pytest.raises(MeasurementError, match="the guest did not send it") as caught:
        figures_of(measured, null_topology(), LOADS)
    assert caught.value.file == name


@pytest.mark.parametrize(
    ("name", "was", "now", "says"),
    [
        ("readback", b"/lab/slow", b"/lab/other", "no block device is named for LUN slow"),
        ("readback", b"nullb1", b"sdz", r"no row for sdz \(LUN slow\)"),
        ("together.json", b'"slow"', b'"other"', "no job for role slow"),
        ("together.json", b'"slow"', b'"fast"', "reported twice"),
    ],
)
def test_files_that_do_not_fit_together_are_named(name: str, was: bytes, now: bytes, says: str) -> None:
    measured = files()
    measured[name] = measured[name].replace(was, now)
    with pytest.raises(MeasurementError, match=says):
        figures_of(measured, null_topology(), LOADS)
