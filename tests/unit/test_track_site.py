# SPDX-License-Identifier: GPL-2.0-only
"""The pages, the feed and the mails of a tracker."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from harness.grid.lines import Kind
from harness.report.charts import multiples
from harness.track.site import Site, night_lines
from harness.track.state import Folder, Night
from tests.unit.track_samples import Effect, History, MadeUpTracker, made_up, patched_lab

EFFECTS = {"starves": Effect(together=0.5), "faster": Effect(together=1.02), "slower": Effect(together=0.98)}
ATOM = "{http://www.w3.org/2005/Atom}"


@pytest.fixture(scope="module")
def tracked(tmp_path_factory: pytest.TempPathFactory) -> MadeUpTracker:
    folder = tmp_path_factory.mktemp("site")
    history = History(folder / "linux")
    made = made_up(folder, history, EFFECTS)
    with pytest.MonkeyPatch.context() as patch:
        patched_lab(patch, made)
        made.tracker().night(history.git("rev-parse", "HEAD"))
        history.commit("block: <starve> & more", {"block/alpha/starve.c": "effect starves"})
        history.commit("harmless", {"block/beta/1.c": "layout 1"})
        made.tracker().night(history.commit("block: faster", {"block/beta/fast.c": "effect faster"}))
        made.tracker().night(history.commit("block: break", {"block/gamma/slow.c": "effect slower"}))
    return made


def written(tracked: MadeUpTracker) -> tuple[Folder, Night]:
    folder = Folder(tracked.root)
    folder.load()
    night = folder.track.nights[-1]
    order = tracked.history.git("rev-list", "--reverse", "main").splitlines()
    Site(folder, tracked.root / "runs", "/linux", order).write(night)
    return folder, night


@pytest.fixture(scope="module")
def site(tracked: MadeUpTracker) -> Path:
    written(tracked)
    return tracked.root / "site"


def test_the_first_page_begins_with_what_changed_last_night(site: Path) -> None:
    page = (site / "index.html").read_text()
    first, _, rest = page.partition("Still open")
    assert "What changed since last night" in first and "block: break" in first and "block: &lt;starve&gt;" not in first
    assert "block: &lt;starve&gt; &amp; more" in rest and "<starve>" not in page
    assert "block: faster" not in first, "an improvement of an earlier night is not open"
    assert page.count('<svg class="chart drawn"') == 3


def test_pages_have_no_script_and_every_link_leads_somewhere(site: Path) -> None:
    pages = sorted(site.glob("*.html"))
    assert [path.name for path in pages] == ["alarm-1.html", "alarm-2.html", "alarm-3.html", "index.html"]
    for path in pages:
        text = path.read_text()
        assert "<script" not in text and "://" not in re.sub(r"https?://www\.w3\.org\S*", "", text)
        links = re.findall(r'href="([^"#:]+)"', text)
        assert [link for link in links if not (site / link).is_file()] == []


def test_a_culprit_has_a_page_with_its_mail_and_commands(tracked: MadeUpTracker, site: Path) -> None:
    folder, _ = written(tracked)
    alarm = folder.track.alarms[0]
    page = (site / "alarm-1.html").read_text()
    assert f"blklab run alpha --kernel tree:/linux@{alarm.parent[:12]}" in page
    assert f"#regzbot introduced: {alarm.culprit}" in page
    assert "verified: parent good, culprit bad, another layout the same, revert good" in page
    assert alarm.moves[0].kind is Kind.CLAIM and alarm.moves[0].name == "the share is kept"


def test_the_feed_has_an_entry_for_each_alarm_the_newest_first(site: Path) -> None:
    feed = ET.fromstring((site / "feed.xml").read_text())  # noqa: S314 - of this program
    titles = [entry.findtext(f"{ATOM}title") or "" for entry in feed.iter(f"{ATOM}entry")]
    assert [title.partition(":")[0] for title in titles] == ["worse", "better", "worse"]
    assert next(entry.findtext(f"{ATOM}id") for entry in feed.iter(f"{ATOM}entry")) == "urn:blklab:track:alarm:3"
    assert feed.findtext(f"{ATOM}updated")


def test_the_kcidb_file_has_tests_and_an_issue_with_its_incident(site: Path) -> None:
    document = json.loads((site / "kcidb.json").read_text())
    assert {test["path"].split(".")[1] for test in document["tests"]} == {"alpha", "beta", "gamma"}
    ids = [(key, row["id"]) for key in ("checkouts", "builds", "tests") for row in document[key]]
    assert len(ids) == len(set(ids)) and len(document["builds"]) == 1
    (issue,), (incident,) = document["issues"], document["incidents"]
    assert incident["issue_id"] == issue["id"] and incident["build_id"] == document["builds"][0]["id"]


def test_mails_are_files_of_the_night_that_found_something_worse(tracked: MadeUpTracker, site: Path) -> None:
    folder, night = written(tracked)
    (path,) = sorted((tracked.root / "outbox").iterdir())
    (alarm,) = folder.track.of_night(night)
    assert path.name == f"0003-{alarm.culprit[:12]}.txt"
    assert path.read_text().startswith("Subject: [REGRESSION] gamma: ")


def test_a_night_is_told_in_a_few_lines(tracked: MadeUpTracker) -> None:
    folder, night = written(tracked)
    lines = [*night_lines(folder.track, night)]
    assert lines[0] == f"night 3, main at {night.head[:12]}: 1 worse"
    assert lines[1].startswith("  1 commit, 3 scenarios measured, 1 build, ") or "builds" in lines[1]


def test_a_scenario_that_the_kernel_cannot_run_is_not_called_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = History(tmp_path / "linux")
    made = made_up(tmp_path, history, EFFECTS)
    made.bench.lacks = {"beta": "6.12.7 has no module xfs"}
    patched_lab(monkeypatch, made)
    night = made.tracker().night(history.git("rev-parse", "HEAD"))
    _, took, *rest = night_lines(made.tracker().runs.folder.track, night)
    assert "2 scenarios measured" in took and rest == ["  beta is not measured: 6.12.7 has no module xfs"]


def test_a_chart_has_a_line_for_each_figure_and_a_mark_for_each_alarm() -> None:
    drawn = multiples("alpha", ["a" * 12, "b" * 12, "c" * 12], {"iops": [1.0, None, 0.5]}, {2: "worse: c"})
    assert drawn.count('<circle class="dot"') == 2
    assert "iops 50.00 % of the first value" in drawn and "<title>worse: c</title>" in drawn
