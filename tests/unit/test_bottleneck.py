# SPDX-License-Identifier: GPL-2.0-only
"""Which element is named and which limits a proof raises: the selftests with uses as their boots recorded them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from harness.base.checkout import SCENARIOS
from harness.commands.explain import proof_sentence
from harness.figures.boot import LoadFiles, MeasurementError
from harness.figures.samples import DiskTime, Held, LoadUse, mean_use, read_use
from harness.limits import bottleneck as precedence_module
from harness.limits.bottleneck import (
    NOTHING,
    UNCOUNTED,
    Alteration,
    Bottleneck,
    Proof,
    bottleneck,
    changes,
)
from harness.limits.queues import Element, ElementKind
from harness.report.terminal.run import bottleneck_rows, sentences
from harness.scenario.load import read_scenario
from harness.scenario.model import Arm, Load, Role
from lab.guest.steps.device import TableStep
from lab.realise.recipe import devices
from lab.topology.model import Topology
from tests.unit.bottleneck_samples import USES, disks, each, held, named, scenario, use

FIXTURES = Path(__file__).parent / "fixtures" / "samples"


def wanted(name: str, key: str) -> str:
    selftest = scenario(name).selftest
    assert selftest is not None
    return selftest.bottleneck[key]


@pytest.mark.parametrize(("name", "key"), USES)
def test_the_selftests_bottlenecks_are_named(name: str, key: str) -> None:
    assert named(name, key).label == wanted(name, key)


def test_every_bottleneck_of_the_selftests_is_tried_here() -> None:
    files = sorted((SCENARIOS / "selftest").glob("bottleneck-*.yaml"))
    names = [path.stem.removeprefix("bottleneck-") for path in files]
    tests = [scenario(name).selftest for name in names]
    assert {(name, key) for name, test in zip(names, tests, strict=True) if test for key in test.bottleneck} == set(
        USES
    )


@pytest.mark.parametrize(
    ("name", "key", "says"),
    [
        ("devices", "disk.stream", "busy 100 % of the window"),
        ("devices", "link.stream", "busy 100 % of the window"),
        ("queues", "host.random", "d1's part of 16: 8 of 8 held for 60 % of the window, 7 in the mean"),
        ("queues", "lun.random", "8 of 8 held for 100 % of the window, 8 in the mean"),
        ("queues", "own.random", "64 of 64 requests at the devices"),
        ("cpu", "plain.random", "busy 100 % of the window"),
        ("selector", "round-robin.stream", "link.slow busy 100 % of the window while link.fast is at 33 %"),
    ],
)
def test_the_figure_is_that_of_the_element(name: str, key: str, says: str) -> None:
    binding = named(name, key).binding
    assert binding is not None and binding.figure == says


@pytest.mark.parametrize(
    ("name", "key", "first", "said"),
    [
        # Queues fill up before what is slow.
        ("devices", "disk.stream", ElementKind.LUN_DEPTH, "lun.d0..1.cmd_per_lun"),
        ("devices", "link.stream", ElementKind.LUN_DEPTH, "lun.d0..1.cmd_per_lun"),
        # The link that round-robin overloads is at its limit too.
        ("selector", "round-robin.stream", ElementKind.LINK, "link.slow"),
        # Requests that wait for the processor are at the devices, as far as SCSI can tell.
        ("cpu", "plain.random", ElementKind.IODEPTH, "role.reader.iodepth"),
    ],
)
def test_another_precedence_turns_a_selftest_red(
    monkeypatch: pytest.MonkeyPatch, name: str, key: str, first: ElementKind, said: str
) -> None:
    order = (first, *(kind for kind in precedence_module.PRECEDENCE if kind is not first))
    monkeypatch.setattr(precedence_module, "PRECEDENCE", order)
    assert named(name, key).label == said != wanted(name, key)


def test_a_queue_without_waiters_is_not_a_bottleneck() -> None:
    of = scenario("queues")
    load = of.loads["random"]
    shallow = replace(load, roles={"reader": replace(load.roles["reader"], iodepth=8)})
    found = bottleneck(of.arms["lun"], shallow, [use(each(2, 8))], {"reader": 16 / 20e-3 * 4096})
    assert found.label == "role.reader.iodepth"


def test_requests_of_the_page_cache_are_not_the_loads() -> None:
    of = scenario("queues")
    load = of.loads["random"]
    buffered = replace(load, roles={"reader": replace(load.roles["reader"], direct=False, iodepth=1)})
    assert bottleneck(of.arms["own"], buffered, [use(each(2, 8))], {"reader": 1e6}).label == NOTHING


def test_a_busy_disk_that_mostly_waits_for_an_easy_link_is_held_up_by_it() -> None:
    """The time of a serial disk is its own part and the link's, one after another: the larger one is named."""
    seen = use(each(2, 4), disks=disks(2, 1.0, 0.6), links={"wire": 0.8})
    found = named("devices", "link.stream", seen)
    assert found.label == "link.wire"
    figures = [element.figure for element in found.elements if element.kind is ElementKind.DISK]
    assert figures == ["busy 100 % of the window, itself 40 %"]
    for waited, wire in ((0.1, 0.3), (0.5, 0.5)):
        seen = use(each(2, 4), disks=disks(2, 1.0, waited), links={"wire": wire})
        assert named("devices", "link.stream", seen).label == "disk.d0..1"


