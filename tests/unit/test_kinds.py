# SPDX-License-Identifier: GPL-2.0-only
"""Kinds of figures: what a figure is called when its threshold is looked up."""

import pytest

from harness.judge.difference import kind

OTHER = {("l", "other", "iops"): 3.0}
CPUS = {("l", "guest", "lines.seen"): 1.0}
SHORT = {("l", "r", "runtime"): 52e6}
TAGS = {("l", "host", "h.commands.mean"): 1.0}


@pytest.mark.parametrize(
    ("metric", "value", "others", "name"),
    [
        ("iops", 500.0, {}, "rate, one role"),
        ("iops", 99.0, {}, "rate, one role"),
        ("iops", 999.0, OTHER, "rate, several roles, below 1,000 IOPS"),
        ("iops", 1000.0, OTHER, "rate, several roles"),
        ("members.bw", 50.0, OTHER, "rate, several roles, below 1,000 IOPS"),
        ("cpu.per_io", 1e6, {}, "cpu.per_io, CPU partly idle"),
        ("cpu.per_io", 2e6, {}, "cpu.per_io, CPU busy"),
        ("cpu.per_io", 1e6, {("l", "other", "iops"): 500.0}, "cpu.per_io, CPU busy"),
        ("cpu.per_io", 1e6, {("m", "other", "iops"): 500.0}, "cpu.per_io, CPU partly idle"),
        ("lat.mean", 1.0, {}, "mean latency, one role"),
        ("clat.p50", 1.0, {("l", "r", "iops"): 7.0}, "median latency, one role"),
        ("lat.p99.9", 1.0, {}, "percentile of latency, one role"),
        ("slat.max", 1.0, OTHER | {("l", "r", "iops"): 5000.0}, "submission, longest latency, several roles"),
        ("disk.merges", 999.0, {}, "counter below 1,000, one role"),
        ("disk.merges", 1000.0, {}, "counter, one role"),
        ("disk.merges", 1000.0, OTHER, "counter, several roles, below 1,000 IOPS"),
        ("members.reads.ms", 1000.0, {}, "time by a counter of ms"),
        ("paths.busiest", 0.5, {}, ""),
        ("paths.busiest", 0.5, CPUS, ""),
        ("locks", 8.0, {}, "locks, one role"),
        ("locks", 8.0, CPUS, "locks, one role, several CPUs"),
        ("locks", 8.0, {("m", "guest", "lines.seen"): 1.0}, "locks, one role"),
        ("lines.footprint", 0.4, CPUS, "lines.footprint, one role, several CPUs"),
        ("lines.written", 1.0, CPUS, "lines.written, one role, several CPUs"),
        ("line.sd_done.seen", 1.0, CPUS, "line.NAME.seen, one role, several CPUs"),
        ("iops", 500.0, CPUS, "rate, one role, several CPUs"),
        ("iops", 500.0, CPUS | {("l", "r", "runtime"): 97e6}, "rate, one role, several CPUs"),
        ("iops", 500.0, CPUS | SHORT | {("m", "r", "runtime"): 97e6}, "rate, one role, several CPUs, short windows"),
        ("locks", 8.0, CPUS | SHORT | {("m", "host", "h.commands.mean"): 1.0}, "locks, one role, several CPUs"),
        ("lines.footprint", 8.0, CPUS | TAGS, "lines.footprint, one role, shared tags, several CPUs"),
        ("line.sd_done.seen", 1.0, CPUS | TAGS, "line.NAME.seen, one role, several CPUs"),
        ("locks", 8.0, SHORT, "locks, one role"),
        ("verify.bad", 3.0, {}, ""),
        ("load.runtime", 3.0, {}, ""),
    ],
)
def test_kinds(metric: str, value: float, others: dict[tuple[str, str, str], float], name: str) -> None:
    assert kind(("l", "r", metric), {("l", "r", "iops"): 500.0, **others, ("l", "r", metric): value}) == name


def test_counts_of_all_cpus_are_a_kind_of_their_own() -> None:
    """Those of a role are of one CPU, which shares a word of the tags with others or not."""
    for seen, footprint, kinds in (
        (2.9, 0.4, ["lines.seen below 3", "lines.footprint below 0.5"]),
        (3.0, 0.5, ["lines.seen", "lines.footprint below 3"]),
    ):
        figures = {("l", "guest", "lines.seen"): seen, ("l", "guest", "lines.footprint"): footprint}
        assert [kind(key, figures) for key in figures] == [f"{name}, guest, several CPUs" for name in kinds]
