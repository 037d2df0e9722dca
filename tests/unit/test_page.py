# SPDX-License-Identifier: GPL-2.0-only
"""Pages: of a run, a matrix, a results root, and a scenario's history."""

import re
import webbrowser
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.base.files import write_json
from harness.cli import main
from harness.commands.verdict import explained
from harness.figures.samples import DiskTime, Held, LoadUse, Series
from harness.grid.page import (
    compared,
    entries,
    heat_rows,
    margin,
    newest,
    of_matrix,
)
from harness.judge.cells import Ensemble
from harness.judge.difference import Precision
from harness.judge.verdict import judge
from harness.noise import Interval
from harness.record.grid import Grid, GridCell, new_grid
from harness.record.judging import Run, judge_run, results_of
from harness.record.store import KernelFacts, RunFolder, Store, with_checksums
from harness.report.charts import Axis, Occupancy, StripRow, fitting, logarithmic, strip
from harness.report.html import kind
from harness.report.page import distribution, figure_rows, latency_charts, run_page
from harness.report.topology import Box, BoxTree, branches
from harness.scenario.model import Bound, KnownFailure, Status
from harness.scenario.timing import Clock
from lab.base.errors import EXIT_MISUSE, EXIT_PASS
from lab.topology.load import load_topology
from tests.unit.analysis_samples import cell, ratio, scenario
from tests.unit.page_samples import HOSTILE, Page, page_run

GOOD, BAD = {"none": 95, "red": 5}, {"none": 50, "red": 5}


def of_kernel(run: RunFolder, spec: str, mutant: str = "") -> RunFolder:
    """The same run, said to be of another provider's kernel."""
    facts = replace(run.facts, kernel=replace(run.facts.kernel, spec=spec, mutant=mutant))
    write_json(run.path / "run.json", with_checksums(facts, (run.path / "scenario.json").read_bytes()))
    return replace(run, facts=facts)


def written(folder: Path, capsys: pytest.CaptureFixture[str]) -> Page:
    """The page of a folder, in which nothing comes from elsewhere and nothing runs."""
    assert main(["report", str(folder)]) == EXIT_PASS
    path = Path(capsys.readouterr().out.strip())
    page = Page(path.read_text())
    assert path.name == "report.html"
    assert page.wrong == [] and list(page.lacking()) == []
    assert page.elements["script"] == page.elements["img"] == page.elements["iframe"] == 0 == len(page.handlers)
    assert page.elements["style"] == 1 and "default-src 'none'" in page.source
    assert "@import" not in page.source and "url(" not in page.source
    assert [target for target in page.targets if not target.startswith(("#", "data:,", "boots/"))] == []
    return page


def test_a_results_root_has_a_heat_map_that_can_be_mailed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [page_run(tmp_path, GOOD), page_run(tmp_path, BAD, release="6.12.1-amd64")]
    page = written(tmp_path, capsys)
    assert {"map", "kernels", "c-sample"} <= set(page.ids)
    assert "Do the claims of sample hold on Linux 6.1 and 6.12?" in page.text
    # 51, 52 and 53 of the bound's 100; before, 96 to 98.
    assert "1 of 1 hold" in page.text and "1 of 1 fails0.5200, expected >= 0.9" in page.text
    assert "Runs of these figures, on 7.2.22." in page.text
    assert all(str(run.path.relative_to(tmp_path.resolve())) in page.text for run in runs)


def test_the_newest_run_of_a_kernel_counts_and_builds_are_apart(tmp_path: Path) -> None:
    old, new = page_run(tmp_path, BAD), page_run(tmp_path, GOOD)
    own = of_kernel(page_run(tmp_path, GOOD), "source:6.1")
    broken = of_kernel(page_run(tmp_path, BAD), "source:6.1", "no-fair-tags")
    found = newest(Store(tmp_path), lambda text: None)
    assert [column.label for column in found.columns] == ["6.1", "6.1 source", "6.1 source no-fair-tags"]
    entries = [entry for _, entry in found.row("sample")]
    runs = [entry.result.folder.path for entry in entries if entry and entry.result]
    assert runs == [new.path, own.path, broken.path] and old.path not in runs
    assert [entry.status for entry in entries if entry] == ["PASS", "PASS", "FAIL"]


