# SPDX-License-Identifier: GPL-2.0-only
"""lockless.sh as the runner calls it, outside a guest."""

from dataclasses import replace
from pathlib import Path

import pytest

from lab.guest import initramfs
from lab.guest.payload import Payload, with_further_steps
from lab.guest.steps.device import LocklessArray
from tests.process.test_guest_runner import RUNNER, Desk, desk

__all__ = ["desk"]
MDADM = 'mdadm() { echo "mdadm $*" >>"$DESK/did"; }\n'
SUPERBLOCK = 8192
"""Bytes before a bitmap's superblock: sector 8 has that of the array, and the bitmap's is 8 sectors behind it."""


@pytest.fixture
def arrays(desk: Desk) -> Desk:
    """A desk whose mdadm makes nothing: what an array has in sysfs is there, and two members of 16 KiB."""
    made = with_further_steps(
        Payload({"runner.sh": initramfs.regular(RUNNER.read_bytes())}, {}), "lockless.sh", "lockless", ("dd",)
    )
    assert made.entries["bin/dd"] == initramfs.symlink("busybox")
    text = {name: made.entries[name].data.decode() for name in ("runner.sh", "lockless.sh")}
    moved = text["lockless.sh"]
    for there in ("/lab/", "/out/", "/sys/"):
        moved = moved.replace(there, f"$DESK{there}")
    (desk.folder / "lockless.sh").write_text(moved)
    for folder in ("module/md_mod/parameters", "block/md0/md/bitmap", "block/md0/md/llbitmap"):
        (desk.folder / "sys" / folder).mkdir(parents=True)
    md = attributes(desk)
    (md / "bitmap/location").write_text("+8\n")
    (md / "llbitmap/bits").write_text("unwritten 0\n")
    (md / "metadata_version").write_text("none\n")
    for number, name in enumerate(("d0", "d1")):
        (desk.folder / "lab" / name).write_bytes(b"\xff" * 16384)
        (desk.folder / "lab" / f"{name}.sys").mkdir()
        (desk.folder / "lab" / f"{name}.sys/dev").write_text(f"252:{number}\n")
    return replace(desk, runner=MDADM + text["runner.sh"].replace(". /lockless.sh", ". ./lockless.sh"))


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
    assert "array m: it has no lockless bitmap" in arrays.run([array(arrays)]).unfit


def test_what_the_kernel_refuses_is_named(arrays: Desk) -> None:
    (attributes(arrays) / "bitmap_type").symlink_to("/dev/full")
    unfit = arrays.run([array(arrays)]).unfit
    assert "write llbitmap to " in unfit
    assert "bitmap_type" in unfit


def test_the_runner_of_other_guests_knows_none_of_it(desk: Desk) -> None:
    assert desk.run([array(desk)]).unfit == "step 1: unknown step lockless"
