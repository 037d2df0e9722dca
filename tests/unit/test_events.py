# SPDX-License-Identifier: GPL-2.0-only
"""Settings that change while a load runs: what is written of them, when, and what is refused."""

from pathlib import Path

import pytest

from harness.cli import main
from harness.run.plan import guest_job
from harness.scenario.model import Scenario
from lab.base.errors import InputErrors
from lab.guest.console import warnings
from lab.guest.steps import Step
from lab.guest.steps.device import LinkStep, Module
from lab.guest.steps.load import Meanwhile, RunLoad
from lab.guest.steps.setting import Confirm, Try
from lab.session import guest_steps
from lab.topology.emulated import CONTROLLERS
from lab.topology.model import Driver
from tests.unit.scenario_text import load

TEXT = """\
scenario: t
title: An elevator changes under a load
schema: 1
topology:
  memory: 512M
  hbas: {nullb: {driver: null_blk, can_queue: 64}}
  disks: {d0: {size: 1G, service: 10us}}
  luns: {d0: {hba: nullb, disks: [d0]}}
queue: {scheduler: none}
window: {ramp: 0s, runtime: 100ms}
arms: {a: {}}
loads:
  one:
    reader: {disk: d0, rw: randread, bs: 4k, iodepth: 1}
    events:
      - {at: 10ms, every: 40ms, queue: {scheduler: kyber}}
      - {at: 30ms, queue: {scheduler: none, nr_requests: 32}}
      - {at: 20ms, disk: d0, write: queue/wbt_lat_usec, to: "0"}
"""


def steps_of(scenario: Scenario) -> tuple[Step, ...]:
    return guest_steps(scenario.arms["a"].topology, guest_job(scenario, scenario.arms["a"], 1))


def beside_the_load(scenario: Scenario) -> Meanwhile:
    (beside,) = (step for step in steps_of(scenario) if isinstance(step, Meanwhile))
    return beside


def test_events_are_steps_at_their_times(tmp_path: Path) -> None:
    """At 10, 50 and 90 ms of 100 the first one, the scheduler before nr_requests; modules first."""
    scenario = load(TEXT, tmp_path)
    steps, meanwhile = steps_of(scenario), beside_the_load(scenario)
    assert meanwhile.files()["one.timed"].splitlines() == [
        "10000\ttune\tqueue.scheduler[d0]\t/lab/d0.sys/queue/scheduler\tkyber",
        "20000\ttry\tqueue/wbt_lat_usec[d0]\t/lab/d0.sys/queue/wbt_lat_usec\t0",
        "30000\ttune\tqueue.scheduler[d0]\t/lab/d0.sys/queue/scheduler\tnone",
        "30000\ttune\tqueue.nr_requests[d0]\t/lab/d0.sys/queue/nr_requests\t32",
        "50000\ttune\tqueue.scheduler[d0]\t/lab/d0.sys/queue/scheduler\tkyber",
        "90000\ttune\tqueue.scheduler[d0]\t/lab/d0.sys/queue/scheduler\tkyber",
        "90000\tlink\t/proc/sys/kernel/ostype\t/lab/one.done",
    ]
    assert steps.index(Module("kyber-iosched")) < steps.index(meanwhile)


def test_errors_are_expected_from_an_event_on_and_roles_go_on(tmp_path: Path) -> None:
    scenario = load(TEXT.replace('to: "0"', 'to: "0", errors: true'), tmp_path)
    rows = beside_the_load(scenario).files()["one.timed"].splitlines()
    assert rows[1:3] == [
        "20000\tpath/mark\td0\tlost",
        "20000\ttry\tqueue/wbt_lat_usec[d0]\t/lab/d0.sys/queue/wbt_lat_usec\t0",
    ]
    job, clean = (
        each.loads[0].fio for each in (guest_job(s, s.arms["a"], 1) for s in (scenario, load(TEXT, tmp_path)))
    )
    assert "continue_on_error=all\nignore_error=5:84:61:121:67:110:52:28," in job
    assert "error" not in clean


