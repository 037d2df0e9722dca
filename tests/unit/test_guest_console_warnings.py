# SPDX-License-Identifier: GPL-2.0-only
"""Which lines of the kernel's log spoil a boot's figures."""

from lab.guest.console import READY_MARK, warnings

GREETING = "[    0.726987] sd 0:0:0:0: Power-on or device reset occurred"
RESET = "[   70.100000] sd 0:0:0:0: Power-on or device reset occurred"
BOOT = f"[    0.500000] WARNING: CPU: 0 PID: 1\n[    0.600000] {READY_MARK}\n"


def test_a_disk_may_announce_itself_during_set_up() -> None:
    assert warnings(BOOT + GREETING, set_up=0.73) == ()


def test_the_same_line_inside_the_window_is_a_reset() -> None:
    assert warnings(BOOT + GREETING + "\n" + RESET, set_up=0.73) == (RESET,)


def test_set_up_is_no_excuse_for_anything_else() -> None:
    line = "[    0.710000] WARNING: CPU: 0 PID: 1 at block/blk-mq.c:1"
    assert warnings(BOOT + line, set_up=0.73) == (line,)
