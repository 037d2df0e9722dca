# SPDX-License-Identifier: GPL-2.0-only
"""What a person sees of a verdict."""

import io
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from harness.judge.cells import CellResult, skipped
from harness.judge.ensemble import Ensemble
from harness.judge.verdict import Verdict, judge
from harness.report.format import duration, figure, spread
from harness.report.terminal.conclusion import conclusion
from harness.report.terminal.terminal import Effort, Surroundings, print_verdict
from harness.scenario.model import Reproduction, Scenario, Status
from tests.unit.analysis_samples import AT_MOST, SEEDS, cells, claim, control, scenario

AROUND = Surroundings(
    kernel="6.1.0-18-amd64",
    origin="Debian bookworm",
    qemu="QEMU 7.2.22",
    effort=Effort(6, 71.2, {"boot": 20.0, "setup": 3.0, "measure": 40.0}),
    command=("blklab", "run", "sample", "--kernel", "debian:6.1", "--arm", "a b"),
    folder="results/sample/20240101T000000.000Z-6.1",
)
MODEL = scenario([claim()], [control(), control(mutant="no-fair-tags")], ["none", "red"])
RESULTS = cells("none", 95, 96, 97) + cells("red", 5, 5, 5)


def shown(model: Scenario, verdict: Verdict, width: int = 100, *, colour: bool = False) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=colour, color_system="truecolor" if colour else None)
    print_verdict(console, model, verdict, AROUND)
    return out.getvalue()


def report(results: list[CellResult], model: Scenario = MODEL) -> str:
    return shown(model, judge(model, results, seeds=SEEDS))


def test_what_the_field_reported_stands_beside_in_figures_or_in_words() -> None:
    share = MODEL.claims[0].ratio
    told = (Reproduction("it halves", share, 0.48), Reproduction("it starves", share, None, "load skyrockets"))
    lines = [
        re.sub(r"\s+", " ", line).strip() for line in report(RESULTS, replace(MODEL, reproduces=told)).splitlines()
    ]
    here = "here 0.9600 [0.9500 .. 0.9700]"
    assert lines[lines.index("0.48 it halves") :][:2] == ["0.48 it halves", here]
    assert lines[lines.index("said it starves") :][:3] == ["said it starves", 'the report: "load skyrockets"', here]


def test_a_report_says_what_was_measured_and_what_it_means() -> None:
    text = report(RESULTS)
    assert "on Linux 6.1.0-18-amd64 (Debian bookworm)" in text
    assert re.search(r"none +100\.0 +96\.00 +80\.00", text)
    assert "95.00 .. 97.00" in text
    assert "PASS   the share is kept" in text
    assert "0.9600 [0.9500 .. 0.9700], expected >= 0.9" in text
    assert "none.together.fast.iops / none.solo.fast.iops" in text
    assert "it keeps it" in text and "it starves" not in text
    assert "6 boots in 71 s; summed over boots: boot 20 s, setup 3.0 s, measure 40 s" in text
    assert re.search(r"machine +QEMU 7\.2\.22, kernel 6\.1\.0-18-amd64", text)
    assert "cannot see lock and cache-line contention" in re.sub(r"\s+", " ", text)
    assert "blklab run sample --kernel debian:6.1 --arm 'a b'" in text
    assert text.rstrip().endswith("PASS  the claim held under all 3 seeds, and the control turned red (exit 0)")


def test_controls_are_shown_as_red_or_not_run() -> None:
    text = report(RESULTS)
    assert re.search(r"red +it can starve\s+0\.05000, must be <= 0\.5", text)
    assert re.search(r"not run +it can starve\s+needs a kernel with the mutant no-fair-tags", text)
    pale = report(cells("none", 95, 96, 97) + cells("red", 95, 95, 95))
    assert "not red: the scenario cannot turn red" in pale
    assert "the scenario proves nothing here (exit 125)" in pale


def test_a_failure_shows_the_other_sentence() -> None:
    text = report(cells("none", 5, 6, 7) + cells("red", 5, 5, 5))
    assert "FAIL   the share is kept" in text
    assert "it starves" in text
    assert "FAIL  1 of 1 claim failed (exit 1)" in text


