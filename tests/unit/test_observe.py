# SPDX-License-Identifier: GPL-2.0-only
"""Every outcome of lab.base.record.Outcome, from what the two channels said and how QEMU ended."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from lab.base.digest import digest_results
from lab.base.record import BootRecord, Outcome
from lab.observe import Observer
from lab.qemu.machine import Channel, Ending, Note, Reason
from tests.unit.guest_samples import FILES, GREETING, PHASES, file_lines, sent, transcript

PANIC = "[   12.3] Kernel panic - not syncing: Fatal exception"
HUNG = "[  363.508675] Kernel panic - not syncing: hung_task: blocked tasks"
KILLED = "[    2.982013] Out of memory: Killed process 111 (fio) total-vm:214916kB, anon-rss:1012kB"
NOTHING_LEFT = "[    0.9] Kernel panic - not syncing: System is deadlocked on memory"
OF_GROUP = "[    9.1] Memory cgroup out of memory: Killed process 111 (fio)"
BLOCKED = "[  245.7] INFO: task fio:123 blocked for more than 120 seconds."


def ended(reason: Reason = Reason.EXITED, *, returncode: int = 0) -> Ending:
    return Ending(returncode, reason, wall=12.0, stderr="qemu: its last words\n")


CUT = ended(Reason.DEADLINE, returncode=-15)


def observed(
    results: Sequence[str], console: Sequence[str] = (), ending: Ending | None = None, doubt: str = ""
) -> BootRecord:
    seen: list[str] = []
    observer = Observer(seen.append, doubt)
    for text in console:
        observer.line(Channel.CONSOLE, text)
    for text in results:
        observer.line(Channel.RESULTS, text)
    return observer.record(Path("folder"), ending or ended(), {"kernel": "k"})


@pytest.mark.parametrize(("console", "ending"), [([PANIC], ended()), ([], CUT)])
def test_a_death_that_qemu_may_have_caused_is_not_a_kernel_failure(console: Sequence[str], ending: Ending) -> None:
    plain = observed([*GREETING, *PHASES], console, ending)
    doubted = observed([*GREETING, *PHASES], console, ending, doubt="this QEMU does that")
    assert plain.outcome in (Outcome.OOPS, Outcome.HANG)
    assert doubted.outcome is Outcome.DOUBTFUL
    assert doubted.detail == f"{plain.detail}; this QEMU does that"
    assert observed(transcript(), [], doubt="this QEMU does that").outcome is Outcome.BYE
    assert observed([], [PANIC], doubt="this QEMU does that").outcome is Outcome.NOT_READY


ODD = "UNFIT 4 differs\tk\ta\t/f\tb"
RESULTS: list[tuple[str, Sequence[str], Sequence[str], Ending, Outcome, str]] = [
    ("bye", transcript(), [], ended(), Outcome.BYE, ""),
    ("bye, then QEMU crashed", transcript(), [], ended(returncode=-11), Outcome.BYE, ""),
    ("bye, then it hung", transcript(), [], CUT, Outcome.BYE, ""),
    ("silence", [], [], CUT, Outcome.LATE, "not ready after 12 s (deadline); its console is empty"),
    ("no root", [], ["Linux", PANIC, ""], ended(), Outcome.NOT_READY, f"its console ends with: {PANIC}"),
    ("slow", [], ["Linux", "Freeing memory", " "], CUT, Outcome.LATE, "ends with: Freeing memory"),
    ("early hang", [], ["Linux", BLOCKED], CUT, Outcome.NOT_READY, f"ends with: {BLOCKED}"),
    ("early panic that did not end", [], [PANIC], CUT, Outcome.NOT_READY, f"ends with: {PANIC}"),
    ("early exit", [], ["Linux"], ended(), Outcome.NOT_READY, "(exited)"),
    ("early flood", [], ["x"] * 9, ended(Reason.FLOOD), Outcome.NOT_READY, "(flood)"),
    ("cut in the greeting by a panic", ["BLKLAB 2", "REA"], [PANIC], ended(), Outcome.NOT_READY, PANIC),
    ("panic", GREETING, [PANIC], ended(), Outcome.OOPS, PANIC),
    ("panic within a file", [*GREETING, *file_lines("a", b"x" * 99)[:2]], [PANIC], ended(), Outcome.OOPS, PANIC),
    ("panic that did not end", GREETING, [PANIC], CUT, Outcome.OOPS, PANIC),
    ("panic of a hung task", [*GREETING, *PHASES], [HUNG], ended(), Outcome.HANG, HUNG),
    ("oops, then unfit", [*GREETING, "UNFIT 1 unknown\tx", *sent(FILES)], [PANIC], ended(), Outcome.OOPS, PANIC),
    ("no memory", [*GREETING, *PHASES], [KILLED], ended(Reason.WATCH, returncode=-15), Outcome.NO_MEMORY, KILLED),
    ("no memory, then a panic", GREETING, [KILLED, PANIC], ended(), Outcome.NO_MEMORY, "give it more (memory in its"),
    ("no memory before ready", [], [NOTHING_LEFT], ended(), Outcome.NO_MEMORY, NOTHING_LEFT),
    ("no memory, a program died", [*GREETING, "BROKEN diskd\t137"], [KILLED], ended(), Outcome.NO_MEMORY, KILLED),
    ("a limit of a cgroup", [*GREETING, *PHASES], [OF_GROUP], CUT, Outcome.HANG, "no end of phase load solo"),
    ("hang", [*GREETING, *PHASES], [], CUT, Outcome.HANG, "no end of phase load solo"),
    ("hang with a blocked task", [*GREETING, *PHASES], [BLOCKED], CUT, Outcome.HANG, f"load solo; {BLOCKED}"),
    ("the guest's deadline", [*GREETING, *PHASES, "DEADLINE"], [], ended(), Outcome.HANG, "no end of phase load solo"),
    ("deadline in set-up", [*GREETING, "DEADLINE"], [], ended(), Outcome.HANG, "no end of phase set-up"),
    ("flood", [*GREETING, *PHASES], ["x"] * 9, ended(Reason.FLOOD), Outcome.HANG, "the console was flooded"),
    ("unfit", [*GREETING, ODD, *sent(FILES)], [], ended(), Outcome.UNFIT, "step 4: k: asked for a, /f reads b"),
    ("unfit, then the deadline", [*GREETING, ODD, *sent(FILES)], [], CUT, Outcome.UNFIT, "step 4: k: asked for a"),
    ("noise", ["noise"], [], ended(), Outcome.GARBLED, "expected BLKLAB 2, got 'noise'"),
    ("another version", ["BLKLAB 3", GREETING[1]], [], ended(), Outcome.GARBLED, "expected BLKLAB 2"),
    ("a reboot without bye", transcript()[:-1], [], ended(), Outcome.GARBLED, "the channel ended before BYE"),
    ("a reboot in a file", [*GREETING, *file_lines("a", b"x")], [], ended(), Outcome.GARBLED, "ended inside file a"),
    ("a wrong file", [*GREETING, "FILE x"], [], ended(), Outcome.GARBLED, "unexpected line 'FILE x'"),
    ("unfit and cut", [*GREETING, ODD, *sent(FILES)[:-1]], [], ended(), Outcome.GARBLED, "ended inside file"),
    ("unfit and garbled", [*GREETING, ODD, "noise"], [], ended(), Outcome.GARBLED, "unexpected line 'noise'"),
    ("killed", [*GREETING], [], ended(returncode=-9), Outcome.LOST, "killed by signal 9: qemu: its last"),
    ("killed early", [], [], ended(returncode=-9), Outcome.LOST, "killed by signal 9"),
    ("QEMU failed", [*GREETING], [], ended(returncode=1), Outcome.LOST, "QEMU ended with 1: qemu: its last words"),
    ("stopped", [*GREETING], [], ended(Reason.ABORTED, returncode=-15), Outcome.LOST, "by request"),
    ("no runner", [*GREETING, "BROKEN runner\t137"], [], ended(), Outcome.LOST, "runner ended with 137"),
]


@pytest.mark.parametrize(
    "results, console, ending, outcome, detail", [r[1:] for r in RESULTS], ids=[r[0] for r in RESULTS]
)
def test_outcomes(
    results: Sequence[str], console: Sequence[str], ending: Ending, outcome: Outcome, detail: str
) -> None:
    record = observed(results, console, ending)
    assert record.outcome is outcome, record.detail
    assert detail in record.detail
    assert bool(record.unfit) is (outcome is Outcome.UNFIT)
    assert (record.digest is not None) is (outcome is Outcome.BYE)


def test_every_outcome_is_in_the_table() -> None:
    assert {row[4] for row in RESULTS} == set(Outcome) - {Outcome.DOUBTFUL}


def test_a_complete_boot_has_a_digest_even_of_an_unreadable_document() -> None:
    record = observed(transcript())
    assert (record.folder, record.fingerprint) == (Path("folder"), {"kernel": "k"})
    assert record.files == FILES
    assert record.digest == digest_results(FILES)
    assert record.warnings == ()
    assert record.virtual == {"boot": 0.83, "setup": 0.27, "measure": 69.4, "send": 0.75}
    assert record.wall.keys() == record.virtual.keys()
    assert 0 <= sum(record.wall.values()) < 12.0, "time after the end belongs to no phase"
    record = observed(transcript({"solo.json": b'{"iops": NaN}', "kmsg": b"\xff\x00"}))
    assert (record.outcome, record.digest is None) == (Outcome.BYE, False)


def test_a_boot_that_never_came_up_has_one_phase_and_no_result_from_its_console() -> None:
    record = observed([], ending=CUT)
    assert (record.wall, record.virtual) == ({"boot": 12.0}, {"boot": 0.0})
    assert observed([], transcript()).outcome is Outcome.NOT_READY


def test_warnings_are_those_of_the_kernel_s_own_log_from_the_first_rest_on() -> None:
    log = b"[ 0.1] I/O error, dev sda\n[ 0.8] blklab: ready\n[ 9.9] I/O error, dev sdb\n"
    assert observed(transcript({"kmsg": log}), [BLOCKED]).warnings == ("[ 9.9] I/O error, dev sdb",)
    rows = [f"[    {at}] sd 2:0:1:0: Power-on or device reset occurred" for at in ("1.05", "1.20")]
    log = "\n".join(["blklab: ready", *rows]).encode()
    assert observed(transcript({"kmsg": log})).warnings == (rows[1],)


def test_a_guest_without_memory_is_stopped_at_once() -> None:
    """What is left of it may stall for minutes, or die in a way that looks like a fault of the kernel."""
    observer = Observer(lambda _: None)
    assert [observer.line(Channel.CONSOLE, text) for text in (BLOCKED, OF_GROUP, KILLED, KILLED)] == [
        None, None, Note.STOP, None
    ]  # fmt: skip


def test_ready_is_noted_once_and_phases_are_reported() -> None:
    seen: list[str] = []
    observer = Observer(seen.append)
    notes = [observer.line(Channel.RESULTS, f"{text}\r") for text in transcript()]
    assert [note for note in notes if note] == [Note.READY, Note.DONE]
    assert notes[1] is Note.READY
    assert seen == ["set-up", "rest", "load solo", "send", "end"]
    assert observer.line(Channel.CONSOLE, "BYE") is None
