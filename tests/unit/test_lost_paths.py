# SPDX-License-Identifier: GPL-2.0-only
"""Paths that fail while a load runs: what a scenario may ask for, the steps, and which errors are expected."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.run.plan import guest_job
from harness.scenario.model import Scenario
from lab.guest.console import READY_MARK, warnings
from lab.guest.steps.device import Write
from lab.guest.steps.load import Meanwhile
from lab.realise.recipe import devices
from lab.session import guest_steps
from lab.topology.limits import refusals
from lab.topology.load import load_topology
from lab.topology.model import Loss
from tests.unit.scenario_text import GOOD, load, mistakes
from tests.unit.test_nvmet import TWO_PATHS

TWO = """\
topology:
  memory: 512M
  disks:
    d: {size: 1G, rate: 8 MB/s}
  hbas:
    h0: {driver: tcmu, can_queue: 64}
  luns:
    p0: {hba: h0, disks: [d]}
    p1: {hba: h0, disks: [d]}
  stacks:
    two: {kind: multipath, over: [p0, p1]}
"""
LOST = """\
    lost:
      - {path: p0, from: 1s, to: 2s}
      - {path: p1, from: 2s, to: 2500ms}
"""
TEXT = (
    GOOD.replace("topology: neighbours\n", TWO)
    .replace("  shared: {hba.cmd_per_lun: 64}", "  shared: {}")
    .replace("disk: p0", "disk: two")
    .replace("disk: p1", "disk: two")
    .replace("lopsided:\n", f"lopsided:\n{LOST}")
)


def meanwhile(scenario: Scenario) -> list[Meanwhile]:
    arm = scenario.arms["shared"]
    return [step for step in guest_steps(arm.topology, guest_job(scenario, arm, 1)) if isinstance(step, Meanwhile)]


def test_a_load_says_when_its_paths_fail(tmp_path: Path) -> None:
    scenario = load(TEXT, tmp_path)
    assert scenario.loads["solo"].lost == ()
    assert scenario.loads["lopsided"].lost == (Loss("p0", 10**9, 2 * 10**9), Loss("p1", 2 * 10**9, 25 * 10**8))
    assert load(TEXT.replace(LOST, ""), tmp_path).digest != scenario.digest


def test_a_path_goes_offline_and_the_table_takes_it_back(tmp_path: Path) -> None:
    (step,) = meanwhile(load(TEXT, tmp_path))
    assert step.fields() == ("path/meanwhile", "lopsided.meanwhile")
    assert step.files()["lopsided.timed"].splitlines() == [
        "1000000\tpath/mark\tp0\tlost",
        "1000000\tpath/state\tpath[p0]\t/lab/p0.sys/device/state\toffline",
        "2000000\tpath/state\tpath[p0]\t/lab/p0.sys/device/state\trunning",
        "2000000\tpath/mark\tp0\tback",
        "2000000\tdm/message\ttwo\treinstate_path /lab/p0",
        "2000000\tpath/mark\tp1\tlost",
        "2000000\tpath/state\tpath[p1]\t/lab/p1.sys/device/state\toffline",
        "2500000\tpath/state\tpath[p1]\t/lab/p1.sys/device/state\trunning",
        "2500000\tpath/mark\tp1\tback",
        "2500000\tdm/message\ttwo\treinstate_path /lab/p1",
        "2500000\tlink\t/proc/sys/kernel/ostype\t/lab/lopsided.done",
    ]


def test_a_suspended_device_takes_no_message_about_a_lost_path(tmp_path: Path) -> None:
    events = "    events:\n" + "".join(
        f"      - {{at: {at}, disk: two, do: {do}}}\n" for at, do in (("1500ms", "suspend"), ("1600ms", "resume"))
    )
    load(TEXT.replace(LOST, events), tmp_path)
    says = "events: two is told of a lost path, and not while it is suspended (remove lost)"
    assert says in mistakes(TEXT.replace(LOST, LOST + events), tmp_path)


def test_a_port_of_an_nvme_target_becomes_inaccessible(tmp_path: Path) -> None:
    nvme = "topology:\n" + "".join(f"  {line}\n" for line in TWO_PATHS.splitlines()[1:])
    text = TEXT.replace(TWO, nvme).replace("path: p0", "path: a").replace("path: p1", "path: b")
    text = text.replace("  limited: {hba.cmd_per_lun: 16}", "  limited: {stack.two.iopolicy: numa}")
    (step,) = meanwhile(load(text, tmp_path))
    states = [line.split("\t")[3:] for line in step.files()["lopsided.timed"].splitlines() if "\tpath/state\t" in line]
    folder = "/sys/kernel/config/nvmet/ports/{}/ana_groups/1/ana_state"
    assert states == [
        [folder.format(1), "inaccessible"],
        [folder.format(1), "optimized"],
        [folder.format(2), "inaccessible"],
        [folder.format(2), "optimized"],
    ]
    other = "    d: {size: 1G, service: 1us}\n"
    shared = text.replace(other, other + other.replace("d:", "e:"))
    shared = shared.replace("    a: {hba: h0", "    c: {hba: h0, disks: [e]}\n    a: {hba: h0")
    shared = shared.replace("    two: {", "    alone: {kind: nvme, over: [c]}\n    two: {")
    assert "lost: the other paths of HBA h0 of arm shared would be lost too (give it its own HBA)" in mistakes(
        shared, tmp_path
    )


def test_other_layers_may_be_over_nvme_multipath(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(f"{TWO_PATHS}  copy: {{kind: loop, direct_io: true, over: [two]}}\n")
    topology = load_topology("./t.yaml", near=tmp_path)
    assert not list(refusals(topology))
    kept = Write("/sys/kernel/config/nullb/nullb0/memory_backed", "1")
    assert kept in devices(topology)
    alone = replace(topology, stacks={"two": topology.stacks["two"]})
    assert kept not in devices(alone)


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ("path: p0", "path: p7", "t.yaml:27:16: lost: p7 in topology inline of arm shared is no path"),
        ("path: p0", "path: two", "lost: two in topology inline of arm shared is no path"),
        ("kind: multipath, over: [p0, p1]", "kind: multipath, over: [p0]", "lost: p1 in topology"),
        ("from: 1s, to: 2s", "from: 1s, to: 1s", "lost: 1 s is not after 1 s and within the load"),
        ("to: 2500ms", "to: 10s", "lost: 10 s is not after 2 s and within the load"),
        ("from: 2s", "from: 1500ms", "lost: no path is left at 1.5 s (lose one after the other)"),
        ("path: p1, from: 2s", "path: p0, from: 1s", "lost: p0 is lost already at 1 s"),
        ("path: p1, from: 2s, ", "path: p1, ", "from"),
    ],
)
def test_mistakes(old: str, new: str, wanted: str, tmp_path: Path) -> None:
    assert old in TEXT
    assert wanted in mistakes(TEXT.replace(old, new), tmp_path)


def test_errors_of_a_lost_path_are_expected_until_it_is_back() -> None:
    error = "[   12.3] blk_update_request: I/O error, dev {}, sector 0 op 0x1:(WRITE) flags 0x0"
    before, lost, back = error.format("sda"), "[ 13.0] blklab: path sda is lost", "[ 14.0] blklab: path sda is back"
    other, late = error.format("sdb"), error.format("sda").replace("12.3", "15.0")
    log = "\n".join((READY_MARK, before, lost, error.format("sda"), other, back, late))
    assert warnings(log) == (before, other, late)


def test_what_a_scsi_disk_says_of_its_errors_is_expected_too() -> None:
    """Lines of 6.12 for a command of scsi_debug that failed six times."""
    said = (
        "[ 66.63] sd 0:0:0:0: [{0}] tag#32 FAILED Result: hostbyte=DID_OK driverbyte=DRIVER_OK cmd_age=0s",
        "[ 66.63] sd 0:0:0:0: [{0}] tag#32 Sense Key : Aborted Command [current]",
        "[ 66.63] I/O error, dev {0}, sector 2440 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2",
        "[ 66.63] critical medium error, dev {0}, sector 2440 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2",
        "[ 66.64] Buffer I/O error on dev {0}, logical block 0, async page read",
    )
    of_sda, of_sdb = ([line.format(name) for line in said] for name in ("sda", "sdb"))
    log = "\n".join((READY_MARK, "[ 66.5] blklab: path sda is lost", *of_sda, *of_sdb))
    assert warnings(log) == tuple(line for line in of_sdb if "medium" not in line)