def test_equal_disks_that_are_nearly_as_busy_are_one_bottleneck() -> None:
    seen = use(each(2, 4), disks={"d0": DiskTime(1.0), "d1": DiskTime(0.8)}, links={"wire": 0.6})
    found = named("devices", "disk.stream", seen)
    assert found.label == "disk.d0..1"
    assert found.binding is not None
    assert (found.binding.figure, found.binding.share) == ("busy 80 to 100 % of the window", 1.0)


def test_what_limits_another_role_is_listed_too() -> None:
    files = {path.name: path.read_bytes() for path in FIXTURES.iterdir()}
    of = read_scenario("tcmu", search=SCENARIOS / "calibration")
    arm, load = of.arms["modelled"], of.loads["together"]
    found = bottleneck(
        arm, load, [read_use(LoadFiles(files, arm.topology, load))], dict.fromkeys(load.roles, 20e6 / len(load.roles))
    )
    assert found.figure.startswith("busy 100 % of the window; link.narrow at the limit too; ")


def test_the_busy_disks_alone_are_named() -> None:
    seen = use(each(2, 4), disks={"d0": DiskTime(1.0), "d1": DiskTime(0.6)}, links={"wire": 0.6})
    found = named("devices", "disk.stream", seen)
    assert found.label == "disk.d0"
    assert ("disk.d1", 0.6) in [(one.label, one.share) for one in found.elements]


def test_round_robin_over_ports_that_are_both_busy_is_not_to_blame() -> None:
    for fast, label in ((0.97, "link.fast, slow"), (0.9, "link.slow"), (0.89, "stack.m0.selector")):
        seen = use({"f0": 8, "s0": 8}, disks=disks(1, 0.33), links={"fast": fast, "slow": 1.0})
        assert named("selector", "round-robin.stream", seen).label == label


def test_where_nothing_is_saturated_it_says_so_and_names_the_fullest() -> None:
    seen = use(each(2, 2), idle=0.5, disks=disks(2, 0.7), links={"wire": 0.6})
    found = named("devices", "disk.stream", seen)
    assert (found.label, found.binding) == (NOTHING, None)
    assert found.figure == "fullest: disk.d0..1 70 %, link.wire 60 %, cpu 50 %"
    assert list(sentences([found])) == [
        "In disk.stream nothing is saturated: fullest: disk.d0..1 70 %, link.wire 60 %, cpu 50 %."
    ]


