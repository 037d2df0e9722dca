# SPDX-License-Identifier: GPL-2.0-only
"""What a person sees of a verdict, and live progress from events with a clock that the test holds."""

import io
import re
import threading
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from harness.judge.cells import CellResult, Ensemble
from harness.judge.claims import Judgement
from harness.judge.verdict import Measurement, Verdict, judge
from harness.judge.visible import unseen
from harness.limits.bottleneck import Bottleneck
from harness.limits.queues import Element, ElementKind
from harness.noise import Interval
from harness.record.store import KernelFacts
from harness.report.claims import JudgedRun, claim_text, conclusion
from harness.report.format import duration, figure, spread
from harness.report.terminal.progress import Tally, progress
from harness.report.terminal.run import CELLS, Detail, gauge, print_verdict
from harness.run.events import CellFinished, CellPhase, CellStarted, Event, RunStarted
from harness.scenario.load import read_scenario
from harness.scenario.model import Bound, Reproduction, Scenario, Status
from harness.scenario.registry import GUEST, IDLE
from harness.scenario.timing import Clock
from tests.unit import format_samples
from tests.unit.analysis_samples import AT_LEAST, AT_MOST, SEEDS, cells, claim, control, scenario

FACTS = replace(
    format_samples.FACTS,
    kernel=KernelFacts("debian:6.1", "6.1.0-18-amd64", "Debian bookworm", ""),
    command=("blklab", "run", "sample", "--kernel", "debian:6.1", "--arm", "a b"),
)
MODEL = scenario([claim()], [control(), control(mutant="no-fair-tags")], ["none", "red"])
RESULTS = cells("none", 95, 96, 97) + cells("red", 5, 5, 5)
RUN = JudgedRun(
    MODEL,
    judge(MODEL, RESULTS),
    FACTS,
    [("none", 1, {"boot": 20.0, "setup": 3.0, "measure": 40.0}), *(("none", seed, {}) for seed in range(2, 7))],
    elapsed=71.2,
    folder="results/sample/20240101T000000.000Z-6.1",
)


def shown(
    model: Scenario, verdict: Verdict, width: int = 100, detail: Detail = Detail.NORMAL, *, colour: bool = False
) -> str:
    return shown_run(replace(RUN, scenario=model, verdict=verdict), width, detail, colour=colour)


def shown_run(run: JudgedRun, width: int, detail: Detail = Detail.NORMAL, *, colour: bool = False) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=colour, color_system="truecolor" if colour else None)
    print_verdict(console, run, detail)
    return out.getvalue()


def report(results: list[CellResult], model: Scenario = MODEL, detail: Detail = Detail.NORMAL) -> str:
    return shown(model, judge(model, results, seeds=SEEDS), detail=detail)


def test_the_full_report_compares_with_the_field_report_in_figures_or_in_words() -> None:
    share = MODEL.claims[0].ratio
    told = (Reproduction("it halves", share, 0.48), Reproduction("it starves", share, None, "load skyrockets"))
    model = replace(MODEL, reproduces=told)
    lines = [re.sub(r"\s+", " ", line).strip() for line in report(RESULTS, model, Detail.FULL).splitlines()]
    measured = "measured 0.9600 [0.9500 .. 0.9700]"
    assert lines[lines.index("- it halves") :][:4] == [
        "- it halves",
        "report 0.48",
        measured,
        "far off: 2 times the report's figure",
    ]
    assert lines[lines.index("- it starves") :][:3] == ["- it starves", 'report "load skyrockets"', measured]
    # Every report has what is far off without a reason.
    assert "far off: 2 times" in report(RESULTS, model) and "it starves" not in report(RESULTS, model)
    for known in (
        Reproduction("it halves", share, 0.48, because="the report is older"),
        Reproduction("it is", share, 0.81),
    ):
        assert "Compared" not in report(RESULTS, replace(MODEL, reproduces=(known,)))
    third = replace(MODEL, reproduces=(Reproduction("it is a third", share, 2.88),))
    assert "far off: 0.33 times the report's figure" in report(RESULTS, third)


