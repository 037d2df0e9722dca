# SPDX-License-Identifier: GPL-2.0-only
"""The verbs of files of their own, as the runner calls them, outside a guest."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.figures.read import refused
from lab.base.record import INVENTORY
from lab.guest.steps import Step
from lab.guest.steps.device import Find, LinkStep, LocklessArray, NameBlock
from lab.guest.steps.load import Meanwhile, Message, PathMark, Pause
from lab.guest.steps.setting import Confirm, Counters, Locate, Members, PathState, Read, RouteInterrupts
from tests.process.test_guest_runner import Desk, desk

__all__ = ["desk"]


def disk(desk: Desk, place: str, name: str, wwid: str) -> Path:
    folder = desk.folder / "sys" / place / "block" / name
    folder.mkdir(parents=True)
    (folder / "size").write_text("2048\n")
    (folder.parents[1] / "wwid").write_text(f"{wwid}\n")
    return folder


def inventory(desk: Desk, *steps: Step) -> dict[str, str]:
    reader = desk.run(steps)
    assert reader.bye, reader.unfit
    rows = reader.files.get(INVENTORY, b"").decode().splitlines()
    return dict(row.split("\t", 1) for row in rows)


def test_a_disk_is_found_by_who_it_says_it_is(desk: Desk) -> None:
    disk(desk, "host0/target0:0:0/0:0:0:0", "sda", "naa.1")
    wanted = disk(desk, "host0/target0:0:1/0:0:1:0", "sdb", "naa.2")
    (desk.folder / "sys" / "host0" / "target0:0:1" / "unreadable" / "wwid").mkdir(parents=True)
    inventory(desk, Find("p0", f"{desk.folder}/sys/host*/target*/*/wwid", "naa.2", "block/*"))
    assert (desk.folder / "lab" / "p0.sys").resolve() == wanted
    assert (desk.folder / "lab" / "p0").readlink().name == "sdb"


def test_a_namespace_lies_where_its_number_is(desk: Desk) -> None:
    for name, number in (("nvme0n1", "1"), ("nvme0n2", "2")):
        folder = desk.folder / "sys" / "nvme0" / name
        folder.mkdir(parents=True)
        (folder / "nsid").write_text(f"{number}\n")
        (folder / "size").write_text("8\n")
    inventory(desk, Find("b", f"{desk.folder}/sys/nvme*/nvme*n*/nsid", "2", "."))
    assert (desk.folder / "lab" / "b.sys").resolve().name == "nvme0n2"


def test_a_disk_that_never_comes_is_named(desk: Desk) -> None:
    disk(desk, "host0/target0:0:0/0:0:0:0", "sda", "naa.1")
    pattern = f"{desk.folder}/sys/host*/target*/*/wwid"
    assert desk.run([Find("p7", pattern, "naa.7", "block/*")]).unfit == ("unread", "device p7", pattern, "naa.7")


def test_what_sysfs_shows_is_kept(desk: Desk) -> None:
    found = disk(desk, "host0/target0:0:0/0:0:0:0", "sda", "naa.1")
    pattern = f"{desk.folder}/sys/host*/target*/*"
    seen = inventory(
        desk,
        Read("lun.a.wwid", f"{pattern}/wwid"),
        Read("lun.a.absent", f"{pattern}/absent"),
        Locate("lun.a.place", f"{pattern}/block/sd*"),
        Members("stack.s.members", f"{pattern}/block"),
    )
    assert seen == {"lun.a.wwid": "naa.1", "lun.a.absent": "", "lun.a.place": str(found), "stack.s.members": "sda"}


def test_counters_of_an_idle_queue_are_read_until_they_are_zero(desk: Desk) -> None:
    """A request ends while they are read; wbt's counter stays at -1."""
    folder = disk(desk, "host0/target0:0:0/0:0:0:0", "sda", "naa.1")
    (folder / "inflight").write_text("       0        1\n")
    for name, text in ("rqos/wbt/inflight", "0: inflight -1\n1: inflight 0\n"), ("hctx0/tags", "nr_tags=4\nbusy=0\n"):
        file = desk.folder / "sys" / "kernel" / "debug" / "block" / "sda" / name
        file.parent.mkdir(parents=True)
        file.write_text(text)
    ends = replace(desk, stubs=f'sleep() {{ echo "       0        0" >"{folder}/inflight"; }}\nmount() {{ :; }}\n')
    assert inventory(ends, Counters("idle.a", str(folder))) == {
        "idle.a": "inflight=0 inflight=0 wbt.inflight=-1 wbt.inflight=0 tags.busy=0"
    }


def controller(desk: Desk, *irqs: int) -> str:
    """The folder of a PCI device with message-signalled interrupts, each of which processor 0 takes."""
    for irq in irqs:
        (desk.folder / "sys" / "msi_irqs" / str(irq)).mkdir(parents=True)
        (desk.folder / "proc" / "irq" / str(irq)).mkdir(parents=True)
        (desk.folder / "proc" / "irq" / str(irq) / "smp_affinity_list").write_text("0\n")
    return str(desk.folder / "sys")


