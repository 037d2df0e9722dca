# SPDX-License-Identifier: GPL-2.0-only
"""``blklab judge RUN`` with files and standard output as targets of the formats."""

import csv
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cli import main
from harness.commands.parser import build_parser
from harness.commands.run import RunScenarios
from harness.commands.verdict import Exports, Judge
from harness.record.judging import judge_run
from harness.record.store import RunFolder
from harness.report.terminal.run import Detail
from lab.base.errors import EXIT_MISUSE, EXIT_PASS
from tests.unit.analysis_samples import claim, control, scenario
from tests.unit.store_samples import boot_all, new_run


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = new_run(tmp_path / "results", scenario([claim()], [control()], ["none", "red"]))
    boot_all(folder, {"none": 95, "red": 5})
    folder.finish(judge_run(folder), elapsed=1.0)
    return folder


def test_every_format_is_written_to_its_file(run: RunFolder, tmp_path: Path) -> None:
    names = {"--junit": "r.xml", "--ktap": "r.ktap", "--kcidb": "r.json", "--csv": "r.csv"}
    options = [word for option, name in names.items() for word in (option, str(tmp_path / name))]
    assert main(["judge", str(run.path), *options]) == EXIT_PASS
    assert (tmp_path / "r.xml").read_text().startswith("<?xml")
    assert (tmp_path / "r.ktap").read_text().startswith("KTAP version 1\n1..1\n")
    assert json.loads((tmp_path / "r.json").read_text())["version"]["major"] == 5
    assert len(list(csv.DictReader((tmp_path / "r.csv").open()))) > 6


def test_standard_output_has_the_report_or_nothing_but_the_format(
    run: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["judge", str(run.path), "--ktap", "-"]) == EXIT_PASS
    said = capsys.readouterr()
    assert said.out.startswith("KTAP version 1\n") and said.out.endswith("negative controls: 1 of 1 failed (exit 0)\n")
    assert "1 claim held (3 seeds)" in said.err
    assert main(["judge", str(run.path)]) == EXIT_PASS
    assert "1 claim held (3 seeds)" in capsys.readouterr().out
    assert main(["judge", str(run.path), "--json"]) == EXIT_PASS
    assert json.loads(capsys.readouterr().out) == json.loads((run.path / "verdict.json").read_text())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--ktap", "-", "--csv", "-"], "only one format can go to standard output"),
        (["--junit", "nowhere/r.xml"], "--junit nowhere/r.xml: nowhere is not a folder"),
        (["--kcidb", "."], "--kcidb .: this is a folder"),
        (["-q", "-v"], "not allowed with argument"),
        (["-q", "--json"], "not allowed with argument"),
        (["--json", "--csv", "-"], "only one format can go to standard output"),
    ],
)
def test_what_cannot_be_written_and_details_that_exclude_each_other_are_refused(
    run: RunFolder, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert main(["judge", str(run.path), *options]) == EXIT_MISUSE
    said = capsys.readouterr()
    assert message in said.err
    assert said.out == ""


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[tuple[Path, list[bytes]]]:
    path, received = tmp_path / "pipe", list[bytes]()
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: received.append(path.read_bytes()))
    reader.start()
    yield path, received
    reader.join()


def test_a_pipe_is_written_to_and_stays_a_pipe(run: RunFolder, pipe: tuple[Path, list[bytes]]) -> None:
    path, _ = pipe
    assert main(["judge", str(run.path), "--ktap", str(path)]) == EXIT_PASS
    assert path.is_fifo()


def test_quiet_prints_one_line_and_verbose_every_part(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    printed = {}
    for flag in ("", "-q", "--quiet", "-v", "--verbose"):
        assert main(["judge", str(run.path), *filter(None, (flag,))]) == EXIT_PASS
        printed[flag] = capsys.readouterr().out
    assert (printed["--quiet"], printed["--verbose"]) == (printed["-q"], printed["-v"])
    (line,) = printed["-q"].splitlines()
    assert line.startswith("PASS") and line.endswith("negative controls: 1 of 1 failed (exit 0)")
    for section in ("\nHow\n", "arm red", "median and range"):
        assert section in printed["-v"] and section not in printed[""]


def test_a_run_has_the_details_of_judge() -> None:
    parser = build_parser(["run", "judge"])

    def exports(words: list[str]) -> Exports:
        command = parser.parse(words)
        assert isinstance(command, RunScenarios | Judge)
        return command.exports

    for command in (["run", "shared-queue"], ["judge", "x"]):
        assert exports([*command, "-q"]).detail is Detail.BRIEF
        assert exports([*command, "-v"]).detail is Detail.FULL
        assert exports(command).detail is Detail.NORMAL
        assert exports([*command, "--json"]).json
