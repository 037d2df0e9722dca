# SPDX-License-Identifier: GPL-2.0-only
"""Pages in a real browser: nothing is said, nothing is fetched, everything has a name, and a phone can show it."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from harness.cli import main
from tests.process.browser import Browser, browser, program
from tests.unit.page_samples import HOSTILE, page_run
from tests.unit.test_hunt import told_story

pytestmark = pytest.mark.skipif(program() is None, reason="no Chromium here (apt-get install chromium)")

PHONE = 390
_CONTRAST = 4.5
_UNFOLD = "document.querySelectorAll('details').forEach(each => { each.open = true })"
_NAMED = {"image", "link", "table", "region", "navigation", "heading", "img"}
_COLOURS = """(() => {
  const over = node => { for (; node; node = node.parentElement) {
    const shown = getComputedStyle(node).backgroundColor;
    if (!/, 0\\)$/.test(shown)) return shown; }
    return "rgb(255, 255, 255)"; };
  const words = [...document.querySelectorAll("main *, header *")].filter(node => !node.closest("svg") &&
    [...node.childNodes].some(child => child.nodeType == 3 && child.textContent.trim()));
  return words.map(node => [node.textContent.trim().slice(0, 40), getComputedStyle(node).color, over(node)]);
})()"""


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="module", params=["run", "set", "history"])
def page(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    root = tmp_path_factory.mktemp("results")
    run = page_run(root, hostile=HOSTILE)
    page_run(root, {"none": 50, "red": 5}, release="6.12.1-amd64")
    return _written({"run": run.path, "set": root, "history": root / "sample"}[request.param])


def _written(folder: Path) -> Path:
    assert main(["report", str(folder)]) == 0
    return folder / "report.html"


@pytest.mark.parametrize("dark", [False, True])
def test_a_quiet_call_fetches_nothing(chromium: Browser, page: Path, dark: bool) -> None:
    chromium.open(page, dark=dark)
    assert chromium.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") is dark
    assert chromium.said == []
    assert chromium.requested == [page.resolve().as_uri()]


def test_the_browser_would_tell(chromium: Browser, tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text("<img src='file:///nowhere.png'><script>console.log('hello'); gone()</script>")
    chromium.open(bad)
    assert "file:///nowhere.png" in chromium.requested
    assert {event["method"] for event in chromium.said} >= {"Runtime.consoleAPICalled", "Runtime.exceptionThrown"}


def test_a_phone_scrolls_down_only(chromium: Browser, page: Path) -> None:
    chromium.open(page, width=PHONE, height=844)
    chromium.evaluate(_UNFOLD)
    assert chromium.evaluate("document.documentElement.scrollWidth") == PHONE
    # What is wider lies in boxes that scroll by themselves.
    wider = chromium.evaluate(
        "[...document.querySelectorAll('body *')].filter(node => node.getBoundingClientRect().right > innerWidth + 1 &&"
        " !node.closest('.scroll, pre')).map(node => node.outerHTML.slice(0, 80))"
    )
    assert wider == []


def test_a_phone_shows_every_column(chromium: Browser, page: Path) -> None:
    """No table is wider than its box, and each cell still has the name of its column."""
    chromium.open(page, width=375)
    chromium.evaluate(_UNFOLD)
    cut = "[...document.querySelectorAll('table')].filter(node => node.scrollWidth > node.parentNode.clientWidth)"
    assert chromium.evaluate(f"{cut}.map(node => node.parentNode.ariaLabel)") == []
    unnamed = "[...document.querySelectorAll('tbody td:not(.bars):not([data-label])')].filter(node => node.textContent)"
    assert chromium.evaluate(f"{unnamed}.map(node => node.textContent)") == []
    assert chromium.evaluate("document.querySelectorAll('tbody td[data-label]').length") > 10


def test_everything_has_a_name_for_those_who_listen(chromium: Browser, page: Path) -> None:
    chromium.open(page)
    chromium.evaluate(_UNFOLD)
    nodes = [(node["role"]["value"], node.get("name", {}).get("value", "").strip()) for node in chromium.accessible()]
    roles = {role for role, _ in nodes}
    assert {"image", "heading", "main"} <= roles | {"image" if "img" in roles else ""}
    assert [role for role, name in nodes if role in _NAMED and not name] == []
    levels = chromium.evaluate("[...document.querySelectorAll('h1,h2,h3,h4')].map(node => +node.tagName[1])")
    assert levels[0] == 1 and all(after <= before + 1 for before, after in pairwise(levels))
    assert chromium.evaluate("document.documentElement.lang") == "en"


@pytest.mark.parametrize("dark", [False, True])
def test_text_has_enough_contrast(chromium: Browser, page: Path, dark: bool) -> None:
    chromium.open(page, dark=dark)
    chromium.evaluate(_UNFOLD)
    words = chromium.evaluate(_COLOURS)
    assert len(words) > 20
    assert [text for text, ink, paper in words if _contrast(ink, paper) < _CONTRAST] == []


@pytest.mark.parametrize("dark", [False, True])
def test_the_story_of_a_find_has_contrast_and_fits_a_phone(chromium: Browser, tmp_path: Path, dark: bool) -> None:
    """Three columns of text; on a phone a cell says whose CPU it is, and empty ones are gone."""
    page = tmp_path / "story.html"
    page.write_text(told_story(tmp_path).page())
    chromium.open(page, dark=dark)
    assert chromium.said == []
    words = chromium.evaluate(_COLOURS)
    assert len(words) > 20
    assert [text for text, ink, paper in words if _contrast(ink, paper) < _CONTRAST] == []
    chromium.open(page, width=PHONE, height=844, dark=dark)
    assert chromium.evaluate("document.documentElement.scrollWidth") == PHONE
    shown = "[...document.querySelectorAll('td')].filter(node => node.offsetHeight).map(node => node.dataset.label)"
    assert chromium.evaluate(shown) == ["CPU 0", "CPU 1", "CPU 1", "CPU 1", "CPU 0"]


def _contrast(one: str, other: str) -> float:
    """WCAG 2.2, 1.4.3."""
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    red, green, blue = (int(part) / 255 for part in re.findall(r"\d+", colour)[:3])
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in (red, green, blue)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
