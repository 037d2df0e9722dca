# SPDX-License-Identifier: GPL-2.0-only
"""Lines of the kernel's log that invalidate a boot's figures."""

from lab.guest.console import READY_MARK, warnings

GREETING = "[    0.726987] sd 0:0:0:0: Power-on or device reset occurred"
RESET = "[   70.100000] sd 0:0:0:0: Power-on or device reset occurred"
BOOT = f"[    0.500000] WARNING: CPU: 0 PID: 1\n[    0.600000] {READY_MARK}\n"


def test_a_disk_may_announce_itself_during_set_up() -> None:
    assert warnings(BOOT + GREETING, set_up=0.73) == ()


def test_the_same_line_inside_the_window_is_a_reset() -> None:
    assert warnings(BOOT + GREETING + "\n" + RESET, set_up=0.73) == (RESET,)


def test_only_the_named_set_up_failures_are_skips() -> None:
    line = "[    0.710000] WARNING: CPU: 0 PID: 1 at block/blk-mq.c:1"
    assert warnings(BOOT + line, set_up=0.73) == (line,)


WAKING = """\
[    0.700000] sd 0:2:0:0: [sda] Unit Not Ready
[    0.700100] sd 0:2:1:0: [sdb] Unit Not Ready
[    0.700200] sd 0:2:0:0: [sda] Sense Key : Hardware Error [current]
[    0.700300] sd 0:2:1:0: [sdb] Sense Key : Hardware Error [current]
"""
BROKEN = "[    0.710000] sd 0:2:2:0: [sdc] Sense Key : Hardware Error [current]"
LATE = "[    0.800000] sd 0:2:0:0: [sda] Sense Key : Hardware Error [current]"


def test_a_disk_may_not_be_ready_yet_during_set_up() -> None:
    assert warnings(BOOT + WAKING, set_up=0.73) == ()
    assert warnings(BOOT + WAKING + BROKEN + "\n" + LATE, set_up=0.73) == (BROKEN, LATE)
