# SPDX-License-Identifier: GPL-2.0-only
"""JUnit, KTAP, kcidb and CSV, against recorded documents and against their own definitions."""

import csv
import io
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import kcidb_io  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.judge.cells import CellResult
from harness.judge.verdict import Verdict, judge
from harness.report.claims import JudgedRun
from harness.report.exports import COLUMNS, csv_table, junit_xml, kcidb_json, ktap
from harness.scenario.model import Scenario, Status
from tests.unit.analysis_samples import SEEDS, cell, cells, claim, control, scenario
from tests.unit.format_samples import FACTS, KNOWN, MODEL, RESULTS, TEST, everything, good

GOLDEN = Path(__file__).parent / "fixtures" / "formats"
FORMATS = {"junit.xml": junit_xml, "ktap": ktap, "kcidb.json": kcidb_json, "csv": csv_table}
WALLS = [("none", 1, {"boot": 7.25}), ("none", 2, {"boot": 1.5})]
CASES: dict[str, Callable[[], JudgedRun]] = {
    "everything": lambda: JudgedRun(MODEL, everything(), FACTS, WALLS),
    "good": good,
}


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("case", CASES)
def test_the_documents_are_as_recorded(case: str, ending: str) -> None:
    assert FORMATS[ending](CASES[case]()) == (GOLDEN / f"{case}.{ending}").read_text(encoding="utf-8")


@dataclass
class Test:
    """A KTAP result with its subtests."""

    __test__ = False

    good: bool
    name: str
    directive: str
    subtests: "list[Test]" = field(default_factory=list)

    def leaves(self) -> "Iterator[Test]":
        if not self.subtests:
            yield self
        for test in self.subtests:
            yield from test.leaves()


RESULT = re.compile(r"(ok|not ok) (\d+) ([^#]*?)(?: # (SKIP|TODO|XFAIL|TIMEOUT|ERROR)?\b ?.*)?")


def read_ktap(lines: list[str], indent: str = "") -> list[Test]:
    """The tests of one level, by the rules of ktap.rst; takes its lines from the front."""
    assert lines.pop(0) == f"{indent}KTAP version 1"
    plan = re.fullmatch(rf"{indent}1\.\.(\d+)", lines.pop(0))
    assert plan
    tests: list[Test] = []
    subtests: list[Test] = []
    while lines and lines[0].startswith(indent):
        if lines[0] == f"{indent}  KTAP version 1":
            subtests = read_ktap(lines, indent + "  ")
            continue
        line = lines.pop(0).removeprefix(indent)
        if line.startswith("# "):
            continue
        match = RESULT.fullmatch(line)
        assert match, line
        assert int(match[2]) == len(tests) + 1
        tests.append(Test(match[1] == "ok", match[3], match[4] or "", subtests))
        subtests = []
    assert len(tests) == int(plan[1])
    return tests


def ktap_of(model: Scenario, verdict: Verdict) -> Test:
    (test,) = read_ktap(ktap(JudgedRun(model, verdict, FACTS)).splitlines())
    return test


@given(st.lists(st.sampled_from(list(Status)), min_size=3, max_size=3), st.floats(1, 200), st.booleans())
def test_ktap_fails_as_a_whole_exactly_when_a_part_does(statuses: list[Status], figure: float, known: bool) -> None:
    model = scenario([replace(claim(), known=(KNOWN,) if known else ())], [control(mutant="m")])
    results = [
        cell("none", seed, figure) if status is Status.PASS else CellResult("none", seed, status, ("why",))
        for seed, status in zip(SEEDS, statuses, strict=True)
    ]
    verdict = judge(model, results, release=TEST.release)
    test = ktap_of(model, verdict)
    assert test.good is all(leaf.good for leaf in test.leaves())
    assert test.good is (verdict.status in (Status.PASS, Status.DONE, Status.SKIP))


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


def with_text(text: str) -> JudgedRun:
    model = scenario([replace(claim(), that=f"a{text}", otherwise=text)], [control(mutant="m")])
    results = [CellResult("none", 1, Status.ERROR, (text,)), *cells("none", 5, 5)[1:]]
    return JudgedRun(model, judge(model, results), replace(FACTS, kernel=replace(TEST, origin=text)))


