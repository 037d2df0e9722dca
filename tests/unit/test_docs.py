# SPDX-License-Identifier: GPL-2.0-only
"""The documentation: short enough to be read, and no link leads nowhere."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
MOST = {"README.md": 150, "CHANGELOG.md": 60}
TOGETHER = 2800
_FOLDERS = "docs|harness|kconfigs|lab|requirements|scenarios|scripts|tests"
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


def test_all_pages_together_have_at_most_2800_lines() -> None:
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
