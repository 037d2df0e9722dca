# SPDX-License-Identifier: GPL-2.0-only
"""The documentation is short enough to be read, no link leads nowhere, and commands print what pages show.

Of the hosted workflows: what they call exists, and they name no machine.
"""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.commands.parser import Parser, build_parser
from harness.scenario.load import read_scenario
from tests.unit.tutorial_page import PAGE, Place, Shown, shown, steady, written
from tools.evidence.__main__ import MeasureEvidence

CHECKOUT = Path(__file__).parents[2]
MOST = {"README.md": 150, "AGENTS.md": 60, "CHANGELOG.md": 60}
TOGETHER = 3250
_FOLDERS = "docs|harness|kconfigs|lab|requirements|scenarios|scripts|tests|tools"
_FILE = re.compile(rf"(?<![\w./:=-])(?:{_FOLDERS})/[\w./*-]*\w")
_PLACEHOLDERS = re.compile(r"NAME|MUTANT|\.\.\.")
_LINK = re.compile(r"(?<!\!)\[[^\]]*\]\(([^)\s]+)\)")


def pages() -> Iterator[Path]:
    """Every page of the checkout; results of runs and the virtual environment have none that count."""
    yield from CHECKOUT.glob("*.md")
    for folder in ("docs", "kconfigs", "lab", "harness", "scenarios", "scripts", "tests"):
        yield from CHECKOUT.glob(f"{folder}/**/*.md")
    yield CHECKOUT / "results" / "README.md"


PAGES = sorted(pages())


def lines(page: Path) -> list[str]:
    return page.read_text(encoding="utf-8").splitlines()


def anchors(page: Path) -> set[str]:
    """The addresses of a page's headings, as GitHub makes them."""
    headings = [re.sub(r"[`*]", "", line.lstrip("#")).strip().lower() for line in lines(page) if line.startswith("#")]
    return {re.sub(r"[^a-z0-9_ -]", "", heading).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", sorted((CHECKOUT / "docs").rglob("*.yaml")), ids=lambda path: path.name)
def test_scenarios_of_the_pages_load(path: Path) -> None:
    assert read_scenario(str(path), search=CHECKOUT / "scenarios").claims


def test_all_pages_together_are_short() -> None:
    assert sum(len(lines(page)) for page in PAGES) <= TOGETHER


@pytest.mark.parametrize("name", MOST)
def test_a_page_keeps_to_its_length(name: str) -> None:
    assert len(lines(CHECKOUT / name)) <= MOST[name]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_every_link_leads_to_a_page_and_a_heading(page: Path) -> None:
    for address in _LINK.findall(page.read_text(encoding="utf-8")):
        if address.startswith(("http://", "https://")):
            continue
        file, _, anchor = address.partition("#")
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), address
        assert not anchor or anchor in anchors(target), address


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=lambda page: str(page.relative_to(CHECKOUT))
)
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    named = {name for name in _FILE.findall(page.read_text(encoding="utf-8")) if not _PLACEHOLDERS.search(name)}
    assert [name for name in sorted(named) if not any(CHECKOUT.glob(name))] == []


FAST = [one for one in shown(PAGE.read_text()) if not one.slow and "linux" not in one.command]


@pytest.mark.parametrize("one", FAST, ids=lambda one: str(one.command))
def test_a_command_prints_what_the_page_shows(one: Shown, tmp_path: Path) -> None:
    assert one.output, "the page shows no output: python -m tests.unit.tutorial_page"
    assert steady(Place(tmp_path).execute(one.command)) == steady(one.output)


def test_a_page_is_read_and_written() -> None:
    text = "Text.\n\n```\n$ one\na\nb\n$ two\n```\n\n```yaml\n$ no: command\n```\n"
    assert list(shown(text)) == [Shown("one", "a\nb\n"), Shown("two", "")]
    assert written(text, {"two": "c\n"}) == text.replace("$ two\n", "$ two\nc\n")
    assert steady("commit 816a1bc in 2.5 s") == steady("commit 31e5eaf08529 in 31 s")
    assert steady("--tree /tmp/x/linux/clone.git") == steady("--tree linux/clone.git")


def test_the_page_goes_from_a_report_to_a_patch() -> None:
    words = [one.command.split()[:2] for one in shown(PAGE.read_text()) if one.command.startswith("blklab")]
    assert [word for _, word in words] == ["draft", "show", "run", "run", "bisect", "patch"]


WORKFLOWS = ("ci", "nightly")


def workflow(checkout: Path, name: str) -> str:
    return (checkout / ".github" / "workflows" / f"{name}.yaml").read_text()


def steps(checkout: Path, name: str) -> list[dict[str, Any]]:
    jobs = yaml.safe_load(workflow(checkout, name))["jobs"]
    return [step for job in jobs.values() for step in job["steps"]]


def test_every_workflow_is_looked_at(checkout: Path) -> None:
    assert {path.stem for path in (checkout / ".github" / "workflows").iterdir()} == set(WORKFLOWS)


@pytest.mark.parametrize("name", WORKFLOWS)
def test_actions_have_a_version_and_scripts_are_there(checkout: Path, name: str) -> None:
    used = [step["uses"] for step in steps(checkout, name) if "uses" in step]
    assert used
    assert [one for one in used if not re.fullmatch(r"actions/[a-z-]+@v\d+", one)] == []
    assert "://" not in workflow(checkout, name)
    called = re.findall(r"(?:scripts|\.ci)/\w+", workflow(checkout, name))
    assert called
    assert [one for one in called if not (checkout / one).is_file()] == []


def test_the_nightly_commands_are_understood(checkout: Path) -> None:
    text = workflow(checkout, "nightly")
    values = {"$KERNELS": "debian:6.1 debian:7.2", "$SCENARIOS": "shared-queue", "$SHARD": "2/12"}
    for name, value in values.items():
        text = text.replace(name, value)
    lines = re.findall(r"scripts/run (blklab|python -m tools\.evidence) (.*?)(?:\)| \|\|| >|$)", text, re.MULTILINE)
    product, tool = build_parser(), Parser()
    tool.take(MeasureEvidence)
    used = [(tool if "tools" in program else product, shlex.split(words)) for program, words in lines]
    assert [words[0] for parser, words in used if parser is product] == ["matrix", "matrix", "report", "track"]
    parsed = [parser.parse(words) for parser, words in used]
    assert [command.names for command in parsed if isinstance(command, MeasureEvidence)] == [["clocks"]]


def test_jobs_wait_for_those_whose_results_they_read(checkout: Path) -> None:
    jobs = yaml.safe_load(workflow(checkout, "nightly"))["jobs"]
    assert jobs["verdict"]["needs"] == "measure"
    assert jobs["measure"]["strategy"]["fail-fast"] is False
    assert set(re.findall(r"matrix\.(\w+)", str(jobs["measure"]))) == {"shard"}
    (of,) = set(re.findall(r"matrix\.shard }}/(\d+)", str(jobs["measure"])))
    assert jobs["measure"]["strategy"]["matrix"]["shard"] == list(range(1, int(of) + 1))