@given(TEXTS)
def test_no_text_breaks_a_format(text: str) -> None:
    case = with_text(text)
    read_ktap(ktap(case).split("\n")[:-1])
    Xml.fromstring(junit_xml(case).encode())  # noqa: S314 - of our own making
    kcidb_io.schema.V5_3.validate(json.loads(kcidb_json(case)))


def kcidb_of(case: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(kcidb_json(CASES[case]()))
    return document


@pytest.mark.parametrize("case", CASES)
def test_kcidb_takes_the_document_and_finds_all_that_it_refers_to(case: str) -> None:
    document = kcidb_of(case)
    version = kcidb_io.schema.V5_3
    assert version.validate_exactly(document) == document
    for parent, child, key in (("checkouts", "builds", "checkout_id"), ("builds", "tests", "build_id")):
        assert {item[key] for item in document[child]} <= {item["id"] for item in document[parent]}
    for incident in document.get("incidents", []):
        assert incident["test_id"] in {test["id"] for test in document["tests"]}
        assert incident["issue_id"] in {issue["id"] for issue in document["issues"]}
    for items in (value for key, value in document.items() if key != "version"):
        assert len({item["id"] for item in items}) == len(items)


def test_a_change_that_kcidb_does_not_know_is_refused() -> None:
    document = kcidb_of("good")
    document["tests"][0]["status"] = "XFAIL"
    with pytest.raises(Exception, match="XFAIL"):
        kcidb_io.schema.V5_3.validate_exactly(document)


def test_kcidb_has_the_measured_figures_with_their_units() -> None:
    export = good()
    verdict = export.verdict
    figures = {**verdict.cells[0].figures, ("solo", "fast", "lat.mean"): 4e6, ("solo", "fast", "bw"): 4096.0}
    verdict = replace(verdict, cells=(replace(verdict.cells[0], figures=figures), *verdict.cells[1:]))
    tests = {test["path"]: test for test in json.loads(kcidb_json(replace(export, verdict=verdict)))["tests"]}
    together = tests["blklab.sample.measured.none.together.fast.iops"]
    assert (together["status"], together["number"]) == ("DONE", {"value": 96, "unit": "IOPS", "prefix": "metric"})
    assert together["misc"]["values"] == {"1": 95, "2": 96, "3": 97}
    latency = tests["blklab.sample.measured.none.solo.fast.lat_mean"]
    assert latency["number"] == {"value": 0.004, "unit": "s", "prefix": "metric"}
    assert tests["blklab.sample.measured.none.solo.fast.bw"]["number"]["unit"] == "B/s"


def test_the_table_gives_every_figure_of_both_kernels_back_exactly() -> None:
    results = [replace(one, figures={**one.figures, ("solo", "fast", "lat.p99"): 0.1 + 0.2}) for one in RESULTS[:3]]
    verdict = judge(MODEL, results)
    rows = list(csv.DictReader(io.StringIO(csv_table(JudgedRun(MODEL, verdict, FACTS)))))
    read = {(r["arm"], int(r["seed"]), r["load"], r["role"], r["metric"]): float(r["value"]) for r in rows}
    figures = {(one.arm, one.seed, *key): value for one in results for key, value in one.figures.items()}
    assert read == figures
    assert tuple(rows[0]) == COLUMNS
    assert {(row["metric"], row["unit"]) for row in rows} == {("iops", "1/s"), ("cpu.idle", ""), ("lat.p99", "ns")}
    rows = list(csv.DictReader(io.StringIO(csv_table(good()))))
    assert [row["kernel"] for row in rows[:: len(rows) - 1]] == ["5.10.0-46-amd64", "6.1.0-50-amd64"]
    assert len({row["run"] for row in rows}) == 2


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t"])
def test_no_name_in_the_table_is_a_formula(start: str) -> None:
    name = f"{start}HYPERLINK(1)"
    one = CellResult(name, 1, Status.PASS, figures={("solo", "fast", "iops"): -1.5})
    verdict = replace(judge(MODEL, RESULTS[:3]), cells=(one,))
    (row,) = csv.DictReader(io.StringIO(csv_table(JudgedRun(MODEL, verdict, FACTS)), newline=""))
    assert (row["arm"], row["value"]) == (f"'{name}", "-1.5")