def test_a_report_starts_and_ends_with_the_verdict_and_the_brief_one_is_that_line() -> None:
    lines = report(RESULTS).splitlines()
    ended = "1 claim held (3 seeds); negative controls: 1 of 1 failed"
    assert lines[0] == "PASS  sample on Linux 6.1.0-18-amd64 (Debian bookworm)"
    found = "the share is kept: 0.9600; it can starve: 0.05000, as it must"
    assert lines[1] == f"      {found}" and lines[2].split() == ["state", "must", "x", "measured,", "=", "allowed"]
    assert lines[-1] == f"PASS  {ended} (exit 0)"
    claims = [" ".join(line.split()) for line in lines if line.endswith("|")]
    assert claims == [
        "ok hold the share is kept (within layout) 0.9600 >= 0.9 |.........x==|",
        "ok fail it can starve 0.05000 <= 0.5 |x========...|",
    ]
    assert "again: blklab run sample --kernel debian:6.1 --arm 'a b'" in lines
    assert "6 boots, 71 s, virtual clock, QEMU 7.2.22" in lines
    assert report(RESULTS, detail=Detail.BRIEF) == (
        "PASS  sample on Linux 6.1.0-18-amd64: 1 claim held (3 seeds); negative controls: 1 of 1 failed (exit 0)\n"
    )


def test_the_full_report_has_every_figure_and_how_it_was_made() -> None:
    text = report(RESULTS, detail=Detail.FULL)
    assert re.search(r"together +fast +96\.00 +95\.00 \.\. 97\.00", text)
    assert "95.00 .. 97.00" in text
    assert "measured 0.9600 [0.9500 .. 0.9700]: none.together.fast.iops / none.solo.fast.iops" in text
    assert "it keeps it" in text and "it starves" not in text
    assert "6 boots in 71 s; summed over boots: boot 20 s, setup 3.0 s, measure 40 s" in text
    assert re.search(r"machine +QEMU 7\.2\.22", text)
    assert "cannot see lock and cache-line contention" in re.sub(r"\s+", " ", text)


@pytest.mark.parametrize("detail", list(Detail))
def test_a_report_in_a_pipe_has_no_trailing_blanks(detail: Detail) -> None:
    dead = [replace(cell, status=Status.ERROR, reasons=("it broke",)) for cell in cells("red", 5, 5, 5)]
    text = report(cells("none", 95, 96, 97) + dead, detail=detail)
    assert [line for line in text.splitlines() if line != line.rstrip()] == []


def test_controls_that_fail_are_ok_and_those_that_hold_are_errors() -> None:
    text = report(RESULTS)
    assert "turned red" not in text
    assert "1 negative control not run: made for another kernel (-v)" in text
    assert "needs a kernel with the mutant no-fair-tags" in report(RESULTS, detail=Detail.FULL)
    held = report(cells("none", 95, 96, 97) + cells("red", 95, 95, 95))
    assert "the share is kept: 0.9600; it can starve: 0.9500, must be <= 0.5" in held
    assert "did not fail: this ratio does not show the fault" in held and "held, but" not in held
    assert "ERROR  1 negative control did not fail: no proof that the scenario shows the fault (exit 125)" in held


def test_words_of_a_known_failure_and_of_an_interval() -> None:
    texts = {text.entry.that: text for text in map(claim_text, format_samples.everything().claims)}
    known = texts["it is known to be fast"]
    assert (known.state, known.must, known.meaning) == ("XFAIL", "hold", "")
    assert known.reason.startswith("known to fail on kernels >= 5.8, < 5.14: tags go to whoever asks first")
    entry = texts["the share is kept"].entry
    assert entry.judgement is not None
    noisy = replace(entry.judgement, interval=Interval(0.85, 1.2, 1.0, 0.016, 6))
    text = claim_text(replace(entry, judgement=noisy))
    assert (text.figure, text.bound) == ("1.000", "expected >= 0.9")
    assert text.value_and_ratio.startswith(
        "measured 1.000, 96.8 % within 0.8500 .. 1.200 by 6 boots a side: none.together"
    )


def test_failed_claims_come_first_and_causes_before_them() -> None:
    model = scenario([claim(AT_MOST), claim()], [control()], ["none", "red"])
    text = report(cells("none", 95, 96, 97) + cells("red", 5, 5, 5), model)
    states = [line.split()[:2] for line in text.splitlines() if line.endswith("|")]
    assert states == [["FAIL", "hold"], ["ok", "hold"], ["ok", "fail"]]
    assert "measured 0.9600 [0.9500 .. 0.9700]: none.together.fast.iops / none.solo.fast.iops" in text
    assert "it starves" not in text
    assert "it starves" in report(cells("none", 95, 96, 97) + cells("red", 5, 5, 5), model, Detail.FULL)
    assert text.endswith("FAIL  1 of 2 claims failed (exit 1)\n")
    dead = [CellResult("none", seed, Status.FAIL, ("the kernel oopsed",)) for seed in SEEDS]
    text = report(dead + cells("red", 5, 5, 5))
    assert text.index("arm none, seeds 1, 2, 3: the kernel oopsed") < text.index("the share is kept")


