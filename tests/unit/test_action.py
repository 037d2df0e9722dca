# SPDX-License-Identifier: GPL-2.0-only
"""action.yml and Containerfile name files, packages, commands and options that exist. Their steps run in tests/vm."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from harness.commands.parser import build_parser
from tests.containers import ACTION, CHECKOUT, CONTAINERFILE, action, commands, filled, instructions

SCRIPTS = [step["run"] for step in action()["runs"]["steps"] if "run" in step]
PACKAGES = {line.split("|")[2] for line in (CHECKOUT / "scripts/host-packages.txt").read_text().splitlines()[2:]}


def test_the_action_is_composite_and_uses_the_inputs_that_it_declares() -> None:
    document = action()
    text = ACTION.read_text()
    assert document["runs"]["using"] == "composite"
    assert set(re.findall(r"inputs\.(\w+)", text)) == document["inputs"].keys() >= {"scenario", "kernel", "base"}
    steps = {step.get("id"): step for step in document["runs"]["steps"]}
    for output in document["outputs"].values():
        (step, name) = re.fullmatch(r"\$\{\{ steps\.(\w+)\.outputs\.(\w+) \}\}", output["value"]).groups()  # type: ignore[union-attr]
        assert f'"{name}=$' in steps[step]["run"]
    for step in document["runs"]["steps"]:
        if "run" in step:
            assert step["shell"] == "bash"
            assert {f"${{{{ inputs.{name} }}}}" for name in document["inputs"]} == set(step["env"].values())
            assert "${{" not in step["run"], "an input in a script would be run as code"


@pytest.mark.parametrize(
    ("command", "options"),
    [pair for script in (*SCRIPTS, CONTAINERFILE.read_text().replace("# ", "")) for pair in commands(script)],
)
def test_every_command_and_option_exists(command: str, options: set[str]) -> None:
    (words,) = (action.choices for action in build_parser([command])._actions if action.choices)
    known = {name for action in words[command]._actions for name in action.option_strings}  # type: ignore[index]
    assert options <= known, options - known


def test_the_commands_are_found() -> None:
    run = next(pair for script in SCRIPTS for pair in commands(script))
    assert run == ("run", {"--kernel", "--base", "--seeds", "--results", "--ktap", "--force"})


def test_the_scripts_of_both_exist_and_can_be_run() -> None:
    named = {
        name
        for text in (ACTION.read_text(), CONTAINERFILE.read_text())
        for name in re.findall(r"(?:GITHUB_ACTION_PATH|/opt/blklab)/(scripts/\w+)", text)
    }
    assert named == {"scripts/run", "scripts/setup"}
    assert all(os.access(CHECKOUT / name, os.X_OK) for name in named)
    assert (CHECKOUT / re.findall(r"format\('\{0\}/(.+?)'", ACTION.read_text())[0]).is_file()


def test_the_container_is_made_as_the_readme_says() -> None:
    words = instructions()
    assert words[0] == ("FROM", "debian:13")
    assert [word for word, _ in words] == [
        *("FROM", "RUN", "COPY", "ENV", "RUN", "USER", "WORKDIR", "ENTRYPOINT", "CMD")
    ]
    installed = shlex.split(words[1][1].partition("--no-install-recommends ")[2].partition(" && ")[0])
    assert set(installed) - {"ca-certificates", "python3-venv"} <= PACKAGES
    given = dict(pair.split("=") for pair in words[3][1].split())
    assert given["BLKLAB_VENV"] in words[4][1] and given["BLKLAB_RESULTS"].startswith(dict(words)["WORKDIR"])
    assert all((CHECKOUT / name).exists() for name in ("requirements/run.txt", "pyproject.toml"))


def test_neither_names_a_host_of_a_registry() -> None:
    for path in (ACTION, CONTAINERFILE):
        hosts = re.findall(r"\b[\w-]+\.(?:io|com|org|net)\b", path.read_text())
        assert not hosts, path


def test_inputs_are_filled_in() -> None:
    assert filled("${{ inputs.kernel }}", {}) == "debian:6.12"
    assert filled("${{ inputs.base }}|${{ inputs.scenario }}", {"scenario": "x"}) == "|x"
    with pytest.raises(KeyError):
        filled("${{ inputs.gone }}", {})


def test_the_scenario_and_its_members_that_fail_are_annotated(tmp_path: Path) -> None:
    """By the line of the action that reads KTAP, whose levels are two spaces each; a group has no annotation."""
    ktap = (
        "KTAP version 1\n1..1\n  not ok 1 claims\n    not ok 2 half at 50 % # 0.04\n    ok 3 b\nnot ok 1 x # 1 of 4\n"
    )
    (tmp_path / "ktap").write_text(ktap)
    (line,) = re.findall(r"\|\| (sed .*)$", SCRIPTS[0], re.MULTILINE)
    done = subprocess.run(
        ["bash", "-c", line],
        env={**os.environ, "ktap": str(tmp_path / "ktap")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [
        "::error title=blklab::half at 50 %25 # 0.04",
        "::error title=blklab::x # 1 of 4",
    ]
