# SPDX-License-Identifier: GPL-2.0-only
"""NVMe over TCP and scsi_debug: their steps, what they allow, what is read back, and what no recipe carries."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.scenario.model import Load, Role
from lab.guest.steps import Step
from lab.guest.steps.device import Module, NameBlock, Network, Write
from lab.guest.steps.setting import Confirm, Tune
from lab.realise.recipe import devices, watches
from lab.topology.limits import refusals
from lab.topology.load import CATALOGUE, load_topology
from lab.topology.model import Topology
from lab.topology.parameters import apply_setting
from tests.unit.analysis_samples import bound
from tests.unit.test_topology_load import load, mistakes

TWO_PATHS = """\
topology: t
memory: 512M
links:
  fast: {rate: 24 MB/s}
  slow: {rate: 8 MB/s}
disks:
  d: {size: 1G, service: 1us}
hbas:
  h0..1: {driver: nvmet-tcp, can_queue: 64}
luns:
  a: {hba: h0, disks: [d], links: [fast]}
  b: {hba: h1, disks: [d], links: [slow]}
stacks:
  two: {kind: nvme, over: [a, b], iopolicy: round-robin}
"""


@pytest.fixture
def topology(tmp_path: Path) -> Topology:
    return load(TWO_PATHS, tmp_path)


def steps(topology: Topology) -> tuple[Step, ...]:
    return devices(topology)


def test_each_direction_of_a_link_is_a_bucket_and_without_links_nothing_waits(topology: Topology) -> None:
    (network,) = (step for step in steps(topology) if isinstance(step, Network))
    limits = "burst 131072 limit 16777216"
    match = "filter add dev lo parent 1: protocol ip prio 1 u32 match ip"
    assert network.commands == (
        "qdisc add dev lo root handle 1: prio bands 5 priomap" + " 0" * 16,
        f"qdisc add dev lo parent 1:2 handle 2: tbf rate 192000000bit {limits}",
        f"{match} src 127.0.0.2/32 flowid 1:2",
        f"qdisc add dev lo parent 1:3 handle 3: tbf rate 192000000bit {limits}",
        f"{match} dst 127.0.0.2/32 flowid 1:3",
        f"qdisc add dev lo parent 1:4 handle 4: tbf rate 64000000bit {limits}",
        f"{match} src 127.0.0.3/32 flowid 1:4",
        f"qdisc add dev lo parent 1:5 handle 5: tbf rate 64000000bit {limits}",
        f"{match} dst 127.0.0.3/32 flowid 1:5",
    )
    luns = {name: replace(lun, links=()) for name, lun in topology.luns.items()}
    (network,) = (step for step in steps(replace(topology, luns=luns)) if isinstance(step, Network))
    assert network.commands == ()


def test_a_controller_for_each_path_and_one_policy(topology: Topology) -> None:
    connects = [step.value for step in steps(topology) if isinstance(step, Write) and step.path == "/dev/nvme-fabrics"]
    assert [value.split(",")[1] for value in connects] == ["traddr=127.0.0.2", "traddr=127.0.0.3"]
    assert all(value.endswith(",nr_io_queues=1,queue_size=64") for value in connects)
    (policy,) = (step for step in steps(topology) if isinstance(step, Tune))
    assert (policy.path, policy.value) == ("/sys/class/nvme-subsystem/nvme-subsys0/iopolicy", "round-robin")
    assert list(watches(topology)) == ["inflight[a]", "inflight[b]", "inflight[two]"]


@pytest.mark.parametrize(("policy", "rate"), [("round-robin", 16e6), ("queue-depth", 32e6), ("numa", 24e6)])
def test_what_each_policy_allows(topology: Topology, policy: str, rate: float) -> None:
    role = Role("r", ("two",), "randread", 65536, 32, "libaio", direct=True)
    load = Load("l", {"r": role}, runtime=10**9, ramp=0)
    assert bound(apply_setting(topology, "stack.two.iopolicy", policy), load, role, "bw") == pytest.approx(rate)


def test_only_the_head_of_a_namespace_is_a_place_for_a_role(topology: Topology) -> None:
    assert topology.targets() == ("two",)


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ("can_queue: 64", "can_queue: 8", "hba h0: can_queue 8 is less than 16"),
        ("can_queue: 64", "can_queue: 256", "hba h0: can_queue 256 exceeds 128"),
        (
            "can_queue: 64",
            "can_queue: 64, cmd_per_lun: 32",
            "may hold all 64 tags of its controller, so write cmd_per_lun 64",
        ),
        ("rate: 8 MB/s", "rate: 8 MB/s, cost: 1us", "lun b: the path to a namespace may have one link"),
        ("links: [slow]", "links: [slow, fast]", "lun b: the path to a namespace may have one link"),
        ("over: [a, b]", "over: [a]", "lun b: a LUN of driver nvmet-tcp must be in exactly one stack of kind nvme"),
        (
            "kind: nvme, over: [a, b], iopolicy: round-robin",
            "kind: multipath, over: [a, b]",
            "exactly one stack of kind nvme",
        ),
        ("nvmet-tcp, can_queue: 64", "tcmu, can_queue: 64", "stack two: a stack of kind nvme needs driver nvmet-tcp"),
        ("over: [a, b], ", "over: [a, b], selector: round-robin, ", "kind nvme has no selector"),
        ("stacks:\n  two: {kind: nvme, over: [a, b], iopolicy: round-robin}\n", "", "needs stacks of kind nvme"),
    ],
)
def test_what_no_recipe_carries(old: str, new: str, wanted: str, tmp_path: Path) -> None:
    assert old in TWO_PATHS
    assert wanted in mistakes(TWO_PATHS.replace(old, new), tmp_path)


def debug_topology(service: int) -> Topology:
    found = load_topology("calibration-scsi-debug", near=CATALOGUE)
    return replace(found, disks={name: replace(disk, service=service) for name, disk in found.disks.items()})


def test_every_parameter_that_matters_is_read_back() -> None:
    steps = devices(debug_topology(20_000_000))
    (module,) = [step for step in steps if isinstance(step, Module) and step.name == "scsi_debug"]
    assert {"num_tgts=2", "ndelay=20000000", "max_queue=16", "host_max_queue=16"} <= set(module.parameters.split())
    confirmed = {step.knob: step.value for step in steps if isinstance(step, Confirm)}
    assert confirmed == {"disk.service": "20000000", "hba.can_queue[left]": "16", "hba.can_queue[right]": "16"}
    assert [step.value for step in steps if isinstance(step, Tune)] == ["16", "16"]
    assert [step.path.rsplit("/", 3)[1] for step in steps if isinstance(step, NameBlock)] == ["*:0:0:0", "*:0:1:0"]


@pytest.mark.parametrize(("service", "refused"), [(999_999_999, 0), (1_000_000_000, 2), (5_000_000_000, 2)])
def test_a_service_that_it_would_ignore_is_refused(service: int, refused: int) -> None:
    reasons = [str(refusal) for refusal in refusals(debug_topology(service))]
    assert len(reasons) == refused
    assert all("scsi_debug needs a service below 1 s" in reason for reason in reasons)
