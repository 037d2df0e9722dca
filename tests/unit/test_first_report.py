# SPDX-License-Identifier: GPL-2.0-only
"""What a person sees of a first run: of a draft, and of two builds of one kernel."""

import io
from dataclasses import replace

from rich.console import Console

from harness.judge.verdict import Verdict, judge
from harness.record.store import RunFacts
from harness.report.claims import JudgedRun
from harness.report.terminal.progress import Tally
from harness.report.terminal.run import print_verdict
from harness.run.events import CellFinished, CellStarted, RunStarted
from harness.scenario.model import Scenario, Status
from tests.unit.analysis_samples import AT_MOST, SEEDS, cells, claim, control, scenario
from tests.unit.format_samples import FACTS


def shown(model: Scenario, verdict: Verdict, facts: RunFacts = FACTS) -> str:
    out = io.StringIO()
    print_verdict(Console(file=out, width=100), JudgedRun(model, verdict, facts))
    return out.getvalue()


def test_a_draft_is_a_table_of_its_ratios_with_one_caveat() -> None:
    """A window of 2 s of a test of 10 s: two claims and a control have their figures, the reason is there once."""
    drafts = [replace(claim(), draft=True), replace(claim(AT_MOST), draft=True)]
    plain = scenario(drafts, [control()], ["none", "red"])
    loads = {name: replace(load, published=10 * 10**9, runtime=2 * 10**9) for name, load in plain.loads.items()}
    model = replace(plain, loads=loads, meant=())
    verdict = judge(model, cells("none", 95, 96, 97) + cells("red", 5, 5, 5), seeds=SEEDS)
    text = " ".join(shown(model, verdict).split())
    assert (verdict.status, verdict.exit_code) == (Status.DONE, 0)
    assert text.count("what the test of 10 s shows later than 2 s") == 1
    assert text.count("draft hold the share is kept (draft") == 2 and "ok fail it can starve 0.05000" in text
    assert "inconclusive" not in text and "within layout" not in text


def test_two_builds_of_one_release_have_columns_of_their_own() -> None:
    facts = replace(FACTS, base=replace(FACTS.kernel, spec="path:other", digest="x"))
    model = scenario([claim()], [], ["none"])
    verdict = judge(model, cells("none", 95, 96, 97), cells("none", 90, 91, 92), seeds=SEEDS)
    text = shown(model, verdict, facts)
    (heads,) = [line.split() for line in text.splitlines() if line.lstrip().startswith("arm ")]
    assert heads == ["arm", "load", "role", "path:other", FACTS.kernel.spec, "quotient"]
    assert "baseline: path:other" in text


def test_the_rest_is_estimated_by_what_each_arm_takes() -> None:
    """On this host the boot of 10 s took 50 s: the one of 40 s, 50 s after its start, takes 200 s; 150 s are left."""
    seconds = 0.0
    tally = Tally(lambda: seconds)
    tally.take(RunStarted("s", "6.1", 2, 2, {"slower": 10.0, "base": 40.0}))
    tally.take(CellStarted(1, "base", 1))
    tally.take(CellStarted(2, "slower", 1))
    seconds = 50.0
    tally.take(CellFinished(2, "slower", 1, Status.PASS, 50.0))
    assert tally.remaining() == 150.0