def test_variants_of_a_scenario_have_no_row(tmp_path: Path) -> None:
    page_run(tmp_path, GOOD)
    variant = page_run(tmp_path, GOOD).path
    (tmp_path / "sample.proof").mkdir()
    variant.rename(tmp_path / "sample.proof" / variant.name)
    assert newest(Store(tmp_path), lambda text: None).scenarios == ("sample",)


def test_kernels_are_sorted_by_version(tmp_path: Path) -> None:
    for release in ("6.12.1-amd64", "5.10.0-46-amd64", "6.1.0-18-amd64"):
        page_run(tmp_path, GOOD, release=release)
    assert [column.label for column in newest(Store(tmp_path), lambda text: None).columns] == ["5.10", "6.1", "6.12"]


def test_a_matrix_has_its_kernels_by_version_and_its_failures_first(tmp_path: Path) -> None:
    runs = [page_run(tmp_path, GOOD, release=release) for release in ("6.12.1-amd64", "5.10.0-46-amd64")]
    cells = [
        GridCell(name, "d" * 64, run.facts.kernel, Clock.VIRTUAL, status=status, run=_place(run, tmp_path))
        for name, status in (("good", Status.PASS), ("bad", Status.FAIL))
        for run in runs
    ]
    found = of_matrix(tmp_path, new_grid(tmp_path, Grid("", tuple(cells))).grid)
    assert [column.says.split("-")[0] for column in found.columns] == ["5.10.0", "6.12.1"]
    assert found.scenarios == ("bad", "good")


