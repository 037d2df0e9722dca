# SPDX-License-Identifier: GPL-2.0-only
"""further.sh as the runner calls it, outside a guest."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.metrics.readback import refused
from lab.base.record import INVENTORY
from lab.guest import initramfs
from lab.guest.payload import Payload, with_further_steps
from lab.guest.steps import Step
from lab.guest.steps.device import Find
from lab.guest.steps.setting import Locate, Members, Read, RouteInterrupts
from tests.process.test_guest_runner import RUNNER, Desk, desk

__all__ = ["desk"]
MARK = ". /further.sh"


@pytest.fixture
def further(desk: Desk) -> Desk:
    made = with_further_steps(Payload({"runner.sh": initramfs.regular(RUNNER.read_bytes())}, {}))
    moved = made.entries["further.sh"].data.decode()
    for there in ("/lab/", "/out/", "/proc/irq/"):
        moved = moved.replace(there, f"$DESK{there}")
    (desk.folder / "further.sh").write_text(moved)
    text = made.entries["runner.sh"].data.decode()
    assert text.count(MARK) == 1
    return replace(desk, runner=text.replace(MARK, ". ./further.sh"))


def disk(desk: Desk, place: str, name: str, wwid: str) -> Path:
    folder = desk.folder / "sys" / place / "block" / name
    folder.mkdir(parents=True)
    (folder / "size").write_text("2048\n")
    (folder.parents[1] / "wwid").write_text(f"{wwid}\n")
    return folder


def run(desk: Desk, *steps: Step) -> dict[str, str]:
    reader = desk.run(steps)
    assert reader.bye, reader.unfit
    rows = reader.files.get(INVENTORY, b"").decode().splitlines()
    return dict(row.split("\t", 1) for row in rows)


def test_a_disk_is_found_by_who_it_says_it_is(further: Desk) -> None:
    disk(further, "host0/target0:0:0/0:0:0:0", "sda", "naa.1")
    wanted = disk(further, "host0/target0:0:1/0:0:1:0", "sdb", "naa.2")
    (further.folder / "sys" / "host0" / "target0:0:1" / "unreadable" / "wwid").mkdir(parents=True)
    run(further, Find("p0", f"{further.folder}/sys/host*/target*/*/wwid", "naa.2", "block/*"))
    assert (further.folder / "lab" / "p0.sys").resolve() == wanted
    assert (further.folder / "lab" / "p0").readlink().name == "sdb"


def test_a_namespace_lies_where_its_number_is(further: Desk) -> None:
    for name, number in (("nvme0n1", "1"), ("nvme0n2", "2")):
        folder = further.folder / "sys" / "nvme0" / name
        folder.mkdir(parents=True)
        (folder / "nsid").write_text(f"{number}\n")
        (folder / "size").write_text("8\n")
    run(further, Find("b", f"{further.folder}/sys/nvme*/nvme*n*/nsid", "2", "."))
    assert (further.folder / "lab" / "b.sys").resolve().name == "nvme0n2"


def test_a_disk_that_never_comes_is_named(further: Desk) -> None:
    disk(further, "host0/target0:0:0/0:0:0:0", "sda", "naa.1")
    reader = further.run([Find("p7", f"{further.folder}/sys/host*/target*/*/wwid", "naa.7", "block/*")])
    assert "device p7: nothing that matches" in reader.unfit
    assert "reads naa.7" in reader.unfit


def test_what_sysfs_shows_is_kept(further: Desk) -> None:
    found = disk(further, "host0/target0:0:0/0:0:0:0", "sda", "naa.1")
    pattern = f"{further.folder}/sys/host*/target*/*"
    seen = run(
        further,
        Read("lun.a.wwid", f"{pattern}/wwid"),
        Read("lun.a.absent", f"{pattern}/absent"),
        Locate("lun.a.place", f"{pattern}/block/sd*"),
        Members("stack.s.members", f"{pattern}/block"),
    )
    assert seen == {"lun.a.wwid": "naa.1", "lun.a.absent": "", "lun.a.place": str(found), "stack.s.members": "sda"}


def controller(desk: Desk, *irqs: int) -> str:
    """The folder of a PCI device with message-signalled interrupts, each of which processor 0 takes."""
    for irq in irqs:
        (desk.folder / "sys" / "msi_irqs" / str(irq)).mkdir(parents=True)
        (desk.folder / "proc" / "irq" / str(irq)).mkdir(parents=True)
        (desk.folder / "proc" / "irq" / str(irq) / "smp_affinity_list").write_text("0\n")
    return str(desk.folder / "sys")


def test_every_interrupt_of_a_controller_is_routed(further: Desk) -> None:
    run(further, RouteInterrupts("hba.interrupts[mpt0]", controller(further, 24, 25), 1))
    lists = sorted((further.folder / "proc" / "irq").glob("*/smp_affinity_list"))
    assert [path.read_text() for path in lists] == ["1", "1"]


def test_a_kernel_managed_interrupt_is_recognised(further: Desk) -> None:
    where = controller(further, 24, 25)
    managed = further.folder / "proc" / "irq" / "25" / "smp_affinity_list"
    managed.unlink()
    managed.symlink_to("/dev/full")
    reader = further.run([RouteInterrupts("hba.interrupts[nvme0]", where, 1)])
    assert refused(reader.unfit, "none", "6.12.1") == "6.12.1 routes interrupt 25 of nvme0 itself"
    managed.unlink()
    managed.symlink_to("/dev/null")
    reader = further.run([RouteInterrupts("hba.interrupts[nvme0]", where, 1)])
    assert "asked for 1" in reader.unfit
    assert refused(reader.unfit, "none", "6.12.1") == ""


def test_the_runner_of_the_virtual_clock_knows_none_of_it(desk: Desk) -> None:
    assert desk.run([Read("a", "/sys/b")]).unfit == "step 1: unknown step read"
