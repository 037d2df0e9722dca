# SPDX-License-Identifier: GPL-2.0-only
"""What a guest writes cannot drive the terminal of the person who reads about it."""

import io
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from harness.cli import main
from harness.figures.boot import MeasurementError
from harness.record.judging import judge_run
from harness.record.store import RunFolder, save_boot
from harness.report.terminal.progress import progress
from harness.run.events import CellPhase, CellStarted, RunStarted
from lab.base.record import Outcome
from lab.base.units import printable
from lab.guest.protocol import ResultReader
from tests.unit.analysis_samples import claim, control, scenario
from tests.unit.store_samples import boot_all, new_run, record

CLIPBOARD, CLEAR = "\x1b]52;c;cm0gLXJmIH4=\x07", "\x1b[2J"
HOSTILE = f"Oops: {CLIPBOARD}{CLEAR}\x9b2J\u202e"
SHOWN = r"Oops: \x1b]52;c;cm0gLXJmIH4=\x07\x1b[2J\x9b2J\u202e"


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """One boot died with a hostile oops line, one finished with a hostile warning."""
    folder = new_run(tmp_path / "results", scenario([claim()], [control()], ["none", "red"]))
    boot_all(folder, {"none": 95, "red": 5})
    for cell, outcome in zip(folder.facts.cells[:2], (Outcome.OOPS, Outcome.BYE), strict=True):
        boot = folder.boot(cell)
        assert boot is not None
        raw = record(boot.folder, boot.files, outcome)
        # As a foreign boot.json could have it.
        object.__setattr__(raw, "detail", HOSTILE)
        object.__setattr__(raw, "warnings", (HOSTILE,))
        object.__setattr__(raw, "wall", {f"boot{CLEAR}": 1.0})
        save_boot(raw)
    folder.finish(judge_run(folder), elapsed=1.0)
    return folder


def controls(text: str) -> list[str]:
    return [character for character in text if character != "\n" and not character.isprintable()]


@pytest.mark.parametrize("options", [[], ["--junit", "-"], ["--ktap", "-"], ["--csv", "-"]])
def test_no_report_has_a_control_character(
    run: RunFolder, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    main(["judge", str(run.path), *options])
    said = capsys.readouterr()
    assert controls(said.out + said.err) == []
    assert "cm0gLXJmIH4" in said.out + said.err


def test_no_page_has_a_control_character(run: RunFolder) -> None:
    main(["report", str(run.path)])
    page = (run.path / "report.html").read_text()
    assert controls(page) == []
    assert SHOWN in page


def test_the_progress_shows_a_phase_without_control_characters() -> None:
    reader = ResultReader()
    for line in ("BLKLAB 1", "READY 6.1 1.0"):
        reader.feed(line)
    mark = reader.feed(f"PHASE 2.0 load {CLEAR}{CLIPBOARD}")
    assert mark is not None and mark.name == printable(f"load {CLEAR}{CLIPBOARD}")
    out = io.StringIO()
    with progress(Console(file=out, force_terminal=True, width=120)) as listener:
        listener(RunStarted("sample", "6.1", 1, 1))
        listener(CellStarted(1, "none", 1))
        listener(CellPhase(1, mark.name))
    assert CLEAR not in out.getvalue() and CLIPBOARD not in out.getvalue()


def test_a_guests_broken_line_and_a_quoted_file_are_printable(tmp_path: Path) -> None:
    reader = ResultReader()
    for line in ("BLKLAB 1", "READY 6.1 1.0", f"BROKEN diskd\t1\t{HOSTILE}"):
        reader.feed(line)
    lost = replace(record(tmp_path, {}, Outcome.LOST), detail=reader.broken)
    assert lost.detail == f"diskd ended with 1: {SHOWN}"
    assert MeasurementError("fio.json", HOSTILE).message == f"fio.json: {SHOWN}"


@given(st.text())
def test_printable_text_stays_and_is_not_escaped_twice(text: str) -> None:
    once = printable(text)
    assert printable(once) == once
    assert not any(ord(character) < 32 and character not in "\t\n" for character in once)
    if text.isprintable() and text.isascii():
        assert once == text
