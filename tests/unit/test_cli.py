# SPDX-License-Identifier: GPL-2.0-only
"""Exit codes: `git bisect run` reads 1 to 127 as a verdict, so nothing but a judged failure may end there."""

import argparse
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import harness.commands
from harness.cli import INTERRUPTED, LAB_BROKEN, MISUSE, main
from harness.commands import COMMANDS
from harness.commands.command import SCENARIOS
from harness.report.terminal.explain import describe_scenario
from harness.scenario.load import find_scenarios, load_scenario
from lab.base.errors import (
    EXIT_INTERRUPTED,
    EXIT_LAB_BROKEN,
    EXIT_MISUSE,
    BlklabError,
    CannotJudge,
    InputErrors,
    KernelFailed,
    LabBroken,
    Misuse,
    Problem,
)
from lab.topology.load import catalogue

CHECKOUT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Trial:
    """A verb that does one thing."""

    action: Callable[[], int]
    NAME: str = "trial"
    HELP: str = "for a test"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--number", type=int)

    def execute(self, options: argparse.Namespace) -> int:
        return self.action()


def code_of(monkeypatch: pytest.MonkeyPatch, action: Callable[[], int]) -> int:
    monkeypatch.setattr(harness.commands, "COMMANDS", (Trial(action),))
    return main(["trial"])


def raising(error: BaseException) -> Callable[[], int]:
    def act() -> int:
        raise error

    return act


def test_the_codes_here_are_those_of_the_lab() -> None:
    """The console script has its own copy, to have it before anything can be imported."""
    assert (MISUSE, LAB_BROKEN, INTERRUPTED) == (EXIT_MISUSE, EXIT_LAB_BROKEN, EXIT_INTERRUPTED)


@pytest.mark.parametrize("code", [0, 1, 125, 128])
def test_a_verb_s_own_code_is_kept(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    assert code_of(monkeypatch, lambda: code) == code


@pytest.mark.parametrize(
    "error, code",
    [
        (KernelFailed("x"), 1),
        (CannotJudge("x"), 125),
        (LabBroken("x"), 128),
        (Misuse("x"), 129),
        (InputErrors([Problem("f", 1, 2, "x")]), 129),
        (BlklabError("x"), 128),
        (KeyboardInterrupt(), 130),
    ],
)
def test_errors_for_people(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException, code: int
) -> None:
    assert code_of(monkeypatch, raising(error)) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("blklab: ")
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "error", [ValueError("x"), OSError("x"), RecursionError(), MemoryError(), SyntaxError(), ImportError()]
)
def test_what_nobody_foresaw_is_no_verdict(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException
) -> None:
    assert code_of(monkeypatch, raising(error)) == 128
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert err.endswith("blklab: this is a bug of blklab, not a verdict\n")


@pytest.mark.parametrize("code, expected", [(0, 0), (None, 0), (1, 128), (2, 128), ("words", 128)])
def test_leaving_by_the_back_door(monkeypatch: pytest.MonkeyPatch, code: "int | str | None", expected: int) -> None:
    """rich leaves with 1 when a pipe breaks, which would convict a commit."""
    assert code_of(monkeypatch, raising(SystemExit(code))) == expected


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["frobnicate"],
        ["--nosuch"],
        ["run"],
        ["run", "a", "b"],
        ["run", "x", "--nosuch"],
        ["run", "x", "--seeds", "many"],
        ["run", "x", "--seeds", "0"],
        ["run", "x", "--seeds", "-3"],
        ["run", "x", "--seeds", "65"],
        ["run", "x", "--jobs", "-1"],
        ["run", "nosuch"],
        ["show"],
        ["show", "nosuch"],
        ["show", "shared-queue", "--arm", "nosuch"],
        ["judge"],
        ["judge", "/nonexistent"],
        ["judge", "."],
        ["cache"],
        ["cache", "frobnicate"],
        ["cache", "prune", "--keep", "much"],
        ["cache", "prune", "--older-than", "long"],
        ["list", "extra"],
    ],
    ids=" ".join,
)
def test_misuse(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 129
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("blklab: ")
    assert "Traceback" not in err


def test_help_is_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(command.NAME in text for command in COMMANDS)
    for command in COMMANDS:
        assert main([command.NAME, "--help"]) == 0


def python(program: str, **streams: int) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run([sys.executable, "-c", program], cwd=CHECKOUT, check=False, **streams)  # type: ignore[call-overload,no-any-return]


@pytest.mark.parametrize("missing", ["yaml", "rich", "zstandard", "lab.base.errors", "harness.commands", "lab.session"])
def test_a_failed_import_is_no_verdict(missing: str) -> None:
    program = f"import sys; sys.modules[{missing!r}] = None\nfrom harness.cli import main; sys.exit(main(['list']))"
    done = python(program, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    assert done.returncode == 128
    assert missing.split(".", maxsplit=1)[0].encode() in done.stderr


def test_a_module_that_cannot_be_parsed_is_no_verdict(tmp_path: Path) -> None:
    (tmp_path / "yaml.py").write_text("def broken(:\n")
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nfrom harness.cli import main; sys.exit(main(['list']))"
    )
    assert python(program, stderr=subprocess.DEVNULL).returncode == 128


def test_the_module_runs_as_the_script() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "harness", "frobnicate"], cwd=CHECKOUT, check=False, capture_output=True
    )
    assert done.returncode == 129


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", [["list"], ["schema"], ["show", "shared-queue"]], ids=" ".join)
def test_output_that_cannot_be_written_is_no_verdict(words: list[str], unbuffered: str) -> None:
    """The interpreter itself would leave with 120, or with 1 when the complaint cannot be written either."""
    command = [sys.executable, "-m", "harness", *words]
    environment = {"PYTHONUNBUFFERED": unbuffered}
    with Path("/dev/full").open("wb") as full:
        for errors in (subprocess.DEVNULL, full):
            done = subprocess.run(command, cwd=CHECKOUT, check=False, env=environment, stdout=full, stderr=errors)
            assert done.returncode == 128


def test_a_complaint_that_cannot_be_written_is_no_verdict() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([sys.executable, "-m", "harness", "frobnicate"], cwd=CHECKOUT, check=False, stderr=full)
    assert done.returncode >= 128


def test_a_reader_that_went_away_is_no_verdict() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "harness", "schema"], cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait() == 128
    assert process.stderr is not None
    assert b"Traceback" not in process.stderr.read()


@pytest.mark.parametrize("name", sorted(find_scenarios(SCENARIOS)))
def test_what_show_says_to_type_is_shell(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", name]) == 0
    scenario = load_scenario(name, search=SCENARIOS)
    assert capsys.readouterr().out == describe_scenario(scenario, ()) + "\n"
    for arm in scenario.arms:
        _, mark, lines = describe_scenario(scenario, (arm,)).partition("by hand")
        assert mark
        typed = lines.partition("\n")[2]
        assert "modprobe" in typed
        assert "fio --output-format=json" in typed
        subprocess.run(["bash", "-n"], input=typed.encode(), check=True)


def test_list_names_every_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    wall = [f"wall/{name}" for name in find_scenarios(SCENARIOS / "wall")]
    assert "wall/irq-affinity" in wall
    named = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert named == [*find_scenarios(SCENARIOS), *wall]


def test_list_names_every_topology(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--topologies"]) == 0
    named = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert named == [topology.name for topology in catalogue()]


def test_show_of_neither_a_scenario_nor_a_topology(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "3ware-850"]) == EXIT_MISUSE
    said = capsys.readouterr().err
    assert 'no scenario and no topology "3ware-850", did you mean 3ware-8506?' in said
    assert "blklab list --topologies" in said
