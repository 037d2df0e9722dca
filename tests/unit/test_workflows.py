# SPDX-License-Identifier: GPL-2.0-only
"""The hosted workflows: what they call exists, and they name no machine."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.commands.common.parser import build_parser

NAMES = ("ci", "nightly")


def text(checkout: Path, name: str) -> str:
    return (checkout / ".github" / "workflows" / f"{name}.yaml").read_text()


def steps(checkout: Path, name: str) -> list[dict[str, Any]]:
    jobs = yaml.safe_load(text(checkout, name))["jobs"]
    return [step for job in jobs.values() for step in job["steps"]]


def test_every_workflow_is_looked_at(checkout: Path) -> None:
    assert {path.stem for path in (checkout / ".github" / "workflows").iterdir()} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_actions_have_a_version_and_scripts_are_there(checkout: Path, name: str) -> None:
    used = [step["uses"] for step in steps(checkout, name) if "uses" in step]
    assert used
    assert [one for one in used if not re.fullmatch(r"actions/[a-z-]+@v\d+", one)] == []
    assert "://" not in text(checkout, name)
    called = re.findall(r"(?:scripts|\.ci)/\w+", text(checkout, name))
    assert called
    assert [one for one in called if not (checkout / one).is_file()] == []


def test_the_nightly_commands_are_understood(checkout: Path) -> None:
    parser = build_parser()
    found = re.findall(r"scripts/run blklab (.*?)(?:\)| \|\|| >|$)", text(checkout, "nightly"), re.MULTILINE)
    used = []
    for line in found:
        words = shlex.split(
            line.replace("$KERNELS", "debian:6.1 debian:7.2")
            .replace("$SCENARIOS", "shared-queue")
            .replace("$SHARD", "2/12")
        )
        used.append(parser.parse(words).word)
    assert used == ["matrix", "matrix", "report", "evidence"]


def test_jobs_wait_for_those_whose_results_they_read(checkout: Path) -> None:
    jobs = yaml.safe_load(text(checkout, "nightly"))["jobs"]
    assert jobs["verdict"]["needs"] == "measure"
    assert jobs["measure"]["strategy"]["fail-fast"] is False
    assert set(re.findall(r"matrix\.(\w+)", str(jobs["measure"]))) == {"shard"}
    (of,) = set(re.findall(r"matrix\.shard }}/(\d+)", str(jobs["measure"])))
    assert jobs["measure"]["strategy"]["matrix"]["shard"] == list(range(1, int(of) + 1))
