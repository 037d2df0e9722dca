# SPDX-License-Identifier: GPL-2.0-only
"""Which limits a proof raises, to what, and what it makes of the throughput."""

from harness.limits.counterfactual import Alteration, Proof, ProofRow, changes
from harness.report.terminal.bottleneck import proof_sentence
from lab.guest.steps.device import TableStep
from lab.realise import stacks
from lab.topology.model import Topology
from tests.unit.bottleneck_samples import named, scenario


def raised(name: str, key: str) -> dict[str, Alteration]:
    of = scenario(name)
    arm, _, load = key.partition(".")
    return {change.label: change for change in changes(of.arms[arm], of.loads[load], named(name, key))}


def topology(change: Alteration) -> Topology:
    return change.arm.topology


def test_every_limit_that_the_load_meets_is_raised_and_the_named_one_first() -> None:
    found = raised("devices", "disk.stream")
    assert list(found) == ["disk.d0..1", "link.wire", "cpu", "hba.can_queue", "hba.cmd_per_lun", "role.reader.iodepth"]
    assert [change.named for change in found.values()] == [True, *[False] * 5]
    assert {disk.rate for disk in topology(found["disk.d0..1"]).disks.values()} == {10_000_000}
    assert topology(found["link.wire"]).links["wire"].rate == 30_000_000
    assert topology(found["hba.cmd_per_lun"]).hbas["host"].cmd_per_lun == 5
    assert found["role.reader.iodepth"].load.roles["reader"].iodepth == 10


def test_a_faster_processor_is_slower_devices_in_their_own_seconds() -> None:
    cpu = raised("devices", "disk.stream")["cpu"]
    assert cpu.times == 1.25
    assert topology(cpu).links["wire"].rate == 19_200_000
    assert topology(cpu).disks["d1"].rate == 6_400_000
    assert topology(raised("cpu", "plain.random")["cpu"]).disks["d0"].service == 125_000


def test_what_cannot_be_raised_is_refused_with_its_reason() -> None:
    refused = {change.label: change.refused for change in raised("devices", "disk.stream").values() if change.refused}
    assert refused == {"hba.can_queue": "hba host: can_queue 1280 exceeds 1024, the limit of tcmu"}


def test_where_a_depth_binds_a_shorter_latency_does_not_count() -> None:
    found = raised("queues", "lun.random")
    assert found["disk.d0..1"].aside
    assert topology(found["disk.d0..1"]).disks["d0"].service == 16_000_000
    assert not raised("cpu", "plain.random")["disk.d0..1"].aside


def test_a_hosts_queue_takes_the_depth_of_its_luns_with_it_where_they_are_equal() -> None:
    hba = topology(raised("queues", "host.random")["hba.can_queue"]).hbas["host"]
    assert (hba.can_queue, hba.cmd_per_lun) == (20, 20)


def test_the_adaptive_selector_weighs_paths_by_their_links() -> None:
    found = raised("selector", "round-robin.stream")
    better = topology(found["stack.m0.selector"])
    assert {stack.selector for stack in better.stacks.values()} == {"service-time"}
    tables = [step for step in stacks.steps(better) if isinstance(step, TableStep)]
    assert tables[0].rows[0].endswith("service-time 0 2 2 /lab/f0 1 100 /lab/s0 1 33")
    assert found["link.slow"].aside
    assert not found["link.fast"].aside


def proof(*gains: float | None) -> Proof:
    every = raised("devices", "disk.stream").values()
    return Proof(
        named("devices", "disk.stream"), 1e7, tuple(ProofRow(*pair, "why") for pair in zip(every, gains, strict=False))
    )


def test_only_the_named_limit_may_gain() -> None:
    assert proof(0.24, 0.0, -0.1).proven
    assert proof_sentence(proof(0.24, 0.0)) == "Proven: disk.d0..1 limits disk.stream; raised, it gives +24.0 %."
    assert not proof(0.019, 0.0).proven
    assert not proof(0.24, 0.02).proven
    assert proof_sentence(proof(0.24, 0.02)).endswith("alone; see link.wire.")


def test_what_was_not_measured_neither_proves_nor_refutes() -> None:
    assert proof(0.24, None).proven
    assert not proof(None, 0.0).proven
    assert proof_sentence(proof(None, 0.0)) == "disk.d0..1 of disk.stream cannot be proven: why"
