# SPDX-License-Identifier: GPL-2.0-only
"""Exit codes: `git bisect run` reads 1 to 127 as a verdict, so nothing but a judged failure may end there."""

import gc
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import harness.commands
from harness.base.checkout import SCENARIOS
from harness.cli import INTERRUPTED, LAB_BROKEN, MISUSE, main
from harness.commands import GROUPS, CommandWord, load
from harness.commands.parser import RUN_FILE, Command, build_parser
from harness.record.store import PLAN
from harness.report.terminal.scenario import describe_scenario, steps_of
from harness.scenario.load import find_scenarios, read_scenario
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


def code_of(monkeypatch: pytest.MonkeyPatch, action: Callable[[], int]) -> int:
    """The exit status of a command that does one thing."""

    class Trial(Command):
        def __call__(self) -> int:
            return action()

    monkeypatch.setattr(harness.commands, "GROUPS", {"measure": (CommandWord("trial", "for a test"),)})
    monkeypatch.setattr(harness.commands, "load", lambda name: {"trial": Trial}[name])
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
    """rich leaves with 1 when a pipe breaks, which git bisect would read as bad."""
    assert code_of(monkeypatch, raising(SystemExit(code))) == expected


def test_arguments_cannot_control_the_terminal_or_flood_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", f"no\x1b[2J\u202e{'x' * 100_000}"]) == 129
    err = capsys.readouterr().err
    assert "no\\x1b[2J\\u202exxx" in err
    assert len(err) < 5_000
    assert str(Misuse("m", remedy="\x1b[2J")) == "m\n  remedy: \\x1b[2J"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "S", "--junit", "S"], "--junit S would overwrite S"),
        (["run", "S", "--junit", "new", "--csv", "new"], "would overwrite new"),
        (["draft", "--fio", "S", "--output", "S"], "--output S would overwrite S"),
        (["judge", "R", "--csv", "R/boots/000/boot.json"], "would overwrite a file of the run"),
        (["report", "R", "--out", "R/run.json"], "would overwrite a file of the run"),
    ],
)
def test_options_that_write_overwrite_no_input(
    words: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("S", f"R/{PLAN}", "R/boots/000/boot.json"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("kept")
    assert main(words) == 129
    assert says in capsys.readouterr().err
    assert {path.read_text() for path in tmp_path.rglob("*") if path.is_file()} == {"kept"}
    assert {path.name for path in tmp_path.iterdir()} == {"S", "R"}


def test_what_the_parser_knows_of_a_run_s_folder() -> None:
    assert RUN_FILE == PLAN


def leaves(words: Iterable[CommandWord], *before: str) -> Iterator[tuple[str, ...]]:
    for word in words:
        yield from leaves(word.words, *before, word.name) if word.words else [(*before, word.name)]


COMMANDS = [path for group in GROUPS.values() for path in leaves(group)]


def test_help_is_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"\n{group}\n" in text for group in GROUPS)
    assert all(f"\n  {word.name} " in text for group in GROUPS.values() for word in group)
    assert max(map(len, text.splitlines())) <= 80


def test_there_are_at_most_twenty_one_commands() -> None:
    """Fourteen, and timeline, patch, track, hunt, capture, draft and sharing."""
    assert sum(map(len, GROUPS.values())) <= 21


def test_documents_name_commands_that_exist() -> None:
    files = [*CHECKOUT.glob("*.md"), *CHECKOUT.glob("docs/**/*.md"), CHECKOUT / "Makefile"]
    text = "\n".join(path.read_text() for path in files if path.name != "CHANGELOG.md")
    named = {tuple(words.split()) for words in re.findall(r"(?:`|    |\$\()blklab\)? ([a-z]+(?: [a-z]+)?)", text)}
    known = {word.name: {further.name for further in word.words} for group in GROUPS.values() for word in group}
    assert len(named) > 10
    unknown = [words for words in named if words[0] not in (*known, "help")]
    assert unknown == []
    assert [words for words in named if known.get(words[0]) and words[1] not in known[words[0]]] == []


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_help(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"usage: blklab {' '.join(command)}")
    assert "".join(load(" ".join(command)).epilog.split()) in "".join(shown.split())
    assert main(["help", *command]) == 0
    assert capsys.readouterr().out == shown


@pytest.mark.parametrize(
    ("line", "environment", "name", "value"),
    [
        ("run x", "debian:6.1", "kernel", "debian:6.1"),
        ("run x", "", "kernel", "distro"),
        ("run x --kernel debian:7.2", "debian:6.1", "kernel", "debian:7.2"),
        ("store cache prune --older-than 2", "", "older_than", 2 * 86400),
        ("store index --keep 2k", "", "keep", 2048),
    ],
)
def test_what_a_command_gets(
    line: str, environment: str, name: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNEL", environment)
    words = line.split()
    assert getattr(build_parser(words).parse(words), name) == value


def test_the_version_is_that_of_the_project(capsys: pytest.CaptureFixture[str]) -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"blklab {project['version']}\n"


@pytest.mark.parametrize(
    ("program", "unused"),
    [
        # 0.3 s are not enough for networkx, rich and the rest.
        ("harness.cli.main(['--help'])", {"rich", "networkx", "harness.commands.run", "lab.session"}),
        ("harness.commands.run._scenarios(['shared-queue'], None)", {"networkx"}),
        (
            "harness.commands.run",
            {"harness.grid", "lab.kernels.tree", "lab.kernels.ubuntu", "xml.etree", "tomllib"},
        ),
    ],
    ids=["help", "paths", "run"],
)
def test_what_a_command_does_not_use_is_not_imported(program: str, unused: set[str]) -> None:
    module = "harness.cli" if "cli" in program else "harness.commands.run"
    text = f"import sys, {module}\n{program}\nsys.exit(bool({unused} & {{*sys.modules}}))"
    assert python(text, stdout=subprocess.DEVNULL).returncode == 0


def test_garbage_is_collected_again_after_the_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    assert code_of(monkeypatch, gc.isenabled) == 1
    assert main(["trail"]) == MISUSE
    assert gc.isenabled()


def python(program: str, **streams: int) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run([sys.executable, "-c", program], cwd=CHECKOUT, check=False, **streams)  # type: ignore[call-overload,no-any-return]


def blklab(*words: str, **more: Any) -> "subprocess.CompletedProcess[bytes]":
    """The command in a process of its own."""
    return subprocess.run([sys.executable, "-m", "harness", *words], cwd=CHECKOUT, check=False, **more)


@pytest.mark.parametrize("missing", ["yaml", "rich", "zstandard", "lab.base.errors", "harness.commands", "lab.session"])
def test_a_failed_import_is_no_verdict(missing: str) -> None:
    program = f"import sys; sys.modules[{missing!r}] = None\nfrom harness.cli import main; sys.exit(main(['run', 'x']))"
    done = python(program, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    assert done.returncode == 128
    assert missing.split(".", maxsplit=1)[0].encode() in done.stderr


def test_a_module_that_cannot_be_parsed_exits_128(tmp_path: Path) -> None:
    (tmp_path / "yaml.py").write_text("def broken(:\n")
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nfrom harness.cli import main; sys.exit(main(['list']))"
    )
    assert python(program, stderr=subprocess.DEVNULL).returncode == 128


def test_the_module_runs_as_the_script_and_an_error_that_cannot_be_printed_exits_128() -> None:
    assert blklab("frobnicate", stderr=subprocess.DEVNULL).returncode == 129
    with Path("/dev/full").open("wb") as full:
        assert blklab("frobnicate", stderr=full).returncode >= 128


def test_show_names_what_a_role_does_besides_its_size(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "page-cache-writes"]) == main(["show", "mixed-loads"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "writer write 4k QD1 psync buffered on d0 fsync=64" in said
    assert "job randrw 4k QD16 on l0 rwmixread=70" in said


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", [["store", "cache", "list"], ["show", "shared-queue"]], ids=" ".join)
def test_output_that_cannot_be_written_exits_128(words: list[str], unbuffered: str, tmp_path: Path) -> None:
    """The interpreter itself would leave with 120, or with 1 when the complaint cannot be written either."""
    environment = {"PYTHONUNBUFFERED": unbuffered, "BLKLAB_CACHE": str(tmp_path)}
    with Path("/dev/full").open("wb") as full:
        done = blklab(*words, env=environment, stdout=full, stderr=subprocess.PIPE)
        assert done.returncode == blklab(*words, env=environment, stdout=full, stderr=full).returncode == LAB_BROKEN
    assert done.stderr == b"blklab: the output cannot be written: No space left on device\n"


def test_results_and_progress_in_one_file_are_in_their_order() -> None:
    code = "import sys; from harness.cli import main; main(['--version']); print('out'); print('err', file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code + "; print('end')"],
        cwd=CHECKOUT,
        check=True,
        env={name: text for name, text in os.environ.items() if name != "PYTHONUNBUFFERED"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert done.stdout.endswith(b"\nout\nerr\nend\n")


def test_a_closed_pipe_exits_128() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "harness", "show", "shared-queue"],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait() == 128
    assert process.stderr is not None and b"Traceback" not in process.stderr.read()


@pytest.mark.parametrize("name", sorted(find_scenarios()))
def test_show_fits_one_screen(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", name]) == 0
    scenario = read_scenario(name)
    shown = capsys.readouterr().out
    assert shown == describe_scenario(scenario, ()) + "\n"
    # The arms of a larger scenario fill a screen by themselves.
    further = 3 * len(scenario.arms) // 2 if len(scenario.arms) > 15 else 0
    # Options of roles, which show names, may take a line of a load more.
    further += sum(any(role.options for role in load.roles.values()) for load in scenario.loads.values())
    assert len(shown.splitlines()) <= 50 + further
    assert all(f"\n  {arm}" in shown for arm in scenario.arms)


def test_show_prints_arms_their_devices_and_their_steps(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "shared-queue"]) == 0
    arms = [line.split(maxsplit=1) for line in capsys.readouterr().out.partition("\narms\n")[2].splitlines()]
    assert ["shared", "3ware-8506, hba.cmd_per_lun: 254"] in arms
    assert ["bursts", "as shared, disk.*.coalesce: 16"] in arms
    assert ["limited", "3ware-8506, hba.cmd_per_lun: 32"] in arms, "it has nothing but its topology in common"
    assert main(["show", "shared-queue", "--arm", "shared"]) == 0
    assert "\n    └─ p0..3  4 disks: 1G, 50 MB/s, seek 8.5 ms, 7200 rpm\n" in capsys.readouterr().out
    assert main(["show", "shared-queue", "--arm", "shared", "--steps"]) == 0
    shown = capsys.readouterr().out
    assert steps_of(read_scenario("shared-queue"), ("shared",)) in shown
    script, fio = shown.partition("\narm shared: script\n")[2], shown.partition(".fio\n")[2]
    assert "\n  module target_core_user\n" in script
    assert fio.startswith("  [global]\n")


def test_list_names_every_scenario_and_every_topology(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    wall = [f"wall/{name}" for name in find_scenarios(SCENARIOS / "wall")]
    assert "wall/irq-affinity" in wall
    named = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert named == [*find_scenarios(), *wall]
    assert main(["list", "--topologies"]) == 0
    named = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert named == [topology.name for topology in catalogue()]
