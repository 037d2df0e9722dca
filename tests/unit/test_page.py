# SPDX-License-Identifier: GPL-2.0-only
"""``blklab report``: the page of a run, without a browser."""

import re
from pathlib import Path

import pytest

from harness.cli import main
from harness.judge.ensemble import Ensemble
from harness.metrics.occupancy import DiskTime
from harness.metrics.use import Held, LoadUse
from harness.noise import Interval
from harness.report.drawing.boxes import drawing
from harness.report.drawing.chart import Axis, StripRow, fitting, logarithmic, strip
from harness.report.drawing.layout import topology_figure
from harness.report.page.charts import distribution, latency_charts
from harness.report.page.render import kind
from harness.scenario.model import Bound, Status
from lab.base.errors import EXIT_MISUSE, EXIT_PASS
from lab.topology.load import load_topology
from tests.unit.analysis_samples import cell, scenario
from tests.unit.page_samples import HOSTILE, Page, page_run

AT_LEAST = Bound(">= 0.9", 0.9, None)


def page_of(folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["report", str(folder)]) == EXIT_PASS
    path = Path(capsys.readouterr().out.strip())
    assert path.name == "report.html"
    return path.read_text()


def test_the_page_of_a_run_has_its_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = page_run(tmp_path)
    text = page_of(run.path, capsys)
    page = Page(text)
    assert page.wrong == [] and list(page.lacking()) == []
    assert {"claims", "controls", "report", "measured", "time", "topology", "repeat", "how"} <= set(page.ids)
    assert "1 claim held (3 seeds)" in page.text
    assert "blklab run sample --kernel debian:6.1 --arm red --seeds 3" in page.text
    assert page.headings[0] == 1 and page.headings.count(1) == 1
    assert page.elements["caption"] == page.elements["table"] > 0
    assert len(re.findall(r'role="img">\s*<title>\S', text)) == text.count('role="img"') > 4


def test_nothing_comes_from_elsewhere_and_nothing_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = page_of(page_run(tmp_path).path, capsys)
    page = Page(text)
    assert page.elements["script"] == page.elements["iframe"] == page.elements["img"] == 0 == len(page.handlers)
    assert [target for target in page.targets if not target.startswith(("#", "data:,", "boots/"))] == []
    assert "@import" not in text and "url(" not in text
    assert "default-src 'none'" in text


def test_what_others_wrote_stays_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = page_of(page_run(tmp_path, hostile=HOSTILE).path, capsys)
    page = Page(text)
    assert page.wrong == []
    assert page.elements["script"] == page.elements["img"] == 0 and page.elements["style"] == 1
    assert page.handlers == []
    # In the title, a claim, the kernel, the drawing, the arms and the reason for which a boot counts for nothing.
    assert page.text.count(HOSTILE) > 10


def test_the_page_goes_where_it_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, target = page_run(tmp_path), tmp_path / "page.html"
    assert main(["report", str(run.path), "--out", str(target)]) == EXIT_PASS
    assert target.read_text().startswith("<!DOCTYPE html>")
    assert main(["report", str(tmp_path / "nothing")]) == EXIT_MISUSE
    assert "remedy" in capsys.readouterr().err


@pytest.mark.parametrize("status", list(Status))
def test_every_status_has_a_mark_and_a_colour(status: Status) -> None:
    templates = Path(__file__).parents[2] / "harness" / "report" / "page" / "templates"
    assert f'id="mark-{kind(status)}"' in (templates / "base.html").read_text()
    assert f".{kind(status)} {{ color:" in (templates / "style.css").read_text()


def test_ticks_are_round_and_few() -> None:
    assert [tick.label for tick in Axis(0, 1.07, 0, 100).ticks()] == ["0", "0.5", "1"]
    assert [tick.label for tick in Axis(0.88, 1.04, 0, 100).ticks()] == ["0.9", "0.95", "1"]
    assert [tick.label for tick in Axis(0, 16_500, 0, 100).ticks()] == ["0", "5,000", "10,000", "15,000"]
    assert [tick.at for tick in Axis(0, 2, 10, 110).ticks(2)] == [10, 60, 110]
    assert Axis(1, 100, 0, 100, logarithmic=True).values() == (1, 10, 100)
    assert Axis(2, 9, 0, 100, logarithmic=True).values() == (2, 5)