@pytest.mark.parametrize(("errors", "lacking"), [("", "errors"), (", errors: true", "verify.bad")])
def test_either_errors_or_bad_blocks_are_counted(tmp_path: Path, errors: str, lacking: str) -> None:
    text = TEXT.replace('to: "0"', f'to: "0"{errors}')
    entries = "%s: [{that: none, ratio: a.one.reader.%s, expect: '<= 0'}]\n"
    claims = entries.replace("%s", "claims", 1) + entries % ("controls", "iops")
    load(text + claims % ({"errors", "verify.bad"} - {lacking}).pop(), tmp_path)
    with pytest.raises(InputErrors, match="errors"):
        load(text + claims % lacking, tmp_path)


def test_events_of_a_cpu_are_beside_those_of_another(tmp_path: Path) -> None:
    text = TEXT.replace("every: 40ms, ", "cpu: 1, ").replace("{at: 20ms, ", "{at: 20ms, cpu: 0, ")
    text = text.replace("iodepth: 1}", "iodepth: 1, cpus: 0}")
    scenario = load(text.replace("memory: 512M", "memory: 512M\n  machine: {cpus: 2}"), tmp_path)
    assert scenario.loads["one"].events[0].text == "queue.scheduler=kyber at 10 ms by CPU 1"
    steps = steps_of(scenario)
    beside = {step.fields()[1:]: step for step in steps if isinstance(step, Meanwhile)}
    assert set(beside) == {("one.1.meanwhile", "1"), ("one.0.meanwhile", "0"), ("one.meanwhile",)}
    assert beside["one.1.meanwhile", "1"].files()["one.1.timed"].splitlines() == [
        "10000\ttune\tqueue.scheduler[d0]\t/lab/d0.sys/queue/scheduler\tkyber",
        "10000\tlink\t/proc/sys/kernel/ostype\t/lab/one.1.done",
    ]
    done = [step.path for step in steps if isinstance(step, Confirm) and step.knob.startswith("events of")]
    assert done == ["/lab/one.1.done", "/lab/one.0.done", "/lab/one.done"]


@pytest.mark.parametrize(("late", "jobs"), [("", 3), (", startdelay: 5ms", 1), (", numjobs: 2", 5)])
def test_times_count_from_the_jobs_that_begin_first(late: str, jobs: int, tmp_path: Path) -> None:
    """fio makes a late job when its time has come, so waiting for it would make all events late."""
    later = f"    later: {{disk: [d0, d1], rw: randread, bs: 4k, iodepth: 1{late}}}\n"
    text = TEXT.replace("disks: {d0:", "disks: {d1: {size: 128M, service: 10us}, d0:")
    text = text.replace("luns: {", "luns: {d1: {hba: nullb, disks: [d1]}, ").replace("ramp: 0s", "ramp: 10ms")
    assert beside_the_load(load(text.replace("    events:\n", f"{later}    events:\n"), tmp_path)).jobs == jobs


def test_the_elevator_of_an_attribute_is_loaded(tmp_path: Path) -> None:
    text = TEXT.replace('write: queue/wbt_lat_usec, to: "0"', "write: queue/scheduler, to: bfq")
    assert Module("bfq") in steps_of(load(text, tmp_path))


def test_an_attribute_of_a_driver_is_below_the_files_of_its_device(tmp_path: Path) -> None:
    text = TEXT.replace("write: queue/wbt_lat_usec, to", "write: config/submit_queues, to")
    for driver, path in (
        ("null_blk", "/sys/kernel/config/nullb/nullb0/submit_queues"),
        ("scsi_debug", "/sys/bus/pseudo/drivers/scsi_debug/submit_queues"),
    ):
        beside = beside_the_load(load(text.replace("driver: null_blk", f"driver: {driver}"), tmp_path))
        assert [step.path for _, step in beside.timed if isinstance(step, Try)] == [path]
    with pytest.raises(InputErrors, match="in arm a d0 is no LUN of null_blk or scsi_debug"):
        load(text.replace("driver: null_blk", "driver: tcm_loop"), tmp_path)