def test_every_interrupt_of_a_controller_is_routed(desk: Desk) -> None:
    inventory(desk, RouteInterrupts("hba.interrupts[mpt0]", controller(desk, 24, 25), 1))
    lists = sorted((desk.folder / "proc" / "irq").glob("*/smp_affinity_list"))
    assert [path.read_text() for path in lists] == ["1", "1"]


def test_a_kernel_managed_interrupt_is_recognised(desk: Desk) -> None:
    where = controller(desk, 24, 25)
    managed = desk.folder / "proc" / "irq" / "25" / "smp_affinity_list"
    managed.unlink()
    managed.symlink_to("/dev/full")
    reader = desk.run([RouteInterrupts("hba.interrupts[nvme0]", where, 1)])
    assert refused(reader.unfit, "none", "6.12.1") == "6.12.1 routes interrupt 25 of nvme0 itself"
    managed.unlink()
    managed.symlink_to("/dev/null")
    reader = desk.run([RouteInterrupts("hba.interrupts[nvme0]", where, 1)])
    assert reader.unfit == ("differs", "hba.interrupts[nvme0]", "1", str(managed), "")
    assert refused(reader.unfit, "none", "6.12.1") == ""


MDADM = 'mdadm() { echo "mdadm $*" >>"$DESK/did"; }\n'
SUPERBLOCK = 8192
"""Bytes before a bitmap's superblock: sector 8 has that of the array, and the bitmap's is 8 sectors behind it."""


@pytest.fixture
def arrays(desk: Desk) -> Desk:
    """A desk whose mdadm makes nothing: what an array has in sysfs is there, and two members of 16 KiB."""
    for folder in ("module/md_mod/parameters", "block/md0/md/bitmap", "block/md0/md/llbitmap"):
        (desk.folder / "sys" / folder).mkdir(parents=True)
    (desk.folder / "sys/module/md_mod/parameters/new_array").touch()
    md = attributes(desk)
    for name in ("new_dev", "bitmap_type", "array_state"):
        (md / name).touch()
    (md / "bitmap/location").write_text("+8\n")
    (md / "llbitmap/bits").write_text("unwritten 0\n")
    (md / "metadata_version").write_text("none\n")
    for number, name in enumerate(("d0", "d1")):
        (desk.folder / "lab" / name).write_bytes(b"\xff" * 16384)
        (desk.folder / "lab" / f"{name}.sys").mkdir()
        (desk.folder / "lab" / f"{name}.sys/dev").write_text(f"252:{number}\n")
    return replace(desk, stubs=MDADM)


def attributes(desk: Desk) -> Path:
    return desk.folder / "sys/block/md0/md"


def array(desk: Desk, *options: str) -> LocklessArray:
    return LocklessArray("m", 0, " ".join((*options, f"{desk.folder}/lab/d0", f"{desk.folder}/lab/d1")))


@pytest.mark.parametrize(("option", "state"), [("--assume-clean", 0b11000), ("--size=8M", 0b01000)])
def test_superblocks_ask_for_a_new_lockless_bitmap(option: str, state: int, arrays: Desk) -> None:
    reader = arrays.run([array(arrays, option)])
    assert reader.bye, reader.unfit
    expected = bytearray(b"\xff" * 16384)
    expected[SUPERBLOCK + 4 : SUPERBLOCK + 8] = (6).to_bytes(4, "little")
    expected[SUPERBLOCK + 48 : SUPERBLOCK + 52] = state.to_bytes(4, "little")
    for name in ("d0", "d1"):
        assert (arrays.folder / "lab" / name).read_bytes() == expected


def test_the_array_is_stopped_and_assembled_with_that_type(arrays: Desk) -> None:
    assert arrays.run([array(arrays, "--bitmap=internal")]).bye
    created, stopped = arrays.did()
    assert created.startswith("mdadm --create /dev/md0 --run --metadata=1.2 --bitmap=internal ")
    assert stopped == "mdadm --stop /dev/md0"
    written = {name: (attributes(arrays) / name).read_text() for name in ("metadata_version", "new_dev", "bitmap_type")}
    assert written == {"metadata_version": "1.2", "new_dev": "252:1", "bitmap_type": "llbitmap"}
    assert (attributes(arrays) / "array_state").read_text() == "active"
    assert (arrays.folder / "sys/module/md_mod/parameters/new_array").read_text() == "md0"
    assert (arrays.folder / "lab/m.sys").resolve() == attributes(arrays).parent


def test_an_array_without_the_bitmap_is_unfit(arrays: Desk) -> None:
    (attributes(arrays) / "llbitmap/bits").unlink()
    assert arrays.run([array(arrays)]).unfit[:2] == ("absent", "array m")