def test_each_arm_has_a_row_with_what_was_measured() -> None:
    text = report(cells("none", 95, 96, 97) + cells("red", 5, 5, 5), scenario([claim()], [], ["none", "red"]))
    assert re.search(r"\n +solo +together +together\n +fast +fast +slow +arm *\n", text)
    assert re.search(r"\n +100\.0 +96\.00 +80\.00 +none\n +100\.0 +5\.000 +80\.00 +red\n", text)


BOUNDS = {">= 0.9": (0.9, None), "<= 0.5": (None, 0.5), "> 1": (1.0, None), "0.98 .. 1.02": (0.98, 1.02)}


@given(st.sampled_from(sorted(BOUNDS)), st.floats(0, 10))
def test_a_gauge_shows_an_x_where_the_bound_holds(text: str, value: float) -> None:
    bound = Bound(text, *BOUNDS[text], low_open=text.startswith(">") and "=" not in text)
    drawn = gauge(Judgement(Status.PASS, Ensemble({1: value})), bound).strip("|")
    free = gauge(Judgement(Status.PASS, Ensemble({1: 1e9 if bound.holds(0) else 0})), bound).strip("|")
    assert len(drawn) == CELLS
    assert (free[drawn.index("x")] == "=") is bound.holds(value)


def test_a_gauge_needs_a_scale_and_a_figure() -> None:
    one = Judgement(Status.PASS, Ensemble({1: 1.0}))
    assert gauge(one, Bound("<= 0", None, 0.0)) == ""
    assert gauge(Judgement(Status.MISS, None), AT_LEAST) == ""
    assert gauge(replace(one, interval=Interval(0.85, 1.2, 1.0, 0.016, 6)), AT_LEAST) == "|........--x-|"


def test_cells_without_figures_are_listed_once_with_their_seeds_and_all_reasons() -> None:
    missing = [CellResult("red", seed, Status.SKIP, ("no CONFIG_A", "no CONFIG_B")) for seed in SEEDS]
    text = report(cells("none", 95, 95, 95) + missing)
    assert "SKIP   arm red, seeds 1, 2, 3: no CONFIG_A; no CONFIG_B" in text
    assert "SKIP  1 negative control could not be run on this kernel (exit 125)" in text
    text = report([CellResult(arm, seed, Status.SKIP, ("no CONFIG_A",)) for arm in ("none", "red") for seed in SEEDS])
    assert "SKIP   arms none, red, seeds 1, 2, 3: no CONFIG_A\n" in text


@pytest.mark.parametrize("width", [80, 100, 120, 200])
@pytest.mark.parametrize("arm", ["none", "a-rather-long-name-of-an-arm"])
def test_lines_fit_the_terminal(width: int, arm: str) -> None:
    model = scenario([claim()], [], ["none", arm])
    text = shown(model, judge(model, cells("none", 1e6, 2e6, 3e6) + cells(arm, 1e6, 2e6, 3e6)), width)
    copyable = ("again: ", "details: ", "6 boots")
    assert max(len(line) for line in text.splitlines() if not line.startswith(copyable)) <= width
    assert "…" not in text


@pytest.mark.parametrize("width", [80, 62])
def test_the_full_report_has_a_row_for_each_figure(width: int) -> None:
    model = scenario([claim()], [], ["one-queue-mq-deadline"])
    verdict = judge(model, cells("one-queue-mq-deadline", 1e6, 2e6, 3e6))
    text = shown(model, verdict, width, Detail.FULL)
    assert re.search(r"together +fast +2,000,000 +1,000,000 \.\. 3,000,000", text)


def test_more_figures_than_columns_fit_get_a_row_each() -> None:
    measured = [
        Measurement(arm, "crowd", f"t{number:02}", Ensemble({1: factor * (100.0 + number)}))
        for arm, factor in (("none", 1), ("red", 2))
        for number in range(20)
    ]
    text = shown(MODEL, replace(judge(MODEL, RESULTS), measurements=tuple(measured)), 80)
    assert "…" not in text
    assert re.search(r"crowd\.t19 +119\.0 +238\.0\n", text)