def test_cells_without_figures_are_listed_once_with_their_seeds_and_all_reasons() -> None:
    missing = [skipped("red", seed, ("no CONFIG_A", "no CONFIG_B")) for seed in SEEDS]
    text = report(cells("none", 95, 95, 95) + missing)
    assert "SKIP   red (seeds 1, 2, 3): no CONFIG_A; no CONFIG_B" in text
    assert "SKIP  1 of 1 control could not be run here (exit 125)" in text


@pytest.mark.parametrize("width", [80, 100, 120, 200])
@pytest.mark.parametrize("arm", ["none", "a-rather-long-name-of-an-arm"])
def test_lines_fit_the_terminal(width: int, arm: str) -> None:
    model = scenario([claim()], [], ["none", arm])
    text = shown(model, judge(model, cells("none", 1e6, 2e6, 3e6) + cells(arm, 1e6, 2e6, 3e6)), width)
    copyable = ("  repeat", "  results")
    assert max(len(line) for line in text.splitlines() if not line.startswith(copyable)) <= width
    assert "…" not in text


def test_a_narrow_terminal_gets_a_row_for_each_figure() -> None:
    model = scenario([claim()], [], ["one-queue-mq-deadline"])
    verdict = judge(model, cells("one-queue-mq-deadline", 1e6, 2e6, 3e6))
    assert re.search(r"one-queue-mq-deadline +100\.0 +2,000,000 +80\.00\n +1,000,000 \.\.", shown(model, verdict, 80))
    assert re.search(r"together +fast +2,000,000 +1,000,000 \.\. 3,000,000", shown(model, verdict, 62))


def test_colour_only_on_a_terminal_that_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = judge(MODEL, RESULTS)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[1;32mPASS" in shown(MODEL, verdict, colour=True)
    assert "\x1b" not in shown(MODEL, verdict)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", shown(MODEL, verdict, colour=True))


def test_brackets_in_a_title_are_not_markup() -> None:
    model = replace(MODEL, title="a [bold]title[/bold]")
    assert "a [bold]title[/bold]" in shown(model, judge(model, RESULTS))


def test_phases_are_shown_in_the_order_in_which_they_happen() -> None:
    phases = {"measure": 40.0, "setup": 3.0, "extra": 1.0, "boot": 20.0, "send": 2.0}
    around = replace(AROUND, effort=Effort(1, None, phases), base="5.10.0-30-amd64")
    out = io.StringIO()
    print_verdict(Console(file=out, width=120), MODEL, judge(MODEL, RESULTS), around)
    assert "1 boot; summed over boots: boot 20 s, setup 3.0 s, measure 40 s, send 2.0 s, extra 1.0 s" in out.getvalue()
    assert re.search(r"baseline +5\.10\.0-30-amd64", out.getvalue())


def test_an_optional_claim_does_not_enter_the_conclusion() -> None:
    model = scenario([claim(), claim(AT_MOST, optional=True)])
    verdict = judge(model, cells("none", 95, 95, 95))
    assert conclusion(verdict) == "the claim held under all 3 seeds (exit 0)"


def test_no_claim_at_all_is_said() -> None:
    assert conclusion(judge(scenario(), cells("none", 1, 1, 1))) == "no claim was made (exit 125)"


@given(st.sampled_from(list(Status)), st.booleans())
def test_every_verdict_has_a_conclusion(status: Status, lab_broke: bool) -> None:
    results = [CellResult("none", seed, status, ("why",), lab_broke=lab_broke) for seed in SEEDS]
    verdict = judge(scenario([claim()]), results)
    assert conclusion(verdict).endswith(f"(exit {verdict.exit_code})")
    assert "no claim was made" not in conclusion(verdict)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (1, "1.000"), (15923.4, "15,923"), (329.44, "329.4"), (0.006012, "0.006012"), (1.5e-7, "1.50e-07")],
)
def test_figures_show_four_digits(value: float, text: str) -> None:
    assert figure(value) == text


def test_a_spread_is_left_out_when_nothing_spreads() -> None:
    assert spread(Ensemble({1: 1.0, 2: 1.00001})) == "1.000"
    assert spread(Ensemble({1: 1.0, 2: 1.1, 3: 1.3})) == "1.100 [1.000 .. 1.300]"


@pytest.mark.parametrize(("seconds", "text"), [(0.04, "0.0 s"), (8.44, "8.4 s"), (71.6, "72 s"), (725, "12 min 5 s")])
def test_durations_read_well(seconds: float, text: str) -> None:
    assert duration(seconds) == text
