# SPDX-License-Identifier: GPL-2.0-only
"""Deaths, stalls and warnings in the kernel's log. The console is evidence, never a result."""

import re
from collections.abc import Collection, Iterable, Iterator

READY_MARK = "blklab: ready"

_DEATHS = re.compile(
    r"Kernel panic - not syncing|Oops: |BUG: unable to handle|BUG: kernel NULL pointer|general protection fault"
    r"|Internal error: |kernel BUG at |double fault"
)
# mm/oom_kill.c, 4.4 to 7.2; a limit of a cgroup reads "Memory cgroup out of memory".
_NO_MEMORY = re.compile(r"Out of memory(?: and no killable processes|: )|System is deadlocked on memory")
# kernel/hung_task.c panics because the guest's init asks for it.
_HUNG = re.compile(r"Kernel panic - not syncing: hung_task: blocked tasks")
_STALLS = re.compile(r"blocked for more than [0-9]+ seconds|soft lockup|self-detected stall|detected stalls on")
_WARNINGS = re.compile(
    r"WARNING: |BUG: |INFO: .*stall|I/O error|timing out command|timed out|Medium Error|Hardware Error"
    r"|Sense Key|scsi_eh|SCSI error|FAILED Result|device reset|bus reset|host reset|hung_task|lockup"
    r"|blocked for more than|Out of memory|page allocation failure|ABORT_TASK"
)
# The unit attention of a SCSI disk at its first command, and the answer of QEMU's megasas to the first
# TEST UNIT READY of a logical drive (hw/scsi/megasas.c does not implement it).
_GREETING = re.compile(
    r"\[\s*([0-9]+\.[0-9]+)\] .*(?:Power-on or device reset occurred|(\[\w+\]) Sense Key : Hardware Error)"
)
# Marks of lab/guest/verbs/path.sh.
_PATH = re.compile(r"blklab: path (\S+) is (lost|back)$")
# A mark of lab/guest/verbs/act.sh: a LUN that is scanned again reports that it was powered on.
_DELETED = re.compile(r"blklab: (\S+) is deleted$")
_POWER_ON = re.compile(r"(?:scsi|sd) (\S+): Power-on or device reset occurred")
_FAILED_ON = re.compile(r"error, dev (\S+), |\[(sd\w+)\] |I/O error on dev (\S+), ")
_NOT_READY = re.compile(r"(\[\w+\]) Unit Not Ready")


def death(lines: Iterable[str]) -> str:
    """The first line with a fatal error of the kernel, or an empty string."""
    return next((line.strip() for line in lines if _DEATHS.search(line)), "")


def out_of_memory(line: str) -> bool:
    """Whether the guest ended a process, or itself, for want of memory: what it does afterwards says nothing."""
    return bool(_NO_MEMORY.search(line))


def is_hang(death: str) -> bool:
    """Whether a fatal error only reports a task that made no progress."""
    return bool(_HUNG.search(death))


def stall(lines: Iterable[str]) -> str:
    """The first line that reports a stuck task or CPU, or an empty string."""
    return next((line.strip() for line in lines if _STALLS.search(line)), "")


def warnings(log: str, set_up: float = 0.0) -> tuple[str, ...]:
    """Lines after the ready mark of a kernel log that make the boot's figures invalid.

    ``set_up`` is the uptime in seconds at which set-up ended: before it, disks may report that they were powered on
    or are not ready yet. I/O errors that are wanted do not count (PathMark), nor a LUN that was deleted and is
    powered on. A log without the mark lost its beginning (the kernel's buffer wrapped): all lines count.
    """
    before, mark, behind = log.partition(READY_MARK)
    if not mark:
        behind = before
    # Disks are probed in parallel, so the lines of one disk are not always adjacent.
    waking = frozenset(_NOT_READY.findall(behind))
    return tuple(
        line.strip()
        for line in _unexpected(behind.splitlines())
        if (_WARNINGS.search(line) or _DEATHS.search(line)) and not _greeting(line, set_up, waking)
    )


def _unexpected(lines: Iterable[str]) -> Iterator[str]:
    """The lines without I/O errors of paths between the marks that say that they are lost and back, and without the
    first that a LUN reports behind the mark that it is deleted."""
    lost, deleted = set[str](), set[str]()
    for line in lines:
        if gone := _DELETED.search(line.rstrip()):
            deleted.add(gone[1])
        if (powered := _POWER_ON.search(line)) and powered[1] in deleted:
            deleted.remove(powered[1])
            continue
        if mark := _PATH.search(line.rstrip()):
            (lost.add if mark[2] == "lost" else lost.discard)(mark[1])
        failed = _FAILED_ON.search(line)
        if not failed or lost.isdisjoint(failed.groups()):
            yield line


def _greeting(line: str, set_up: float, waking: Collection[str]) -> bool:
    match = _GREETING.search(line)
    if match is None or float(match[1]) > set_up:
        return False
    return match[2] is None or match[2] in waking
