# SPDX-License-Identifier: GPL-2.0-only
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.base.errors import LabBroken
from lab.guest.steps import Step, job_files
from lab.guest.steps.device import (
    FAULTS,
    Daemon,
    Inject,
    LinkStep,
    MakeFolder,
    Module,
    Mount,
    NameBlock,
    TableStep,
    Write,
    device,
    sysfs,
)
from lab.guest.steps.load import Pause, Phase, RunLoad
from lab.guest.steps.setting import Confirm, Tune

EVERY: list[tuple[Step, str]] = [
    (Phase("load solo"), "phase\tload solo"),
    (Module("null_blk"), "module\tnull_blk"),
    (Module("null_blk", "nr_devices=0 bs=512"), "module\tnull_blk\tnr_devices=0 bs=512"),
    (Mount("configfs", "/sys/kernel/config"), "mount\tconfigfs\t/sys/kernel/config"),
    (MakeFolder("/a"), "mkdir\t/a"),
    (Write("/a/b", "$(x)"), "write\t/a/b\t$(x)"),
    (Write("/a/b", ""), "write\t/a/b"),
    (LinkStep("/a", "/b"), "link\t/a\t/b"),
    (Tune("queue.scheduler[p0]", "/a", "none"), "tune\tqueue.scheduler[p0]\t/a\tnone"),
    (Confirm("hba.can_queue[p0]", "/a*/b", "64"), "confirm\thba.can_queue[p0]\t/a*/b\t64"),
    (NameBlock("p0", "/sys/host*/block/*"), "block\tp0\t/sys/host*/block/*"),
    (TableStep("all", ("0 8 linear /dev/a 0",)), "dm/table\tall\tall.table"),
    (Daemon(("disk a 1 1 0",)), "diskd/start\tdiskd.conf"),
    (Pause(65_000_000_000), "pause\t65.000000"),
    (Pause(1_000), "pause\t0.000001"),
    (RunLoad("solo", "[global]\n"), "load\tsolo"),
    (Inject("oops", 1_500_000_000), "selftest/inject\toops\t1.500000"),
]


@pytest.mark.parametrize("step, line", EVERY, ids=[line.split("\t")[0] for _, line in EVERY])
def test_each_step_is_a_line(step: Step, line: str) -> None:
    assert job_files([step], deadline=9)["script"].decode() == f"{line}\n"


def test_the_files_of_a_job() -> None:
    steps: list[Step] = [
        TableStep("all", ("0 8 linear /dev/a 0", "8 8 linear /dev/b 0")),
        Daemon(("disk a 512 1 0", "backstore a a s 1")),
        RunLoad("solo", "[v]\nrw=read\n"),
    ]
    assert job_files(steps, deadline=321) == {
        "deadline": b"321\n",
        "all.table": b"0 8 linear /dev/a 0\n8 8 linear /dev/b 0\n",
        "diskd.conf": b"disk a 512 1 0\nbackstore a a s 1\n",
        "solo.fio": b"[v]\nrw=read\n",
        "script": b"dm/table\tall\tall.table\ndiskd/start\tdiskd.conf\nload\tsolo\n",
    }


def test_names_in_the_guest() -> None:
    assert (device("p0"), sysfs("p0")) == ("/lab/p0", "/lab/p0.sys")


@pytest.mark.parametrize("text", ["a\tb", "a\nb", "a\rb", "a\0b", "a\x1bb", "a\x85b", "a\u2028b", "\udcff"])
@pytest.mark.parametrize("make", [Phase, MakeFolder, lambda text: Write("/a", text), lambda text: Module("m", text)])
def test_what_cannot_be_a_field_is_refused(make: "type[Phase]", text: str) -> None:
    with pytest.raises(LabBroken, match="cannot carry"):
        job_files([make(text)], deadline=1)


@pytest.mark.parametrize("step", [Write("", "1"), LinkStep("", "/b"), Tune("", "/a", "1"), Confirm("k", "", "1")])
def test_a_field_that_the_guest_would_lose_is_refused(step: Step) -> None:
    with pytest.raises(LabBroken, match="empty field"):
        job_files([step], deadline=1)


FIELD = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z"), include_characters=" "), min_size=1)


@given(st.tuples(FIELD, FIELD, FIELD))
def test_fields_come_back_from_a_line(fields: tuple[str, str, str]) -> None:
    line = job_files([Tune(*fields)], deadline=1)["script"].decode()
    assert line.removesuffix("\n").split("\t") == ["tune", *fields]


def test_every_fault_is_one_that_the_runner_knows() -> None:
    guest = Path(__file__).parents[2] / "lab" / "guest"
    verb, runner = (guest / name for name in ("verbs/selftest.sh", "runner.sh"))
    for fault in FAULTS:
        assert f"\t{fault})" in (runner if fault.endswith("-result") else verb).read_text()
