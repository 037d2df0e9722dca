# SPDX-License-Identifier: GPL-2.0-only
"""What a guest says: the protocol of its results, and its console."""

import hashlib
import shlex
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.guest import protocol
from lab.guest.console import READY_MARK, death, stall, warnings
from lab.guest.protocol import MAX_FILE, SENTENCES, PhaseMark, ResultReader
from tests.unit.guest_samples import FILES, GREETING, PHASES, file_lines, sent, transcript

GUEST = Path(protocol.__file__).parent
WORDS = ("BLKLAB 2", "READY", "PHASE", "UNFIT", "FILE", "END", "BYE", "DEADLINE", "BROKEN")


def read(lines: Iterable[str]) -> ResultReader:
    reader = ResultReader()
    for line in lines:
        reader.feed(line)
    reader.finish()
    return reader


def test_a_complete_transcript_with_line_noise_before_it() -> None:
    reader = read(transcript())
    assert (reader.bye, reader.fault, reader.unfit, reader.release) == (True, "", (), "6.1.0-50-amd64")
    assert reader.files == FILES
    assert reader.phases == [
        PhaseMark("set-up", 0.83),
        PhaseMark("rest", 1.1),
        PhaseMark("load solo", 66.12),
        PhaseMark("send", 70.5),
        PhaseMark("end", 71.25),
    ]
    assert read(["", "", *transcript()]).bye


def test_phases_and_readiness_are_told_as_they_come() -> None:
    reader = ResultReader()
    marks = [reader.feed(line) for line in transcript({})]
    assert [mark.name for mark in marks if mark] == ["set-up", "rest", "load solo", "send", "end"]
    reader = ResultReader()
    assert not reader.ready
    for line in GREETING:
        reader.feed(line)
    assert reader.ready


@pytest.mark.parametrize("size", [0, 1, 2, 3, 56, 57, 58, 100_000])
def test_files_of_every_length(size: int) -> None:
    data = bytes(number % 251 for number in range(size))
    assert read(transcript({"blob": data})).files == {"blob": data}


def test_data_that_looks_like_a_word_of_the_protocol_is_data() -> None:
    data = b"\x14\x82\xc4"
    assert file_lines("blob", data)[1] == "FILE"
    assert read(transcript({"blob": data, "more": b"x"})).files == {"blob": data, "more": b"x"}


def test_unfit_keeps_the_first_reason_and_contradicts_bye() -> None:
    lines = [*GREETING, "UNFIT 7 differs\tqueue.scheduler[p0]\tbfq\t/x\tnone", "UNFIT 8 unknown\tx", *sent(FILES)]
    reader = read(lines)
    assert reader.unfit == ("differs", "queue.scheduler[p0]", "bfq", "/x", "none")
    assert reader.unfit_sentence == "step 7: queue.scheduler[p0]: asked for bfq, /x reads none"
    assert (reader.files, reader.fault, reader.bye) == (FILES, "", False)
    assert "BYE" in read([*GREETING, "UNFIT 1 unknown\tx", *sent(FILES), "BYE"]).fault


def test_what_fio_says_of_a_job_that_failed_is_in_its_results() -> None:
    said = b"fio: pid=169, func=open(/lab/l0), error=No such file or directory"
    ended = "UNFIT 28 ended\tfio\tl\t1\t"
    reader = read([*GREETING, ended, *sent({"l.json": said + b'\n{"fio version": "fio-3.39"}'})])
    assert reader.unfit_sentence == f"step 28: fio of load l ended with 1: {said.decode()}"
    assert read([*GREETING, ended, *sent({})]).unfit_sentence == "step 28: fio of load l ended with 1: "


def test_a_stored_channel_of_the_first_version_is_read() -> None:
    assert read(["BLKLAB 1", *transcript()[1:]]).files == FILES


def test_each_code_of_the_guest_has_a_sentence_for_its_fields() -> None:
    lines = [line for path in GUEST.rglob("*.sh") for line in path.read_text().splitlines() if "unfit " in line]
    calls = [shlex.split(line.partition("unfit ")[2].rstrip(" ;}")) for line in lines]
    assert {(code, len(fields)) for code, *fields in calls} == {(c, s.count("{}")) for c, s in SENTENCES.items()}


def test_the_deadline_ends_it_wherever_it_falls() -> None:
    for cut in range(3, len(transcript())):
        reader = read([*transcript()[:cut], "DEADLINE"])
        assert (reader.deadline_passed, reader.fault, reader.bye) == (True, "", False)


def test_a_dead_runner_is_told() -> None:
    reader = read([*GREETING, *PHASES, "BROKEN runner\t137", "BYE"])
    assert (reader.broken, reader.bye, reader.fault) == ("runner ended with 137", False, "")