def test_the_flagship_fits_in_forty_lines_of_eighty_columns() -> None:
    model = read_scenario("shared-queue")
    blocked = {"one-queue-mq-deadline"}
    results, limits = [], []
    for arm in model.arms:
        for one in model.loads.values():
            starved = arm in blocked and one.name == "lopsided"
            names = ("p0", "q1") if starved else ("p0", "p1", "q1")
            disk = Element(ElementKind.DISK, names, 1.0, binds=True, figure="busy 100 % of the window")
            limits.append(Bottleneck(arm, one.name, disk, (disk,)))
        figures = {(one.name, role, "iops"): 78.0 for one in model.loads.values() for role in one.roles}
        figures |= {(load, GUEST, IDLE): 0.9 for load in model.loads}
        figures |= {("lopsided", "victim", "iops"): 1.15} if arm in blocked else {}
        results += [CellResult(arm, seed, Status.PASS, figures=figures) for seed in (1, 2)]
    run = replace(
        RUN,
        scenario=model,
        verdict=judge(model, results, seeds=(1, 2)),
        bottlenecks=tuple(limits),
        models="not calibrated on this kernel (x)",
    )
    lines = shown_run(run, 80).splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80


def test_what_a_busy_cpu_hides_is_said_with_its_figures() -> None:
    model = read_scenario("shared-queue")
    arm, load = next(iter(model.arms)), model.loads["lopsided"]
    alone = replace(load, roles={"hog": load.roles["hog"]})

    def text(idle: float, model: Scenario) -> str:
        cell = CellResult(arm, 1, Status.PASS, figures={(load.name, GUEST, IDLE): idle})
        return unseen(model, [cell])

    assert text(0.19, model) == (
        "time that parallel jobs wait for locks and cache lines (machine: {cpus: N} and blklab sharing count them):"
        f" in {arm}, lopsided the CPU was 81% busy, and 3 jobs took turns"
    )
    of = model.arms[arm]
    two = replace(of.topology, processors=replace(of.topology.processors, cpus=2))
    assert "(blklab sharing counts them)" in text(0.19, replace(model, arms={arm: replace(of, topology=two)}))
    others = (replace(model, clock=Clock.WALL), replace(model, loads={"lopsided": alone}))
    assert not any((text(0.2, model), *(text(0.19, other) for other in others)))


