# SPDX-License-Identifier: GPL-2.0-only
"""The pages of docs/results have the text that their generators write today, and one kind of table."""

import re

import pytest

from harness.commands.common.options import PAGES
from harness.report import markdown
from harness.studies import field_reports
from harness.studies.zoo import page as zoo

PREFACES = {
    "field-reports": field_reports._PREFACE,
    "zoo": zoo._PREFACE,
}


@pytest.mark.parametrize("name", PREFACES)
def test_a_stored_page_starts_as_its_generator_writes_it(name: str) -> None:
    text = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    title = text.splitlines()[2].removeprefix("# ")
    command = name if name == "zoo" else "pages"
    lines = markdown.head(title, f"Generated from results by: blklab check {command}")
    assert text.startswith("\n".join((*lines, PREFACES[name])))


def test_a_table_escapes_what_would_end_a_cell() -> None:
    lines = list(markdown.table(("name", "a", "b"), [("x|y", "1\n2", "3")], numbers=2))
    assert lines == ["| name | a | b |", "|---|---:|---:|", r"| x\|y | 1 2 | 3 |"]


def test_a_section_without_a_body_is_left_out() -> None:
    assert list(markdown.section("Empty", [])) == []
    assert list(markdown.section("Full", ["x"])) == ["## Full", "", "x", ""]


@pytest.mark.parametrize("path", sorted(PAGES.glob("*.md")), ids=lambda path: path.stem)
def test_every_row_of_a_table_has_as_many_cells_as_its_head(path: object) -> None:
    width = 0
    for line in path.read_text(encoding="utf-8").splitlines():  # type: ignore[attr-defined]
        cells = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else 0
        assert not (width and cells) or cells == width, line
        width = cells