def test_events_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load(TEXT, tmp_path)
    assert main(["show", str(tmp_path / "t.yaml")]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert (
        "d0; queue.scheduler=kyber at 10 ms and every 40 ms; queue.scheduler=none queue.nr_requests=32 at 30 ms;"
        in shown
    )
    assert "; d0/queue/wbt_lat_usec=0 at 20 ms" in shown


def test_late_events_are_waited_for_before_anything_is_sent(tmp_path: Path) -> None:
    """Many events, or the wall clock: the guest is late, and what it reads back was being sent."""
    scenario = load(TEXT, tmp_path)
    steps = steps_of(scenario)
    (place,) = (number for number, step in enumerate(steps) if isinstance(step, RunLoad))
    done = steps[place + 1]
    assert isinstance(done, Confirm)
    assert beside_the_load(scenario).timed[-1][1] == LinkStep("/proc/sys/kernel/ostype", done.path)


@pytest.mark.parametrize(
    ("event", "says"),
    [
        ("{at: 10ms}", "expected queue, or disk with write"),
        ("{at: 10ms, disk: d0, write: queue/nr_requests}", "expected queue, or disk with write"),
        ("{at: 10ms, disk: d1, write: queue/nr_requests, to: '4'}", "arm a has no LUN or stack d1"),
        ("{at: 10ms, disk: d0, write: queue/nr_requests, to: '4', member: d1}", "what is done to the member"),
        ("{at: 10ms, queue: {scheduler: kyber}, ios: 5}", "the I/Os of which disk"),
        ("{at: 10ms, queue: {scheduler: kyber}, errors: true}", "the I/Os of which disk"),
        ("{at: 1s, queue: {scheduler: kyber}}", "after the load"),
        ("{at: 10ms, cpu: 1, queue: {scheduler: kyber}}", "arm a has no CPU 1"),
        ("{at: 10ms, queue: {async_depth: 8}}", "async_depth needs an elevator, and arm a has none"),
        ("{at: 10ms, queue: {iosched.front_merges: 0}}", "iosched.front_merges needs an elevator, and arm a has none"),
        ("{at: 10ms, every: 1ms, queue: {scheduler: elevator}}", "scheduler: expected"),
    ],
)
def test_an_event_that_cannot_be_is_refused_with_its_line(tmp_path: Path, event: str, says: str) -> None:
    before, _, _ = TEXT.partition("      - {at: 10ms")
    with pytest.raises(InputErrors) as caught:
        load(f"{before}      - {event}\n", tmp_path)
    (problem,) = caught.value.problems
    assert says in problem.message
    assert problem.line == 16


def test_the_ios_of_a_queue_without_iostats_are_not_waited_for(tmp_path: Path) -> None:
    text = TEXT.replace("queue: {scheduler: none}", "queue: {scheduler: none, iostats: 0}", 1)
    load(text, tmp_path)
    with pytest.raises(InputErrors, match="arm a does not count the I/Os of d0"):
        load(text.replace("write: queue/wbt_lat_usec", "ios: 5, write: queue/wbt_lat_usec"), tmp_path)


def acting(*events: str) -> str:
    """A scenario with these events in place of the others."""
    head = TEXT[: TEXT.index("    events:")].replace("disk: d0, rw", "disk: d2, rw")
    topology = """\
  hbas: {loop: {driver: tcmu, can_queue: 64}}
  disks: {d0..4: {size: 128M, rate: 100 MB/s}, s0: {size: 64M, rate: 100 MB/s}}
  luns: {d0..4: {hba: loop, disks: [d0..4]}, s0: {hba: loop, disks: [s0]}}
  stacks:
    pa: {kind: linear, over: [d3], size: 64M}
    md0: {kind: md, level: raid1, over: [d0..1]}
    fs: {kind: filesystem, type: ext4, over: [d4]}
"""
    start, end = head.index("  hbas:"), head.index("queue: {scheduler")
    rows = "".join(f"      - {{{event}}}\n" for event in events)
    return f"{head[:start]}{topology}{head[end:]}    events:\n{rows}"


def test_what_is_done_to_devices(tmp_path: Path) -> None:
    text = acting(
        "at: 10ms, disk: pa, do: suspend, ios: 5",
        "at: 20ms, disk: pa, do: resume",
        "at: 30ms, disk: md0, do: fail, member: d1",
    )
    scenario = load(text, tmp_path)
    assert [event.text for event in scenario.loads["one"].events] == [
        "suspend pa at 10 ms and 5 I/Os",
        "resume pa at 20 ms",
        "fail md0/d1 at 30 ms",
    ]
    beside = beside_the_load(scenario)
    assert beside.files()["one.timed"].splitlines()[:4] == [
        "10000\tact/completions\tpa\t5",
        "10000\tact/do\tsuspend[pa]\tsuspend\tpa",
        "20000\tact/do\tresume[pa]\tresume\tpa",
        "30000\tact/do\tfail[md0/d1]\tfail\tmd0/d1",
    ]
    assert "/verbs/act.sh" in beside.files()


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ("at: 1ms, disk: d0, do: suspend", "in arm a d0 is not a stack of kind linear or stripe or"),
        ("at: 1ms, disk: pa, do: freeze", "in arm a pa is not a stack of kind filesystem, which freeze needs"),
        ("at: 1ms, disk: pa, do: delete", "in arm a pa is not a SCSI LUN made in the guest, which delete needs"),
        ("at: 1ms, disk: md0, do: fail", "fail needs a member of md0: d0, d1"),
        ("at: 1ms, disk: md0, do: fail, member: d2", "fail needs a member of md0: d0, d1"),
        ("at: 1ms, disk: s0, do: delete, member: d2", "delete takes no member"),
        ("at: 1ms, disk: pa, do: suspend", "nothing ends this suspend"),
        ("at: 1ms, disk: d0, do: delete", "nothing ends this delete"),
        ("at: 1ms, disk: d2, do: delete", "a role or a stack uses d2, and its I/O would fail"),
        ("at: 1ms, disk: s0, do: delete", "a rescan adds LUN 0 of tcmu alone, and that of loop is d0"),
        ("at: 1ms, disk: pa, do: suspend, to: x", "expected queue, or disk with write and to or do"),
        ("at: 1ms, ios: 3, queue: {scheduler: none}", "the I/Os of which disk"),
    ],
)
def test_what_cannot_be_done_is_told(tmp_path: Path, event: str, message: str) -> None:
    with pytest.raises(InputErrors, match=message):
        load(acting(event), tmp_path)