def test_the_mean_over_boots_decides() -> None:
    one = use(each(2, 4), idle=0.2, disks=disks(2, 1.0), links={"wire": 0.2})
    other = use(each(2, 8), idle=0.4, disks=disks(2, 0.5, 0.2), links={"wire": 0.4})
    both = mean_use([one, other])
    assert both.idle == pytest.approx(0.3)
    assert both.disks["d0"] == DiskTime(0.75, 0.1)
    assert both.links["wire"] == pytest.approx(0.3)
    assert both.luns["d1"] == Held(6, {4: 0.5, 8: 0.5})
    assert both.luns["d1"].share_at(8) == 0.5


def test_use_is_read_from_what_a_boot_left() -> None:
    of = read_scenario("tcmu", search=SCENARIOS / "calibration")
    files = {path.name: path.read_bytes() for path in FIXTURES.iterdir()}
    arm, load = of.arms["modelled"], of.loads["together"]
    seen = read_use(LoadFiles(files, arm.topology, load))
    assert seen.links["narrow"] == pytest.approx(1, abs=1e-3)
    assert seen.disks["left"].serving == pytest.approx(3 / 4, abs=1e-3)
    assert seen.hosts["loop"].share_at(12) > 0.99
    assert bottleneck(arm, load, [seen], dict.fromkeys(load.roles, 20e6 / 3)).label == "disk.alone"
    del files["together.samples.json"]
    with pytest.raises(MeasurementError, match="did not send"):
        read_use(LoadFiles(files, arm.topology, load))


