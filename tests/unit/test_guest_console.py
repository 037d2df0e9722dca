# SPDX-License-Identifier: GPL-2.0-only
import pytest

from lab.guest.console import READY_MARK, death, stall, warnings

QUIET = [
    "[    0.000000] Linux version 6.1.0-50-amd64 (debian-kernel@lists.debian.org)",
    "[    0.123456] x86/fpu: x87 FPU will use FXSAVE",
    "[    1.200000] null_blk: disk nullb0 created",
    "[    1.300000] scsi 2:0:1:0: Direct-Access     LIO-ORG  IBLOCK           4.0  PQ: 0 ANSI: 6",
    "[    1.400000] Unable to load target_core_pscsi",
    "[    1.500000] sd 2:0:1:0: [sda] Attached SCSI disk",
    "[    2.000000] device-mapper: ioctl: 4.47.0-ioctl (2022-07-28) initialised: dm-devel@redhat.com",
]
DEATHS = [
    "[   12.3] Kernel panic - not syncing: sysrq triggered crash",
    "[   12.3] BUG: kernel NULL pointer dereference, address: 0000000000000000",
    "[   12.3] BUG: unable to handle page fault for address: ffffffffc0000000",
    "[   12.3] Oops: 0002 [#1] PREEMPT SMP PTI",
    "[   12.3] general protection fault, probably for non-canonical address 0xdead000000000100: 0000 [#1]",
    "[   12.3] kernel BUG at block/blk-mq.c:1234!",
]
STALLS = [
    "[  245.7] INFO: task fio:123 blocked for more than 120 seconds.",
    "[   60.1] watchdog: BUG: soft lockup - CPU#0 stuck for 26s! [fio:123]",
    "[   60.1] rcu: INFO: rcu_sched self-detected stall on CPU",
    "[   60.1] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
]
WARNINGS = [
    *STALLS,
    "[   12.3] WARNING: CPU: 0 PID: 7 at block/blk-core.c:123 blk_foo+0x1/0x2",
    "[   12.3] BUG: sleeping function called from invalid context at mm/slab.h:1",
    "[   12.3] blk_update_request: I/O error, dev sda, sector 0 op 0x0:(READ) flags 0x0",
    "[   12.3] I/O error, dev sda, sector 0 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2",
    "[   12.3] Buffer I/O error on dev dm-0, logical block 0, async page read",
    "[   12.3] sd 2:0:1:0: [sda] tag#5 timing out command, waited 180s",
    "[   12.3] sd 2:0:1:0: [sda] tag#0 FAILED Result: hostbyte=DID_OK driverbyte=DRIVER_SENSE",
    "[   12.3] sd 2:0:1:0: [sda] tag#0 Sense Key : Medium Error [current]",
    "[   12.3] TARGET_CORE[loopback]: Detected ABORT_TASK for tag 12",
    "[   12.3] nvme nvme0: I/O 12 QID 1 timeout, aborting: timed out",
    "[   12.3] Out of memory: Killed process 99 (tail) total-vm:1kB",
    "[   12.3] fio: page allocation failure: order:0, mode:0x0",
]
POWER_ON = "[    3.50] sd 2:0:1:0: Power-on or device reset occurred"


def log(*lines: str) -> str:
    return "\n".join([*QUIET[:2], f"[    0.9] {READY_MARK}", *QUIET[2:], *lines])


@pytest.mark.parametrize("line", DEATHS)
def test_deaths(line: str) -> None:
    assert death([*QUIET, line, "behind"]) == line


@pytest.mark.parametrize("line", STALLS)
def test_stalls(line: str) -> None:
    assert stall([*QUIET, f"{line}  "]) == line
    assert death([line]) == ""


@pytest.mark.parametrize("line", WARNINGS)
def test_warnings(line: str) -> None:
    assert warnings(log(line)) == (line,)


def test_a_quiet_log() -> None:
    assert (death(QUIET), stall(QUIET), warnings(log())) == ("", "", ())


def test_what_the_kernel_says_before_it_is_ready_is_not_the_measurement() -> None:
    assert warnings(f"{WARNINGS[4]}\n{READY_MARK}\nquiet\n") == ()


def test_a_log_that_lost_its_beginning_hides_nothing() -> None:
    assert warnings("\n".join(WARNINGS)) == tuple(WARNINGS)


def test_disks_may_announce_themselves_during_set_up_only() -> None:
    assert warnings(log(POWER_ON), set_up=4.0) == ()
    assert warnings(log(POWER_ON), set_up=3.4) == (POWER_ON,)


def test_every_death_in_the_window_is_also_a_warning_or_a_panic() -> None:
    """A boot that says bye although the kernel oopsed must not pass."""
    for line in DEATHS[1:]:
        assert warnings(log(line)) == (line,)
