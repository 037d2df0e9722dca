# SPDX-License-Identifier: GPL-2.0-only
"""paths.sh as the runner calls it, outside a guest, behind the other scripts that a guest may have."""

from dataclasses import replace
from pathlib import Path

import pytest

from lab.guest import initramfs
from lab.guest.payload import Payload, with_further_steps
from lab.guest.steps.device import NameBlock
from lab.guest.steps.load import Meanwhile, Message, PathMark, Pause
from lab.guest.steps.setting import PathState
from tests.process.test_guest_runner import RUNNER, Desk, desk

__all__ = ["desk"]
NAP = 10**9
"""Long enough for the steps in the background."""


@pytest.fixture
def lossy(desk: Desk) -> Desk:
    made = with_further_steps(Payload({"runner.sh": initramfs.regular(RUNNER.read_bytes())}, {}), "layers.sh")
    made = with_further_steps(made, "paths.sh", "paths")
    text = {name: made.entries[name].data.decode() for name in ("runner.sh", "further.sh", "paths.sh")}
    for name in ("further.sh", "paths.sh"):
        moved = text[name].replace(f". /{'paths.sh'}", ". ./paths.sh")
        for there in ("/lab/", "/out/", "/job/", "/dev/kmsg"):
            moved = moved.replace(there, f"$DESK{there}")
        (desk.folder / name).write_text(moved)
    (desk.folder / "dev").mkdir(exist_ok=True)
    # A guest that reboots ends all of its processes.
    reboot = "trap 'exit 9' TERM\nreboot() { kill -TERM $$; exit; }\n"
    return replace(desk, runner=reboot + text["runner.sh"].replace(". /further.sh", ". ./further.sh"))


def disk(desk: Desk) -> tuple[NameBlock, Path]:
    folder = desk.folder / "sys" / "block" / "sda"
    (folder / "device").mkdir(parents=True)
    state = folder / "device" / "state"
    state.write_text("running\n")
    return NameBlock("p0", str(folder)), state


def test_steps_are_carried_out_meanwhile_and_read_back(lossy: Desk) -> None:
    named, state = disk(lossy)
    steps = (PathMark("p0", "lost"), PathState("path[p0]", str(state), "offline"), Message("two", "fail_path /lab/p0"))
    lossy.run([named, Meanwhile("solo", tuple((1, step) for step in steps)), Pause(NAP)], naps=True)
    assert state.read_text() == "offline\n"
    assert (lossy.folder / "dev" / "kmsg").read_text() == "blklab: path sda is lost\n"
    assert f"path[p0]\t{state}\toffline" in (lossy.folder / "out" / "readback").read_text()
    assert "dmsetup message two 0 fail_path /lab/p0" in (lossy.folder / "did").read_text()


def test_a_path_that_does_not_go_is_told(lossy: Desk) -> None:
    named, state = disk(lossy)
    state.unlink()
    steps = [named, Meanwhile("solo", ((1, PathState("path[p0]", str(state), "offline")),)), Pause(10 * NAP)]
    reader = lossy.run(steps, naps=True)
    assert "path[p0]: nothing matches" in reader.unfit