def test_a_lun_of_a_role_s_disk_or_below_a_stack_is_not_deleted(tmp_path: Path) -> None:
    """A LUN that a stack holds comes back with another name, and its counters with it."""
    text = TEXT[: TEXT.index("      - {at: 10ms")].replace("nullb: {driver: null_blk", "nullb: {driver: scsi_debug")
    text = text.replace("d0: {size", "d0..1: {size").replace(
        "d0: {hba: nullb, disks: [d0]}", "l0..1: {hba: nullb, disks: [d0..1]}"
    )
    text += "      - {at: 1ms, disk: l1, do: delete}\n      - {at: 2ms, disk: l1, do: rescan}\n"
    load(text, tmp_path)
    stack = "queue: {scheduler: none}"
    held = text.replace(stack, "  stacks: {pa: {kind: linear, over: [l1], size: 64M}}\n" + stack)
    for refused in (held, text.replace("disk: d0, rw", "disk: d1, rw"), text.replace("disk: d0, rw", "disk: l1, rw")):
        with pytest.raises(InputErrors, match="a role or a stack uses l1, and its I/O would fail"):
            load(refused, tmp_path)


@pytest.mark.parametrize("driver", ["virtio-scsi", "mptsas1068", "megasas"])
def test_a_lun_of_a_controller_of_qemu_is_not_deleted(driver: str, tmp_path: Path) -> None:
    text = TEXT[: TEXT.index("      - {at: 10ms")] + "      - {at: 1s, disk: d0, do: delete}\n"
    text = text.replace(
        "driver: null_blk, can_queue: 64", f"driver: {driver}, can_queue: {CONTROLLERS[Driver(driver)].most}"
    )
    text = text.replace("\nqueue:", "\nclock: wall\nboots: 6\nwindows: 1\nqueue:")
    text = text.replace("{ramp: 0s, runtime: 100ms}", "{ramp: 1s, runtime: 1s}")
    with pytest.raises(InputErrors, match="d0 is not a SCSI LUN made in the guest, which delete needs"):
        load(text, tmp_path)


def test_a_lun_that_was_deleted_is_powered_on_once() -> None:
    powered = "[ {}] scsi 0:0:{}:0: Power-on or device reset occurred"
    log = "\n".join(
        (
            "[ 1.0] blklab: ready",
            "[ 2.0] blklab: 0:0:1:0 is deleted",
            powered.format(3.0, 1),
            powered.format(4.0, 2),
            powered.format(5.0, 1),
        )
    )
    assert warnings(log, set_up=1.5) == (powered.format(4.0, 2), powered.format(5.0, 1))