@pytest.mark.parametrize(
    ("load", "moved", "label"),
    [
        ("slow", 7.98e6, "link.slow"),
        ("fast", 12e6, "role.reader.iodepth"),
        ("both", 30.4e6, "link.fast, slow"),
        ("both", 16e6, UNCOUNTED),
    ],
)
def test_uncounted_links_are_estimated_from_the_bytes_moved(load: str, moved: float, label: str) -> None:
    of = read_scenario("nvme-multipath-iopolicy")
    arm = of.arms["numa"]
    leaves = arm.topology.leaves(of.loads[load].roles["reader"].disk)
    seen = LoadUse(0.9, luns={lun: held(32 // len(leaves)) for lun in leaves})
    found = bottleneck(arm, of.loads[load], [seen], {"reader": moved})
    assert found.label == label
    if label == UNCOUNTED:
        assert found.figure == "link.fast, slow at 50 % of their rate together; what each carries is not counted"
        (depth,) = (element for element in found.elements if element.kind is ElementKind.IODEPTH)
        assert (depth.share, depth.figure.partition(", ")[2]) == (0.0, "or waiting for links")


def test_a_report_of_80_columns_splits_no_name() -> None:
    names = tuple(f"d{number:02}" for number in range(0, 48, 2))
    disks = Element(ElementKind.DISK, names, 1.0, binds=True, figure="busy 99 to 100 % of the window")
    figure = "hba.twa0.can_queue 100 %, lun.p0.cmd_per_lun 50 %, role.hog.iodepth 40 %, role.victim.iodepth 12 %"
    waiting = Element(ElementKind.PACE, ("victim", "bystander"), 0.97, binds=True, figure=figure)
    rows = [
        Bottleneck("one-queue-mq-deadline", load, of, (of,)) for load, of in (("lopsided", waiting), ("all", disks))
    ]
    console = Console(record=True, width=80, force_terminal=False)
    console.print(bottleneck_rows(rows))
    text = console.export_text()
    assert {"one-queue-mq-deadline", "bystander.pace", "hba.twa0.can_queue", "lun.p0.cmd_per_lun"} <= {*text.split()}
    assert {"all", "busy", "99", "100", "%"} <= {*text.split()} and "d00" in text
    assert text.count("one-queue-mq-deadline") == 1 and max(map(len, text.splitlines())) <= 80


def busy_disks(held_each: float) -> Callable[[float], LoadUse]:
    """What a load on two disks uses that are busy for a share of the window."""
    return lambda busy: holding(held_each, disks=disks(2, busy))


def busy_link(busy: float) -> LoadUse:
    return use(each(2, 4), disks=disks(2, 0.5), links={"wire": busy})


def holding(held_each: float, **more: Any) -> LoadUse:
    return replace(use(each(2, 4), **more), luns=dict.fromkeys(("d0", "d1"), Held(held_each, {})))


@pytest.mark.parametrize(
    ("name", "key", "seen", "edge", "label"),
    [
        ("devices", "disk.stream", busy_disks(3), (0.94, 0.95), "disk"),
        # Behind full queues: from F / (1 + F / 5) on, of a queue that is full for the share F of the window.
        ("devices", "disk.stream", busy_disks(4), (0.83, 0.84), "disk"),
        ("devices", "disk.stream", busy_disks(3.6), (0.76, 0.77), "disk"),
        ("devices", "link.stream", busy_link, (0.94, 0.95), "link.wire"),
        ("cpu", "plain.random", lambda busy: use(each(2, 3), idle=1 - busy), (0.94, 0.95), "cpu"),
        ("queues", "lun.random", holding, (6.3, 6.4), "lun.d0..1.cmd_per_lun"),
        ("queues", "own.random", holding, (28.7, 28.8), "role.reader.iodepth"),
    ],
)
def test_an_element_is_at_its_limit_from_its_threshold_on(
    name: str, key: str, seen: Callable[[float], LoadUse], edge: tuple[float, float], label: str
) -> None:
    """95 % busy for disks, links and the CPU, 80 % of a queue, 90 % of what the load has in flight."""
    assert [named(name, key, seen(value)).label.startswith(label) for value in edge] == [False, True]


def bucket_load(**options: str) -> tuple[Arm, Load]:
    """Two roles on tcm_loop disks of 1 MB/s and 8 MB/s: token buckets of 250 and 2000 requests of 4 KiB a second."""
    of = read_scenario("tcm-loop", search=SCENARIOS / "calibration")
    roles = {
        name: Role(name, (disk,), "randread", 4096, 64, "libaio", direct=True, options=options)
        for name, disk in {"hog": "serial-1", "victim": "serial-8"}.items()
    }
    return of.arms["depth-8"], replace(of.loads["one"], roles=roles)


TWO = LoadUse(0.9, luns={"serial-1": held(8), "serial-8": held(8)}, hosts={"loop": held(16)})
IDLE = LoadUse(0.9, luns={"serial-1": held(1), "serial-8": held(1)}, hosts={"loop": held(2)})


def test_a_token_bucket_is_known_by_what_its_roles_moved() -> None:
    arm, load = bucket_load()
    found = bottleneck(arm, load, [TWO], {"hog": 245 * 4096, "victim": 900 * 4096})
    assert (found.label, found.figure.split(";")[0]) == ("disk.serial-1", "its token bucket at 98 %")
    assert bottleneck(arm, load, [TWO], {"hog": 237.5 * 4096, "victim": 900 * 4096}).label == "disk.serial-1"
    both = bottleneck(arm, load, [TWO], {"hog": 245 * 4096, "victim": 1960 * 4096})
    assert both.label == "disk.serial-1, serial-8"
    neither = bottleneck(arm, load, [TWO], {"hog": 230 * 4096, "victim": 900 * 4096})
    assert neither.label == "lun.serial-1, serial-8.cmd_per_lun"


@pytest.mark.parametrize(
    ("options", "iops", "label"),
    [
        ({"rate_iops": "100"}, 96, "role.hog, victim.pace"),
        ({"rate_iops": "100"}, 90, NOTHING),
        ({"rate": "409600"}, 99, "role.hog, victim.pace"),
        ({"thinktime": "10000"}, 50, "role.hog, victim.pace"),
        ({"thinktime": "10000"}, 49, NOTHING),
        ({}, 96, NOTHING),
    ],
)
def test_roles_that_keep_their_own_pace_limit_the_load(options: dict[str, str], iops: int, label: str) -> None:
    arm, load = bucket_load(**options)
    assert bottleneck(arm, load, [IDLE], {"hog": iops * 4096, "victim": iops * 4096}).label == label


def test_a_role_that_paces_itself_is_made_a_quarter_faster() -> None:
    for options, says in (
        ({"rate_iops": "100", "norandommap": "1"}, "rate_iops 100 -> 125"),
        ({"rate": "409600"}, "rate 409600 -> 512000"),
        ({"thinktime": "10000"}, "thinktime 10000 -> 8000"),
    ):
        arm, load = bucket_load(**options)
        found = bottleneck(arm, load, [IDLE], {"hog": 97 * 4096, "victim": 97 * 4096})
        change = changes(arm, load, found)[0]
        assert (change.label, change.says, change.named) == ("role.hog, victim.pace", says, True)
        assert {role.options != options for role in change.load.roles.values()} == {True}


def test_a_role_that_is_held_back_elsewhere_is_not_limited_by_the_other_ones_pace() -> None:
    arm, load = bucket_load()
    paced = replace(load.roles["victim"], options={"rate_iops": "100"})
    load = replace(load, roles={**load.roles, "victim": paced})
    found = bottleneck(arm, load, [TWO], {"hog": 250 * 4096, "victim": 100 * 4096})
    assert found.label == "disk.serial-1"
    assert bottleneck(arm, load, [IDLE], {"hog": 50 * 4096, "victim": 100 * 4096}).label == NOTHING


def test_of_two_full_queues_both_are_named() -> None:
    arm, load = bucket_load()
    host = replace(arm.topology.hbas["loop"], can_queue=16, cmd_per_lun=10)
    arm = replace(arm, topology=replace(arm.topology, hbas={"loop": host}))
    full = replace(TWO, luns={"serial-1": held(9), "serial-8": held(9)}, hosts={"loop": held(16)})
    found = bottleneck(arm, load, [full], {"hog": 4096, "victim": 4096})
    assert found.label == "hba.loop.can_queue"
    assert "; lun.serial-1 +1.cmd_per_lun at the limit too; " in found.figure


def test_a_sentence_about_several_loads_has_the_figures_of_all() -> None:
    arm, load = bucket_load(rate_iops="100")
    kept, less = (bottleneck(arm, load, [IDLE], dict.fromkeys(load.roles, iops * 4096)) for iops in (100, 96))
    (alike,) = sentences([kept, replace(kept, load="again")])
    assert alike.startswith("role.hog, victim.pace limits depth-8.one, depth-8.again: 100 % of the pace that")
    (both,) = sentences([kept, replace(less, load="again")])
    assert both == "role.hog, victim.pace limits depth-8.one, depth-8.again: 96 to 100 %."


def raised(name: str, key: str) -> dict[str, Alteration]:
    of = scenario(name)
    arm, _, load = key.partition(".")
    return {change.label: change for change in changes(of.arms[arm], of.loads[load], named(name, key))}


def topology(change: Alteration) -> Topology:
    return change.arm.topology


def test_every_limit_that_the_load_meets_is_raised_or_refused_and_the_named_one_first() -> None:
    found = raised("devices", "disk.stream")
    assert list(found) == ["disk.d0..1", "link.wire", "cpu", "hba.can_queue", "hba.cmd_per_lun", "role.reader.iodepth"]
    assert [change.named for change in found.values()] == [True, *[False] * 5]
    assert {disk.rate for disk in topology(found["disk.d0..1"]).disks.values()} == {10_000_000}
    assert (topology(found["link.wire"]).links["wire"].rate, found["link.wire"].times) == (30_000_000, 1.0)
    assert topology(found["hba.cmd_per_lun"]).hbas["host"].cmd_per_lun == 5
    assert found["role.reader.iodepth"].load.roles["reader"].iodepth == 10
    refused = {change.label: change.refused for change in raised("devices", "disk.stream").values() if change.refused}
    assert refused == {"hba.can_queue": "hba host: can_queue 1280 exceeds 1024, the limit of tcmu"}


def test_a_faster_processor_is_slower_devices_in_their_own_seconds() -> None:
    cpu = raised("devices", "disk.stream")["cpu"]
    assert cpu.times == 1.25
    assert topology(cpu).links["wire"].rate == 19_200_000
    assert topology(cpu).disks["d1"].rate == 6_400_000
    assert topology(raised("cpu", "plain.random")["cpu"]).disks["d0"].service == 125_000


def test_where_a_depth_binds_a_shorter_latency_is_not_tried() -> None:
    assert "disk.d0..1" not in raised("queues", "lun.random")
    quicker = raised("cpu", "plain.random")["disk.d0..1"]
    assert (topology(quicker).disks["d0"].service, quicker.named) == (80_000, False)


def test_where_a_depth_binds_the_rate_of_disks_is_raised_and_nr_requests_with_the_depth() -> None:
    of = scenario("devices")
    arm, load = of.arms["disk"], of.loads["stream"]
    limited = replace(arm, queue={**arm.queue, "nr_requests": "3"})
    seen = use(each(2, 3), disks=disks(2, 0.5), links={"wire": 0.3})
    found = bottleneck(limited, load, [seen], dict.fromkeys(load.roles, 1e6))
    assert found.label == "lun.d0..1.cmd_per_lun"
    of_label = {change.label: change.arm for change in changes(limited, load, found)}
    assert [change.label for change in changes(limited, load, found) if change.named] == ["hba.cmd_per_lun"]
    assert of_label["disk.d0..1.rate"].topology.disks["d1"].rate == 10_000_000
    assert of_label["hba.cmd_per_lun"].queue["nr_requests"] == "4"


def test_a_hosts_queue_takes_the_depth_of_its_luns_with_it_where_they_are_equal() -> None:
    hba = topology(raised("queues", "host.random")["hba.can_queue"]).hbas["host"]
    assert (hba.can_queue, hba.cmd_per_lun) == (20, 20)


def test_the_adaptive_selector_weighs_paths_by_their_links() -> None:
    found = raised("selector", "round-robin.stream")
    better = topology(found["stack.m0.selector"])
    assert {stack.selector for stack in better.stacks.values()} == {"service-time"}
    tables = [step for step in devices(better) if isinstance(step, TableStep)]
    assert tables[0].rows[0].endswith("service-time 0 2 2 /lab/f0 1 100 /lab/s0 1 33")
    assert "link.slow" not in found
    assert "link.fast" in found


def proof(*gains: float | None) -> Proof:
    every = zip(raised("devices", "disk.stream").values(), gains, strict=False)
    return Proof(named("devices", "disk.stream"), tuple(replace(row, gain=gain, refused="why") for row, gain in every))


def test_only_the_named_limit_may_gain_and_what_was_not_measured_proves_nothing() -> None:
    assert proof(0.24, 0.0, -0.1).proven
    assert proof_sentence(proof(0.24, 0.0)) == "Proven: disk.d0..1 limits disk.stream; raised, it gives +24.0 %."
    assert not proof(0.019, 0.0).proven and not proof(0.02, 0.0).proven
    assert not proof(0.24, 0.02).proven
    assert proof_sentence(proof(0.24, 0.02)).endswith("alone; see link.wire.")
    assert proof(0.24, None).proven
    assert not proof(None, 0.0).proven
    assert proof_sentence(proof(None, 0.0)) == "disk.d0..1 of disk.stream cannot be proven: why"