def test_what_the_kernel_refuses_is_named(arrays: Desk) -> None:
    bitmap = attributes(arrays) / "bitmap_type"
    bitmap.unlink()
    bitmap.symlink_to("/dev/full")
    assert arrays.run([array(arrays)]).unfit == ("refused", "array m", "llbitmap", str(bitmap))


def pausing(desk: Desk, until: str) -> Desk:
    """A desk whose pauses of a second or more last ``until`` a command succeeds, and that, as a guest that reboots,
    ends all of its processes.
    """
    pause = f'sleep() {{ [ "${{1%%.*}}" = 0 ] || until {until}; do command sleep 0.05; done; }}\n'
    return replace(desk, stubs=f"{pause}trap 'exit 9' TERM\nreboot() {{ kill -TERM $$; exit; }}\n")


def path(desk: Desk) -> tuple[NameBlock, Path]:
    folder = desk.folder / "sys" / "block" / "sda"
    (folder / "device").mkdir(parents=True)
    state = folder / "device" / "state"
    state.write_text("running\n")
    return NameBlock("p0", str(folder)), state


FIO = """\
EPOCHREALTIME=5.250000
busybox() {
	case $1 in
	pidof) echo "$$ $$ $$" ;;
	*) echo "busybox $*" | sed "s/[0-9]*$/PID/" >>"$DESK/did" ;;
	esac
}
"""
"""Three tasks of fio, of which one is a job's."""


def test_steps_are_carried_out_meanwhile_and_read_back(desk: Desk) -> None:
    lossy = pausing(desk, 'grep -q fail_path "$DESK/did"')
    lossy = replace(lossy, stubs=lossy.stubs + FIO)
    (desk.folder / "did").touch()
    named, state = path(lossy)
    steps = (PathMark("p0", "lost"), PathState("path[p0]", str(state), "offline"), Message("two", "fail_path /lab/p0"))
    lossy.run([named, Meanwhile("solo", 1, tuple((1000, step) for step in steps)), Pause(10**9)])
    assert state.read_text() == "offline\n"
    assert (lossy.folder / "dev" / "kmsg").read_text() == "blklab: path sda is lost\n"
    assert f"path[p0]\t{state}\toffline" in (lossy.folder / "out" / "readback").read_text()
    assert "dmsetup message two 0 fail_path /lab/p0" in (lossy.folder / "did").read_text()


def test_steps_of_a_cpu_are_carried_out_on_it(desk: Desk) -> None:
    bound = replace(desk, stubs=FIO)
    constant, done = (str(desk.folder / name) for name in ("constant", "done"))
    Path(constant).write_text("Linux\n")
    bound.run([Meanwhile("solo", 1, ((0, LinkStep(constant, done)),), 1), Confirm("done", done, "Linux")])
    assert (desk.folder / "did").read_text() == "busybox taskset -pc 1 PID\n"


def test_what_is_late_is_waited_for(desk: Desk) -> None:
    """What is carried out meanwhile is read back, and results are sent next."""
    until = 'until [ -L "$DESK/after" ]; do command sleep 0.05; done'
    sleep = f'sleep() {{ [ "${{1%%.*}}" = 0 ] || {until}; command sleep 0.01; }}\n'
    late = replace(desk, stubs=FIO + sleep)
    named, state = path(late)
    (late.folder / "constant").write_text("Linux\n")
    done, after = (str(late.folder / name) for name in ("done", "after"))
    timed = (PathState("path[p0]", str(state), "offline"), LinkStep(str(late.folder / "constant"), done))
    steps = [named, Meanwhile("solo", 1, tuple((2 * 10**9, step) for step in timed)), LinkStep(done, after)]
    reader = late.run([*steps, Confirm("done", done, "Linux")])
    assert reader.bye and f"path[p0]\t{state}\toffline".encode() in reader.files["readback"]


def test_an_event_waits_for_its_time_since_fio_let_the_jobs_begin(desk: Desk) -> None:
    waits = replace(desk, stubs=FIO + 'sleep() { echo "$1" >>"$DESK/did"; }\n')
    (desk.folder / "constant").write_text("Linux\n")
    first, last = (LinkStep(str(desk.folder / "constant"), str(desk.folder / name)) for name in ("first", "last"))
    waits.run([Meanwhile("solo", 1, ((0, first), (1_500_007_000, last))), Confirm("last", last.path, "Linux")])
    # Besides those of path/meanwhile, and of the main script, which waits for a file.
    look, fio, left = (wait for wait in (desk.folder / "did").read_text().split() if wait not in ("0", "0.01"))
    assert (look, fio) == ("0.001", "0.106") and 1 < float(left) <= 1.500007


def test_a_path_that_does_not_go_is_told(desk: Desk) -> None:
    lossy = pausing(desk, "false")
    lossy = replace(lossy, stubs=lossy.stubs + FIO)
    named, state = path(lossy)
    state.unlink()
    steps = [named, Meanwhile("solo", 1, ((1000, PathState("path[p0]", str(state), "offline")),)), Pause(10**9)]
    assert lossy.run(steps).unfit == ("absent", "path[p0]", str(state))