def test_an_axis_starts_at_zero_unless_everything_is_far_from_it() -> None:
    assert fitting([0.1, 1.0], 0, 1).low == 0
    assert 0.8 < fitting([0.9, 1.0], 0, 1).low < 0.9
    assert fitting([0.0], 0, 1).at(0.0) == 0
    alone = logarithmic([100.0], 0, 100)
    assert alone.low < 50 and alone.high > 200 and alone.at(100.0) == pytest.approx(50, abs=0.1)


def places(drawn: str | None, kind: str) -> list[tuple[float, ...]]:
    """The numbers in the elements of a class."""
    elements = re.findall(rf'<(?:path|circle|rect) class="{kind}"([^>]*)>', drawn or "")
    return [tuple(map(float, re.findall(r"-?[\d.]+", element))) for element in elements]


def test_a_strip_shows_seeds_inside_and_outside() -> None:
    drawn = strip("kept", [StripRow("6.1", Ensemble({1: 0.95, 2: 0.5})), StripRow("6.12")], AT_LEAST)
    ((inside, *_),) = places(drawn, "dot")
    ((outside, *_),) = places(drawn, "miss-dot")
    ((start, _, width, *_),) = places(drawn, "band")
    assert outside < start < inside < start + width
    assert drawn is not None and drawn.count("not measured") == 2
    assert "<title>seed 1: 0.9500</title>" in drawn and "<title>seed 2: 0.5000, outside</title>" in drawn
    title = "kept: 6.1: 0.7250 [0.5000 .. 0.9500]; 6.12: not measured, expected &gt;= 0.9"
    assert f"<title>{title}</title>" in drawn
    assert strip("kept", [StripRow("")], AT_LEAST) is None


def test_on_the_wall_clock_the_interval_is_drawn() -> None:
    true = Interval(0.8, 1.0, 0.9, 0.025, 6)
    drawn = strip("kept", [StripRow("", Ensemble({1: 0.85, 2: 0.95}), true)], AT_LEAST)
    ((low, _, high),) = places(drawn, "true")
    ((least, _, most),) = places(drawn, "range")
    assert low < least < most < high


def test_the_report_stands_in_the_strip() -> None:
    drawn = strip("told", [StripRow("", Ensemble({1: 0.6}))], reported=0.62)
    ((told, *_),) = places(drawn, "told")
    ((median, *_),) = places(drawn, "median")
    assert told > median
    assert drawn is not None and ">reported 0.62</text>" in drawn


def test_few_requests_have_no_tail() -> None:
    seen = {("solo", "fast", f"lat.{name}"): value for name, value in (("p50", 1e6), ("p99.9", 2e6), ("max", 3e6))}
    many, few = cell("none", 1, 95.0), cell("none", 1, 95.0)
    many.figures.update(seen | {("solo", "fast", "total_ios"): 5000.0})  # type: ignore[attr-defined]
    few.figures.update(seen | {("solo", "fast", "total_ios"): 500.0})  # type: ignore[attr-defined]
    assert set(distribution([many], "none", "solo", "fast")) == {"p50", "p99.9", "max"}
    assert set(distribution([few], "none", "solo", "fast")) == {"p50", "max"}
    (drawn,) = latency_charts(scenario(), [many])
    ((median, *_),), ((slowest, *_),) = places(drawn["svg"], "middle"), places(drawn["svg"], "slowest")
    assert median < slowest
    assert "<title>Latency of fast under load solo: none p50 1 ms, p99.9 2 ms, max 3 ms</title>" in drawn["svg"]


def test_the_drawing_has_the_use_of_each_part() -> None:
    topology = load_topology("sun-j4400-multipath", near=Path())
    use = LoadUse(
        0.5,
        disks={name: DiskTime(0.25 if place else 1.0) for place, name in enumerate(topology.disks)},
        links=dict.fromkeys(topology.links, 0.97),
        hosts={name: Held(topology.hbas[name].can_queue / 2, {}) for name in topology.hbas},
    )
    boxes = {box.title: box for way in drawing(topology, {"all": use}).ways for box in way}
    assert [meter.words for meter in boxes["mpt0"].meters] == ["50 %"]
    assert [meter.words for meter in boxes["pcie0"].meters] == ["97 %"]
    assert any(meter.words == "28 %, most 100 %" for box in boxes.values() for meter in box.meters)
    drawn = topology_figure(topology, "a <title>", {"all": use})
    assert "<title>a &lt;title&gt;</title>" in drawn and "<style" not in drawn
    assert len(re.findall(r'class="used full"', drawn)) == len(topology.links)
    assert "all 97 %" in drawn
    assert all(not box.meters for way in drawing(topology).ways for box in way)