@pytest.mark.parametrize(
    "lines, fault",
    [
        (["BLKLAB 3"], "expected BLKLAB 2, got 'BLKLAB 3'"),
        (["noise"], "expected BLKLAB 2"),
        (["BLKLAB 2", "PHASE 1.0 rest"], "unexpected line 'PHASE 1.0 rest'"),
        ([*GREETING, GREETING[1]], "unexpected line 'READY"),
        ([*GREETING, "PHASE soon rest"], "unexpected line 'PHASE"),
        ([*GREETING, "PHASE 1.0 "], "unexpected line 'PHASE"),
        ([*GREETING, "HELLO"], "unexpected line 'HELLO'"),
        ([*GREETING, ""], "unexpected line ''"),
        ([*GREETING, "bye"], "unexpected line 'bye'"),
        ([*GREETING, "UNFIT 1 a sentence"], "unexpected line 'UNFIT 1 a"),
        ([*GREETING, "UNFIT 1 nosuch\tx"], "unexpected line 'UNFIT 1 nosuch"),
        ([*GREETING, "UNFIT 1 absent\tx"], "unexpected line 'UNFIT 1 absent"),
        ([*GREETING, "BROKEN runner"], "unexpected line 'BROKEN"),
        ([*GREETING, "BYE"], "unexpected line 'BYE'"),
        ([*GREETING, *sent({}), "BYE "], "unexpected line 'BYE '"),
        ([*GREETING, *sent({}), "UNFIT 1 unknown\tlate"], "unexpected line 'UNFIT"),
        ([*GREETING, *sent({}), *sent({})], "unexpected line 'PHASE"),
        ([*GREETING, *file_lines("a", b"1"), *file_lines("a", b"1")], "unexpected line 'FILE a"),
        ([*GREETING, f"FILE ../a 1 {'0' * 64}"], "unexpected line 'FILE ../a"),
        ([*GREETING, f"FILE .a 1 {'0' * 64}"], "unexpected line 'FILE .a"),
        ([*GREETING, f"FILE a/b 1 {'0' * 64}"], "unexpected line 'FILE a/b"),
        ([*GREETING, f"FILE a {MAX_FILE + 1} {'0' * 64}"], "unexpected line 'FILE a"),
        ([*GREETING, f"FILE a 9{'9' * 5000} {'0' * 64}"], "unexpected line 'FILE a"),
        ([*GREETING, f"END 9{'9' * 5000} 1.0"], "unexpected line 'END 9"),
        ([*GREETING, f"PHASE 9{'9' * 5000} rest"], "unexpected line 'PHASE 9"),
        ([*GREETING, "END ٣ 1.0"], "unexpected line 'END"),
        ([*GREETING, *file_lines("a", b"1"), "PHASE 2.0 rest"], "unexpected line 'PHASE"),
        ([*GREETING, *file_lines("a", b"1"), "UNFIT 2 unknown\tx"], "unexpected line 'UNFIT"),
        ([*GREETING, file_lines("a", b"1234")[0], "MTIz", ""], "unexpected line ''"),
        ([*GREETING, file_lines("a", b"1")[0], "MTIz" * 9], "file a: more data than its 1 bytes"),
        ([*GREETING, file_lines("a", b"123")[0], "MT\ufffdz", "END 1 2.0"], "file a: "),
        ([*GREETING, file_lines("a", b"123")[0], "MT z", "END 1 2.0"], "file a: "),
        ([*GREETING, file_lines("a", b"123")[0], "END 1 2.0"], "file a: 0 of 3 bytes arrived"),
        (
            [*GREETING, file_lines("a", b"123")[0], "MTIy", "END 1 2.0"],
            "file a: its sha256 differs from the announced one",
        ),
        ([*GREETING, *file_lines("a", b"1"), "END 2 2.0"], "the guest sent 2 files, 1 arrived"),
        ([*GREETING], "the channel ended before BYE"),
        ([*GREETING, *sent(FILES)], "the channel ended before BYE"),
        ([*GREETING, "UNFIT 1 unknown\tx"], "the channel ended before BYE"),
        ([*GREETING, *file_lines("a", b"1")], "the channel ended inside file a"),
    ],
)
def test_every_departure_from_the_format_is_named(lines: list[str], fault: str) -> None:
    reader = read(lines)
    assert reader.fault.startswith(fault)
    assert not reader.bye


def test_nothing_behind_the_first_fault_or_bye_counts() -> None:
    reader = read([*GREETING, "HELLO", *transcript()[2:]])
    assert (reader.fault, reader.files, reader.bye) == ("unexpected line 'HELLO'", {}, False)
    reader = read([*transcript(), "HELLO", "UNFIT 1 unknown\tx", "DEADLINE"])
    assert (reader.bye, reader.fault, reader.unfit, reader.deadline_passed) == (True, "", (), False)


ANYTHING = st.one_of(
    st.text(max_size=200),
    st.builds(lambda word, rest: f"{word}{rest}", st.sampled_from(WORDS), st.text(max_size=80)),
    st.builds(
        lambda word, number, rest: f"{word} {number} {rest}",
        st.sampled_from(WORDS),
        st.one_of(st.integers(), st.floats()),
        st.text(max_size=40),
    ),
    st.sampled_from(transcript()),
)