def test_scenarios_that_failed_are_open(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page_run(tmp_path, GOOD)
    (tmp_path / "other").mkdir()
    broken = page_run(tmp_path, BAD)
    broken.path.rename(tmp_path / "other" / broken.path.name)
    page = written(tmp_path, capsys).source
    bad, good = (page.index(f'aria-labelledby="s-{name}"') for name in ("other", "sample"))
    assert bad < good
    assert "<details open><summary>Claims" in page[bad:good]
    assert "<details open>" not in page[good:]


def test_a_run_shows_what_was_not_measured_and_what_failed_first(tmp_path: Path) -> None:
    run = page_run(tmp_path, BAD, hostile="x")
    model = replace(
        run.scenario, claims=(replace(run.scenario.claims[0], expect=Bound("> 0", 0.0, None)), *run.scenario.claims)
    )
    verdict = judge(model, results_of(run), seeds=run.facts.seeds)
    changed = replace(run, scenario=model)
    page = run_page(changed, explained(changed, verdict))
    assert page.index('id="incidents"') < page.index('id="claims"') < page.index('id="controls"')
    words = re.findall(r'#mark-(\w+)"', page[page.index('id="claims"') : page.index('id="controls"')])
    assert words == ["fail", "pass"]


def test_what_failed_is_told_with_its_figure_before_anything_else(tmp_path: Path) -> None:
    run = page_run(tmp_path, BAD)
    text = run_page(run, explained(run, judge_run(run)))
    head = text[text.index("<h1>") : text.index("<nav")]
    assert re.match(r"<h1><span class=.badge fail.>.*FAIL</span> sample on Linux 6.1", head)
    assert "<b>0.5200 [0.5100 .. 0.5300]</b>, expected &gt;= 0.9" in head


def test_a_mean_above_p99_has_its_reason() -> None:
    """Of 10,000 I/Os 50 wait 2 s: p99 is that of the others, and the mean above it."""
    seen = {"lat.mean": 1e7, "lat.p99": 2e6, "lat.max": 2e9}
    boot = cell("none", 1, 95.0)
    boot.figures.update({("together", "fast", name): value for name, value in seen.items()})  # type: ignore[attr-defined]
    rows = {(row["load"], row["role"]): row for row in figure_rows(judge(scenario(), [boot]), Precision(exact=True))}
    assert rows["together", "fast"]["skewed"] == "above p99: the slowest I/O took 2 s"
    assert rows["together", "slow"]["skewed"] == ""
    boot.figures["together", "fast", "lat.mean"] = 1e6  # type: ignore[index]
    assert not any(row["skewed"] for row in figure_rows(judge(scenario(), [boot]), Precision(exact=True)))


def test_a_matrix_has_its_own_cells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = page_run(tmp_path, GOOD)
    gone = KernelFacts("debian:9.9", "", "", "")
    cells = (
        GridCell("sample", "d" * 64, run.facts.kernel, Clock.VIRTUAL, status=Status.PASS, run=_place(run, tmp_path)),
        GridCell("sample", "d" * 64, gone, Clock.VIRTUAL, status=Status.MISS, reason=f"no kernel 9.9 {HOSTILE}"),
        GridCell("other", "e" * 64, run.facts.kernel, Clock.VIRTUAL),
    )
    matrix = new_grid(tmp_path, Grid("", cells))
    page = written(matrix.path, capsys)
    assert "no kernel 9.9" in page.text and "not run" in page.text and "not ended" in page.text
    started = matrix.grid.started
    assert f"started {started[:10]} {started[11:16]} UTC, not ended." in page.text
    assert "Do the claims of sample and other hold on Linux 6.1 and debian:9.9?" in page.text
    assert _place(run, tmp_path) in page.text


def test_many_scenarios_and_kernels_are_counted_in_the_question(tmp_path: Path) -> None:
    run = page_run(tmp_path, GOOD)
    kernels = [replace(run.facts.kernel, release=f"6.{minor}.1") for minor in range(1, 6)]
    cells = [GridCell(f"s{n}", "d" * 64, kernel, Clock.VIRTUAL) for kernel in kernels for n in range(5)]
    found = of_matrix(tmp_path, new_grid(tmp_path, Grid("", tuple(cells))).grid)
    assert found.title == "Do the claims of 5 scenarios hold on 5 kernels, 6.1 to 6.5?"


def _place(run: RunFolder, root: Path) -> str:
    return str(run.path.relative_to(root.resolve()))


def test_a_history_has_every_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for shares in (GOOD, BAD, GOOD):
        page_run(tmp_path, shares)
    page = written(tmp_path / "sample", capsys)
    assert "3 runs" in page.text
    assert page.text.count("blklab run sample") == 3
    assert page.text.count("-46.4 % *") == 1, "the second run differs from the first, the third does not"


def test_what_others_wrote_stays_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the title, a claim, the kernel, the drawing, the arms and the reason for which a boot counts for nothing."""
    run = page_run(tmp_path, GOOD, hostile=HOSTILE)
    for folder, least in ((tmp_path, 1), (tmp_path / "sample", 1), (run.path, 10)):
        assert written(folder, capsys).text.count(HOSTILE) > least


def test_nothing_to_show_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path)]) == EXIT_MISUSE
    assert "holds no judged run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("value", "expect", "room"),
    [
        (0.99, Bound(">= 0.9", 0.9, None), 0.1),
        (0.45, Bound(">= 0.9", 0.9, None), -0.5),
        (0.04, Bound("<= 0.05", None, 0.05), 0.2),
        (1.0, Bound("0.9 .. 1.1", 0.9, 1.1), 1.0),
        (1.09, Bound("0.9 .. 1.1", 0.9, 1.1), 0.1),
        (1.2, Bound("0.9 .. 1.1", 0.9, 1.1), -1.0),
        (0.5, Bound("> 0", 0.0, None), 0.5),
    ],
)
def test_the_margin_of_a_claim(value: float, expect: Bound, room: float) -> None:
    assert margin(value, expect) == pytest.approx(room)


def test_a_claim_close_to_its_bound_is_marked(tmp_path: Path) -> None:
    page_run(tmp_path / "close", {"none": 90, "red": 5})
    page_run(tmp_path / "far", {"none": 200, "red": 5})
    for name, near in (("close", True), ("far", False)):
        ((cell,),) = (row["cells"] for row in heat_rows(newest(Store(tmp_path / name), lambda text: None)))
        assert (cell["near"], cell["word"]) == (near, "PASS")


def test_a_claim_that_fails_as_known_does_not_hold(tmp_path: Path) -> None:
    page_run(tmp_path, BAD)
    collection = newest(Store(tmp_path), lambda text: None)
    ((place, entry),) = collection.cells.items()
    assert entry.result is not None
    verdict = entry.result.verdict
    known = replace(verdict.claims[0], known=KnownFailure("6.1", "it is old", "https://example.org/"))
    result = replace(entry.result, verdict=replace(verdict, claims=(known, known)))
    changed = replace(collection, cells={place: replace(entry, result=result)})
    ((cell,),) = (row["cells"] for row in heat_rows(changed))
    assert cell["claims"] == "0 of 2 hold, 2 fail as known"


def test_kernels_differ_only_where_their_ranges_do(tmp_path: Path) -> None:
    runs = [page_run(tmp_path, shares) for shares in ({"none": 100, "red": 5}, {"none": 101, "red": 50})]
    rows = [(str(place), Run(run, judge_run(run))) for place, run in enumerate(runs)]
    changes = {(row["arm"], row["load"], row["role"]): row["cells"][1][2] for row in compared(rows)}
    assert changes["none", "together", "fast"] == "~"
    assert changes["red", "together", "fast"] == "+642.9 % *"
    (claim,) = entries(rows, "claims", "expected")
    assert [(label, word) for label, word, _ in claim["words"]] == [("0", "PASS"), ("1", "PASS")]
    assert [
        claim["strip"].count(f'<text class="" x="2" y="{y}">{row}</text>') for row, y in (("0", 37), ("1", 59))
    ] == [1, 1]


def test_claims_that_change_come_first(tmp_path: Path) -> None:
    """The first claim fails everywhere; the second turns; the third only has another figure, the fourth the same."""
    shares = ({"none": 50, "red": 5}, {"none": 95, "red": 5})
    runs = [page_run(tmp_path, each) for each in shares]
    (first,) = runs[0].scenario.claims
    red = ratio("red.together.fast.iops", "bound.red.together.fast.iops")
    every = (
        replace(first, that="fails", ratio=red),
        replace(first, that="same", ratio=red, expect=Bound("> 0", 0.0, None)),
        replace(first, that="moves", expect=Bound("> 0", 0.0, None)),
        replace(first, that="turns"),
    )
    model = replace(runs[0].scenario, claims=every)
    rows = [
        (run.path.name, Run(replace(run, scenario=model), judge(model, results_of(run), seeds=(1, 2, 3))))
        for run in runs
    ]
    assert [part["that"] for part in entries(rows, "claims", "expected")] == ["turns", "moves", "fails", "same"]


AT_LEAST = Bound(">= 0.9", 0.9, None)


def test_the_page_of_a_run_has_its_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = written(page_run(tmp_path).path, capsys)
    text = page.source
    assert {"claims", "controls", "report", "measured", "time", "topology", "repeat", "how"} <= set(page.ids)
    assert text.count('<ul class="legend">') == text.count('<ul class="legend"><li>') > 0
    assert "1 claim held (3 seeds)" in page.text
    assert "blklab run sample --kernel debian:6.1 --arm red --seeds 3" in page.text
    assert page.headings[0] == 1 and page.headings.count(1) == 1
    assert (
        re.search(r"<h1><span class=.badge pass.>.*PASS</span> sample on Linux 6.1", text)
        and 'class="unmet"' not in text
    )
    assert page.elements["caption"] == page.elements["table"] > 0
    assert len(re.findall(r'role="img">\s*<title>\S', text)) == text.count('role="img"') > 4


def test_the_page_goes_where_it_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, target = page_run(tmp_path), tmp_path / "page.html"
    assert main(["report", str(run.path), "--out", str(target)]) == EXIT_PASS
    assert target.read_text().startswith("<!DOCTYPE html>")
    assert main(["report", str(tmp_path / "nothing")]) == EXIT_MISUSE
    assert "remedy" in capsys.readouterr().err


def test_results_are_found_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = page_run(tmp_path / "kept")
    (tmp_path / "kept/sample/latest").unlink(missing_ok=True)
    (tmp_path / "kept/sample/latest").symlink_to(run.path.name)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setenv("BLKLAB_RESULTS", str(tmp_path / "kept"))
    monkeypatch.chdir(tmp_path / "elsewhere")
    for words in (["report", "results/sample/latest"], ["judge", "-q", "results/sample/latest"]):
        assert main(words) == EXIT_PASS
    assert (run.path / "report.html").is_file()
    assert main(["report", "results/none"]) == EXIT_MISUSE


def test_the_page_is_opened_or_its_path_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, opened = page_run(tmp_path), list[str]()

    def opens(address: str) -> bool:
        opened.append(address)
        return True

    monkeypatch.setattr(webbrowser, "open", opens)
    assert main(["report", str(run.path), "--open"]) == EXIT_PASS
    assert opened == [(run.path / "report.html").as_uri()]
    assert "browser" not in capsys.readouterr().err
    monkeypatch.setattr(webbrowser, "open", lambda address: False)
    assert main(["report", str(run.path), "--open"]) == EXIT_PASS
    said = capsys.readouterr()
    assert str(run.path / "report.html") in said.out and "name one in BROWSER" in said.err


@pytest.mark.parametrize("status", list(Status))
def test_every_status_has_a_mark_and_a_colour(status: Status) -> None:
    templates = Path(__file__).parents[2] / "harness" / "report" / "templates"
    assert f'id="mark-{kind(status)}"' in (templates / "base.html").read_text()
    assert f".{kind(status)} {{ color:" in (templates / "style.css").read_text()


def test_ticks_are_round_and_few_and_an_axis_starts_at_zero_unless_everything_is_far_from_it() -> None:
    assert [label for _, label in Axis(0, 1.07, 0, 100).ticks()] == ["0", "0.5", "1"]
    assert [label for _, label in Axis(0.88, 1.04, 0, 100).ticks()] == ["0.9", "0.95", "1"]
    assert [label for _, label in Axis(0, 16_500, 0, 100).ticks()] == ["0", "5,000", "10,000", "15,000"]
    assert [at for at, _ in Axis(0, 2, 10, 110).ticks(2)] == [10, 60, 110]
    assert Axis(1, 100, 0, 100, logarithmic=True).values() == (1, 10, 100)
    assert Axis(2, 9, 0, 100, logarithmic=True).values() == (2, 5)
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


def test_a_strip_has_the_interval_of_the_wall_clock_and_the_report() -> None:
    true = Interval(0.8, 1.0, 0.9, 0.025, 6)
    drawn = strip("kept", [StripRow("", Ensemble({1: 0.85, 2: 0.95}), true)], AT_LEAST)
    ((low, _, high),) = places(drawn, "true")
    ((least, _, most),) = places(drawn, "range")
    assert low < least < most < high
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


def test_tags_over_time_have_a_line_each_or_the_luns_one_together_and_the_limits_that_are_near() -> None:
    """A window of 2 s in two parts, and one in which a part has no sample; a limit of 100 is beyond twice the tags."""

    def held(*parts: float | None) -> Series:
        return Series(10, 40, 8, 0, {}, parts)

    host, limits = {"h": held(4.0, 8.0)}, [(9, "cmd_per_lun 9"), (100, "can_queue 100")]
    few = Occupancy(host, {"LUN a": held(None, 8.0)}, limits, 2e9)
    assert (few.lines, few.note) == (["h", "LUN a"], "can_queue 100: above the chart")
    drawn = few.svg("Tags", "seconds")
    assert "<title>Tags: h 4 in the mean, 8 at most; LUN a 4 in the mean, 8 at most</title>" in drawn
    assert drawn.count(">cmd_per_lun 9</text>") == 1 and "can_queue" not in drawn
    assert re.search(r'class="series s0" d="M[\d. ]+L[\d. ]+"', drawn)
    ((left, low, right, high),) = places(drawn, "series s0")
    assert left < right and high < low, "the second half is to the right, and above"
    assert [len(line) for line in places(drawn, "series s1")] == [2]
    many = Occupancy(host, {f"LUN {number}": held(float(number), 8.0) for number in range(5)}, limits, 2e9)
    assert many.lines == ["h", "mean and range of 5 LUNs"]
    ((*lower, _, _, _, _),) = places(many.svg("Tags", "seconds"), "spread a1")
    ((_, mean, _, _),) = places(many.svg("Tags", "seconds"), "series s1")
    assert lower[1] > mean > low, "the mean of 0 to 4 is above their minimum and below the 4 of the host"


def test_the_drawing_has_the_use_of_each_part() -> None:
    topology = load_topology("sun-j4400-multipath", near=Path())
    use = LoadUse(
        0.5,
        disks={name: DiskTime(0.25 if place else 1.0) for place, name in enumerate(topology.disks)},
        links=dict.fromkeys(topology.links, 0.97),
        hosts={name: Held(topology.hbas[name].can_queue / 2, {}) for name in topology.hbas},
    )
    boxes = {box.title: box for branch in branches(topology, {"all": use}) for box in every_box(branch)}
    assert [meter.text for meter in boxes["mpt0"].meters] == ["50 %"]
    assert [meter.text for meter in boxes["pcie0"].meters] == ["97 %"]
    assert any(meter.text == "28 %, most 100 %" for box in boxes.values() for meter in box.meters)
    assert all(not box.meters for branch in branches(topology) for box in every_box(branch))


def every_box(branch: BoxTree) -> Iterator[Box]:
    yield branch.box
    for below in branch.below:
        yield from every_box(below)
