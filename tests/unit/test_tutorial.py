# SPDX-License-Identifier: GPL-2.0-only
"""docs/first-steps.md: the commands that boot nothing print what the page shows."""

from pathlib import Path

import pytest

from tests.unit.tutorial_page import PAGE, Place, Shown, shown, steady, written

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