def sound(reader: ResultReader) -> None:
    """What must hold of a reader whatever it was fed."""
    assert not (reader.bye and (reader.fault or reader.unfit or not reader.ended or not reader.ready))
    for name, data in reader.files.items():
        assert "/" not in name
        assert not name.startswith((".", "-"))
        assert len(data) <= MAX_FILE


@settings(max_examples=500)
@given(st.lists(ANYTHING, max_size=30), st.booleans())
def test_arbitrary_lines_never_raise(lines: list[str], greeted: bool) -> None:
    sound(read([*GREETING, *lines] if greeted else lines))


@st.composite
def mutated(draw: st.DrawFn) -> list[str]:
    """A good transcript with one to three faults."""
    lines = transcript({"a.json": b'{"jobs": [1, 2, 3]}' * 9, "kmsg": b"\x00\xff quiet\n" * 20})
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(0, len(lines) - 1)))
        fault = draw(st.sampled_from(("cut", "swap", "corrupt", "drop", "double", "shorten", "insert")))
        other = draw(st.integers(0, max(0, len(lines) - 1)))
        if not lines:
            break
        if fault == "cut":
            lines = lines[:at]
        elif fault == "swap":
            lines[at], lines[other] = lines[other], lines[at]
        elif fault == "drop":
            del lines[at]
        elif fault == "double":
            lines.insert(at, lines[at])
        elif fault == "insert":
            lines.insert(at, draw(ANYTHING))
        elif lines[at]:
            place = draw(st.integers(0, len(lines[at]) - 1))
            byte = draw(st.one_of(st.just("\ufffd"), st.characters(codec="utf-8", exclude_characters="\n")))
            kept = lines[at][place + 1 :] if fault == "corrupt" else ""
            lines[at] = lines[at][:place] + (byte if fault == "corrupt" else "") + kept
    return lines


@settings(max_examples=500)
@given(mutated())
def test_a_mutated_transcript_never_passes_a_wrong_file(lines: list[str]) -> None:
    reader = read(lines)
    sound(reader)
    announced = {tuple(line.split()[2:4]) for line in lines if line.startswith("FILE ")}
    for data in reader.files.values():
        assert (str(len(data)), hashlib.sha256(data).hexdigest()) in announced
    if reader.bye:
        ends = [line.split()[1] for line in lines if line.startswith("END ")]
        assert str(len(reader.files)) in ends


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


def test_a_quiet_log_and_one_that_lost_its_beginning() -> None:
    assert (death(QUIET), stall(QUIET), warnings(log())) == ("", "", ())
    assert warnings(f"{WARNINGS[4]}\n{READY_MARK}\nquiet\n") == ()
    assert warnings("\n".join(WARNINGS)) == tuple(WARNINGS)


def test_disks_may_announce_themselves_during_set_up_only() -> None:
    assert warnings(log(POWER_ON), set_up=4.0) == ()
    assert warnings(log(POWER_ON), set_up=3.4) == (POWER_ON,)


def test_every_death_in_the_window_is_also_a_warning_or_a_panic() -> None:
    """A boot that says bye although the kernel oopsed must not pass."""
    for line in DEATHS[1:]:
        assert warnings(log(line)) == (line,)


BOOT = f"[    0.500000] WARNING: CPU: 0 PID: 1\n[    0.600000] {READY_MARK}\n"


def test_what_happens_during_set_up_is_a_warning_except_what_is_named() -> None:
    line = "[    0.710000] WARNING: CPU: 0 PID: 1 at block/blk-mq.c:1"
    assert warnings(BOOT + line, set_up=0.73) == (line,)
    assert warnings(BOOT + WAKING, set_up=0.73) == ()
    assert warnings(BOOT + WAKING + BROKEN + "\n" + LATE, set_up=0.73) == (BROKEN, LATE)


WAKING = """\
[    0.700000] sd 0:2:0:0: [sda] Unit Not Ready
[    0.700100] sd 0:2:1:0: [sdb] Unit Not Ready
[    0.700200] sd 0:2:0:0: [sda] Sense Key : Hardware Error [current]
[    0.700300] sd 0:2:1:0: [sdb] Sense Key : Hardware Error [current]
"""
BROKEN = "[    0.710000] sd 0:2:2:0: [sdc] Sense Key : Hardware Error [current]"
LATE = "[    0.800000] sd 0:2:0:0: [sda] Sense Key : Hardware Error [current]"


def test_a_guest_that_never_stops_to_send_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """10,000 phases with READY's; of files here at most 9 bytes, so the third of 4 bytes is the last."""
    reader = ResultReader()
    for line in [*GREETING, *["PHASE 1.0 x"] * 20_000]:
        reader.feed(line)
    assert reader.fault == "the guest named more than 10,000 phases"
    assert len(reader.phases) == 10_001
    monkeypatch.setattr(protocol, "_MAX_FILES", 9)
    reader = ResultReader()
    for line in [
        *GREETING,
        *(line for name in "abcd" for line in (f"FILE {name} 4 {hashlib.sha256(b'1234').hexdigest()}", "MTIzNA==")),
    ]:
        reader.feed(line)
    assert {*reader.files} == {"a", "b", "c"}
    assert reader.fault == "the guest sent more than 0 MiB of files"