def test_colour_only_on_a_terminal_that_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = judge(MODEL, RESULTS)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[1;32mPASS" in shown(MODEL, verdict, colour=True)
    assert "\x1b" not in shown(MODEL, verdict)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", shown(MODEL, verdict, colour=True))


def test_brackets_in_a_title_are_not_markup() -> None:
    model = replace(MODEL, title="a [bold]title[/bold]")
    assert "a [bold]title[/bold]" in shown(model, judge(model, RESULTS), detail=Detail.FULL)


def test_phases_are_shown_in_the_order_in_which_they_happen() -> None:
    phases = {"measure": 40.0, "setup": 3.0, "extra": 1.0, "boot": 20.0, "send": 2.0}
    run = replace(
        RUN,
        walls=[("none", 1, phases)],
        elapsed=None,
        facts=replace(FACTS, base=KernelFacts("debian:5.10", "5.10.0-30-amd64", "", "")),
    )
    text = shown_run(run, 120, Detail.FULL)
    assert "1 boot; summed over boots: boot 20 s, setup 3.0 s, measure 40 s, send 2.0 s, extra 1.0 s" in text
    assert re.search(r"BASE kernel +5\.10\.0-30-amd64", text)


@pytest.mark.parametrize(
    ("build", "base", "warned"),
    [
        ("", KernelFacts("debian:5.10", "5.10.0-30-amd64", "", "other"), True),
        ("gcc 14", KernelFacts("debian:6.12", "6.12.107", "", "other"), True),
        ("gcc 14", KernelFacts("source:6.12", "6.12.107-blklab", "", "other", build="gcc 13"), True),
        ("gcc 14", KernelFacts("source:6.12", "6.12.107-blklab", "", "other", build="gcc 14"), False),
        ("", FACTS.kernel, False),
        ("", None, False),
    ],
)
def test_a_base_of_another_configuration_is_a_caution(build: str, base: KernelFacts | None, warned: bool) -> None:
    run = replace(RUN, facts=replace(FACTS, kernel=replace(FACTS.kernel, build=build), base=base))
    for detail in (Detail.NORMAL, Detail.FULL):
        assert ("may differ in configuration and compiler" in shown_run(run, 300, detail)) is warned


def test_optional_claims_do_not_enter_the_conclusion_and_no_claim_at_all_is_said() -> None:
    model = scenario([claim(), claim(AT_MOST, optional=True)])
    verdict = judge(model, cells("none", 95, 95, 95))
    assert conclusion(verdict) == "1 claim held (3 seeds) (exit 0)"
    assert conclusion(judge(scenario(), cells("none", 1, 1, 1))) == "the scenario makes no claim (exit 0)"


@given(st.sampled_from(list(Status)), st.booleans())
def test_every_verdict_has_a_conclusion(status: Status, lab_broke: bool) -> None:
    results = [CellResult("none", seed, status, ("why",), lab_broke=lab_broke) for seed in SEEDS]
    verdict = judge(scenario([claim()]), results)
    assert conclusion(verdict).endswith(f"(exit {verdict.exit_code})")
    assert "makes no claim" not in conclusion(verdict)


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


class HostTime:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def events(boots: int, seconds: float = 10.0) -> list[Event]:
    run: list[Event] = [RunStarted("shared-queue", "6.1.0-18-amd64", boots, 2)]
    for number in range(1, boots + 1):
        run.append(CellStarted(number, "limited", number))
        run += [CellPhase(number, phase) for phase in ("boot", "setup", "load solo", "send")]
        run.append(CellFinished(number, "limited", number, Status.PASS, seconds))
    return run


def test_a_log_gets_plain_lines_with_why_a_boot_went_wrong() -> None:
    out = io.StringIO()
    with progress(Console(file=out, width=80)) as listen:
        for event in events(2):
            listen(event)
    assert out.getvalue().splitlines() == [
        "shared-queue on 6.1.0-18-amd64: 2 boots of a guest, each an arm (a setting) under a seed; up to 2 at once",
        "  boot 1/2  limited seed 1: started",
        "  boot 1/2  PASS  limited seed 1, 10 s  (1 of 2, about 10 s left)",
        "  boot 2/2  limited seed 2: started",
        "  boot 2/2  PASS  limited seed 2, 10 s  (2 of 2)",
    ]
    out = io.StringIO()
    reason = "the guest did not do as asked: queue.scheduler: asked for bfq, read [none] " * 2
    with progress(Console(file=out, width=40)) as listen:
        listen(RunStarted("s", "6.1", 1, 1))
        listen(CellFinished(1, "bfq", 1, Status.ERROR, 3.0, reason.strip()))
    assert f"ERROR  bfq seed 1, 3.0 s: {reason.strip()}" in out.getvalue().splitlines()[1]


def test_a_terminal_shows_the_phase_of_each_running_boot_and_leaves_the_finished() -> None:
    out = io.StringIO()
    console = Console(file=out, width=100, force_terminal=True, color_system=None)
    with progress(console, now=HostTime()) as listen:
        for event in events(1)[:4]:
            listen(event)
        assert "load solo" not in out.getvalue()
        listen(CellPhase(1, "load solo"))
        assert "load solo" in out.getvalue()
        listen(CellFinished(1, "limited", 1, Status.PASS, 9.5))
    assert "boot 1/1  PASS  limited seed 1, 9.5 s" in out.getvalue()


def test_the_rest_is_estimated_from_what_boots_took() -> None:
    clock = HostTime()
    tally = Tally(clock)
    tally.take(RunStarted("s", "6.1", 6, 2))
    tally.take(CellStarted(1, "a", 1))
    assert tally.remaining() is None
    clock.seconds = 10.0
    tally.take(CellFinished(1, "a", 1, Status.PASS, 10.0))
    assert tally.remaining() == 25.0
    tally.take(CellStarted(2, "a", 2))
    clock.seconds = 14.0
    assert tally.remaining() == (6.0 + 4 * 10.0) / 2
    # After ten times its usual time a boot is near its end, but takes a tenth of it: never "about 0.0 s left".
    clock.seconds = 100.0
    assert tally.remaining() == (1.0 + 4 * 10.0) / 2


@given(st.integers(1, 30), st.floats(0.1, 1000))
def test_nothing_remains_when_all_is_done(boots: int, seconds: float) -> None:
    tally = Tally(HostTime())
    for event in events(boots, seconds):
        tally.take(event)
    assert len(tally.runs[0].slower) == boots
    assert tally.remaining() == 0
    assert not tally.runs[0].running


def test_boots_may_report_from_several_threads() -> None:
    out = io.StringIO()
    with progress(Console(file=out, width=80)) as listen:
        listen(RunStarted("s", "6.1", 40, 8))

        def boot(first: int) -> None:
            for number in range(first, first + 5):
                listen(CellStarted(number, "a", number))
                listen(CellFinished(number, "a", number, Status.PASS, 1.0))

        threads = [threading.Thread(target=boot, args=(1 + 5 * n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    lines = out.getvalue().splitlines()
    assert len(lines) == 81
    assert lines[-1].endswith("(40 of 40)")
