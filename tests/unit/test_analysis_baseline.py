# SPDX-License-Identifier: GPL-2.0-only
"""Two kernels on one scenario: what may be compared, and how it is shown; what a person sees of a first run."""

import re
from collections.abc import Mapping
from dataclasses import replace

import pytest

from harness.judge.cells import CellResult, differences
from harness.judge.cells import comparable as beside
from harness.judge.verdict import Verdict, judge, verdict_document
from harness.record.store import KernelFacts
from harness.report.claims import conclusion
from harness.report.terminal.progress import Tally
from harness.report.terminal.run import Detail
from harness.run.events import CellFinished, CellStarted, RunStarted
from harness.scenario.model import Bound, Status
from lab.base.record import Outcome
from tests.unit.analysis_samples import AT_MOST, SEEDS, cells, claim, control, ratio, scenario
from tests.unit.format_samples import FACTS
from tests.unit.format_samples import printed as report

PRINT = {"kernel": "k1", "base": "b1", "job": "j1", "qemu": "7.2", "argv": "-m", "seed": "1"}
OTHER_KERNEL = {**PRINT, "kernel": "k0", "base": "b0", "job": "j0"}
MODEL = scenario([claim(of=ratio("none.together.fast.iops", "baseline.none.together.fast.iops"))])
OLD, NEW = (KernelFacts(name, name, "Debian", "") for name in ("5.10.0-46", "6.1.0-50"))
BOTH = replace(FACTS, kernel=NEW, base=OLD)


def printed(results: list[CellResult], prints: Mapping[str, str]) -> list[CellResult]:
    return [replace(cell, fingerprint=prints) for cell in results]


def compared(base: list[CellResult], *figures: float) -> Verdict:
    return judge(MODEL, printed(cells("none", *(figures or (95, 96, 97))), PRINT), base)


def shown(verdict: Verdict, detail: Detail = Detail.NORMAL) -> str:
    return report(MODEL, verdict, BOTH, detail=detail)


def test_two_kernels_are_compared_when_all_else_is_the_same() -> None:
    verdict = compared(printed(cells("none", 50, 51, 52), OTHER_KERNEL))
    assert verdict.status is Status.PASS
    ensemble = verdict.claims[0].judgement.ensemble
    assert ensemble is not None and ensemble.median == pytest.approx(96 / 51)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"qemu": "10.0"}, "cannot be compared under seed 1: qemu differs, not only the kernel"),
        ({"argv": "-m 2", "seed": "2"}, "argv, seed differ, not only the kernel"),
        ({"more": "x"}, "more differs, not only the kernel"),
    ],
)
def test_any_other_difference_is_an_error_that_names_it(change: Mapping[str, str], named: str) -> None:
    verdict = compared(printed(cells("none", 50, 51, 52), {**OTHER_KERNEL, **change}))
    assert (verdict.status, verdict.exit_code) == (Status.ERROR, 125)
    assert named in verdict.claims[0].sentence
    assert "3 of 3 boots of the BASE kernel went wrong or cannot be compared" in conclusion(verdict)
    assert named in re.sub(r"\s+", " ", shown(verdict))


@pytest.mark.parametrize(("own", "other"), [(Status.FAIL, Status.PASS), (Status.PASS, Status.SKIP)])
def test_a_boot_without_figures_is_not_compared_with_its_counterpart(own: Status, other: Status) -> None:
    cell, base = (cells("none", 95)[0], replace(cells("none", 50)[0], fingerprint={"qemu": "10.0"}))
    base = replace(base, status=other)
    assert beside([replace(cell, status=own)], [base]) == (base,)


def test_a_difference_is_an_error_even_if_no_claim_looks_at_the_base_kernel() -> None:
    base = printed(cells("none", 50, 51, 52), {**OTHER_KERNEL, "qemu": "10.0"})
    verdict = judge(scenario([claim()]), printed(cells("none", 95, 95, 95), PRINT), base)
    assert verdict.status is Status.ERROR
    assert verdict.claims[0].judgement.status is Status.PASS


def test_a_base_kernel_that_dies_or_a_lab_that_breaks_under_it_does_not_fail_the_tested_one() -> None:
    dead = [CellResult("none", seed, Status.FAIL, ("it oopsed",), outcome=Outcome.OOPS) for seed in SEEDS]
    verdict = compared(dead)
    assert (verdict.status, verdict.exit_code) == (Status.ERROR, 125)
    assert "on the BASE kernel arm none: it oopsed" in verdict.claims[0].sentence
    assert [cell.status for cell in verdict.base_incidents] == [Status.ERROR] * 3
    assert compared(printed(cells("none", 50, 51, 52), OTHER_KERNEL)).base_incidents == ()
    lost = [CellResult("none", seed, Status.ERROR, ("killed",), outcome=Outcome.LOST, lab_broke=True) for seed in SEEDS]
    assert compared(lost).exit_code == 128


