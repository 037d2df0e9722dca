# SPDX-License-Identifier: GPL-2.0-only
import hashlib
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.guest.protocol import MAX_FILE, PhaseMark, ResultReader
from tests.unit.guest_samples import FILES, GREETING, PHASES, file_lines, sent, transcript

WORDS = ("BLKLAB 1", "READY", "PHASE", "UNFIT", "FILE", "END", "BYE", "DEADLINE", "BROKEN")


def read(lines: Iterable[str]) -> ResultReader:
    reader = ResultReader()
    for line in lines:
        reader.feed(line)
    reader.finish()
    return reader


def test_a_complete_transcript() -> None:
    reader = read(transcript())
    assert (reader.bye, reader.fault, reader.unfit, reader.release) == (True, "", "", "6.1.0-50-amd64")
    assert reader.files == FILES
    assert reader.phases == [
        PhaseMark("set-up", 0.83),
        PhaseMark("rest", 1.1),
        PhaseMark("load solo", 66.12),
        PhaseMark("send", 70.5),
        PhaseMark("end", 71.25),
    ]


def test_phases_are_told_as_they_come() -> None:
    reader = ResultReader()
    marks = [reader.feed(line) for line in transcript({})]
    assert [mark.name for mark in marks if mark] == ["set-up", "rest", "load solo", "send", "end"]


def test_ready_is_known_at_once() -> None:
    reader = ResultReader()
    assert not reader.ready
    for line in GREETING:
        reader.feed(line)
    assert reader.ready


def test_empty_lines_before_the_greeting_are_line_noise() -> None:
    assert read(["", "", *transcript()]).bye


@pytest.mark.parametrize("size", [0, 1, 2, 3, 56, 57, 58, 100_000])
def test_files_of_every_length(size: int) -> None:
    data = bytes(number % 251 for number in range(size))
    assert read(transcript({"blob": data})).files == {"blob": data}


def test_data_that_looks_like_a_word_of_the_protocol_is_data() -> None:
    data = b"\x14\x82\xc4"
    assert file_lines("blob", data)[1] == "FILE"
    assert read(transcript({"blob": data, "more": b"x"})).files == {"blob": data, "more": b"x"}


def test_unfit_keeps_the_first_reason_and_the_evidence() -> None:
    lines = [*GREETING, "UNFIT 7 queue.scheduler[p0]: asked for bfq, got none", "UNFIT 7 again", *sent(FILES)]
    reader = read(lines)
    assert reader.unfit == "step 7: queue.scheduler[p0]: asked for bfq, got none"
    assert (reader.files, reader.fault, reader.bye) == (FILES, "", False)


def test_unfit_and_bye_contradict_each_other() -> None:
    assert "BYE" in read([*GREETING, "UNFIT 1 x", *sent(FILES), "BYE"]).fault


def test_the_deadline_ends_it_wherever_it_falls() -> None:
    for cut in range(3, len(transcript())):
        reader = read([*transcript()[:cut], "DEADLINE"])
        assert (reader.deadline_passed, reader.fault, reader.bye) == (True, "", False)


def test_a_dead_runner_is_told() -> None:
    reader = read([*GREETING, *PHASES, "BROKEN the runner ended with 137", "BYE"])
    assert (reader.broken, reader.bye, reader.fault) == ("the runner ended with 137", False, "")


@pytest.mark.parametrize(
    "lines, fault",
    [
        (["BLKLAB 2"], "expected BLKLAB 1, got 'BLKLAB 2'"),
        (["noise"], "expected BLKLAB 1"),
        (["BLKLAB 1", "PHASE 1.0 rest"], "unexpected line 'PHASE 1.0 rest'"),
        ([*GREETING, GREETING[1]], "unexpected line 'READY"),
        ([*GREETING, "PHASE soon rest"], "unexpected line 'PHASE"),
        ([*GREETING, "PHASE 1.0 "], "unexpected line 'PHASE"),
        ([*GREETING, "HELLO"], "unexpected line 'HELLO'"),
        ([*GREETING, ""], "unexpected line ''"),
        ([*GREETING, "bye"], "unexpected line 'bye'"),
        ([*GREETING, "BYE"], "unexpected line 'BYE'"),
        ([*GREETING, *sent({}), "BYE "], "unexpected line 'BYE '"),
        ([*GREETING, *sent({}), "UNFIT 1 late"], "unexpected line 'UNFIT"),
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
        ([*GREETING, *file_lines("a", b"1"), "UNFIT 2 x"], "unexpected line 'UNFIT"),
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
        ([*GREETING, "UNFIT 1 x"], "the channel ended before BYE"),
        ([*GREETING, *file_lines("a", b"1")], "the channel ended inside file a"),
    ],
)
def test_every_departure_from_the_format_is_named(lines: list[str], fault: str) -> None:
    reader = read(lines)
    assert reader.fault.startswith(fault)
    assert not reader.bye


def test_nothing_behind_the_first_fault_counts() -> None:
    reader = read([*GREETING, "HELLO", *transcript()[2:]])
    assert (reader.fault, reader.files, reader.bye) == ("unexpected line 'HELLO'", {}, False)


def test_nothing_behind_bye_counts() -> None:
    reader = read([*transcript(), "HELLO", "UNFIT 1 x", "DEADLINE"])
    assert (reader.bye, reader.fault, reader.unfit, reader.deadline_passed) == (True, "", "", False)


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