def test_arms_that_only_the_base_kernel_has_are_left_out() -> None:
    extra = cells("red", 1, 1, 1)
    verdict = judge(
        scenario([claim()], arms=["none", "red"]), cells("none", 95, 95, 95), cells("none", 9, 9, 9) + extra
    )
    assert verdict.base is not None and {cell.arm for cell in verdict.base} == {"none", "red"}
    verdict = compared(cells("none", 9, 9, 9) + extra)
    assert verdict.base is not None and {cell.arm for cell in verdict.base} == {"none"}


def test_both_kernels_stand_side_by_side() -> None:
    text = shown(compared(printed(cells("none", 50, 51, 52), OTHER_KERNEL)))
    assert re.search(r"arm +load +role +5\.10\.0-46 +6\.1\.0-50 +quotient", text)
    assert re.search(r"together +fast +51\.00 \[50\.00 \.\. 52\.00\] +96\.00 \[95\.00 \.\. 97\.00\] +1\.882", text)
    # Throughput is told where nothing differs, too.
    assert len(re.findall(r"\d \[?.*no difference$", text, re.MULTILINE)) == 2 and "together" in text
    text = shown(compared(printed(cells("none", 94, 95, 96), OTHER_KERNEL)), Detail.FULL)
    assert re.search(r"together +fast +95\.00 \[.*\] +96\.00 \[.*\] +no difference", text)
    text = shown(compared(printed(cells("none", 50, 51, 52), {**OTHER_KERNEL, "qemu": "10"})))
    assert re.search(r"together +fast +- +96\.00 \[.*\] +-", text)


def test_the_document_has_both() -> None:
    document = verdict_document(compared(printed(cells("none", 50, 51, 52), OTHER_KERNEL)))
    row = next(row for row in document["measured"] if (row["load"], row["role"]) == ("together", "fast"))
    assert (row["iops"]["median"], row["base"]["median"]) == (96, 51)
    assert len(document["base"]) == 3
    alone = verdict_document(judge(MODEL, cells("none", 95, 95, 95)))
    assert alone["base"] is None and alone["measured"][0]["base"] is None


def test_a_claim_about_the_device_looks_at_the_kernel_that_it_names() -> None:
    bound = ratio("baseline.none.together.fast.iops", "bound.none.together.fast.iops")
    model = scenario([claim(Bound("", 0.98, 1.02), bound)])
    busy = judge(model, cells("none", 95, 95, 95), cells("none", 8000, 8000, 8000, idle=0.1))
    assert busy.status is Status.DONE
    spare = judge(model, cells("none", 95, 95, 95, idle=0.1), cells("none", 8000, 8000, 8000))
    assert spare.status is Status.PASS


def test_only_what_kernels_cannot_help_is_left_out_of_the_comparison() -> None:
    assert differences(PRINT, OTHER_KERNEL) == ()
    assert differences(PRINT, {}) == ("argv", "qemu", "seed")


def test_a_draft_is_a_table_of_its_ratios_with_one_caveat() -> None:
    """A window of 2 s of a test of 10 s: two claims and a control have their figures, the reason is there once."""
    drafts = [replace(claim(), draft=True), replace(claim(AT_MOST), draft=True)]
    plain = scenario(drafts, [control()], ["none", "red"])
    loads = {name: replace(load, published=10 * 10**9, runtime=2 * 10**9) for name, load in plain.loads.items()}
    model = replace(plain, loads=loads, meant=())
    verdict = judge(model, cells("none", 95, 96, 97) + cells("red", 5, 5, 5), seeds=SEEDS)
    text = " ".join(report(model, verdict).split())
    assert (verdict.status, verdict.exit_code) == (Status.DONE, 0)
    assert text.count("what the test of 10 s shows later than 2 s") == 1
    assert text.count("draft hold the share is kept (draft") == 2 and "ok fail it can starve 0.05000" in text
    assert "inconclusive" not in text and "within layout" not in text


def test_two_builds_of_one_release_have_columns_of_their_own() -> None:
    facts = replace(FACTS, base=replace(FACTS.kernel, spec="path:other", digest="x"))
    model = scenario([claim()], [], ["none"])
    verdict = judge(model, cells("none", 95, 96, 97), cells("none", 90, 91, 92), seeds=SEEDS)
    text = report(model, verdict, facts)
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
