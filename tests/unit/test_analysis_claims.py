# SPDX-License-Identifier: GPL-2.0-only
"""Claims and controls over ensembles, up to the verdict."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.judge.cells import CellResult
from harness.judge.claims import ClaimVerdict, ControlVerdict
from harness.judge.verdict import Verdict, judge, verdict_document
from harness.scenario.model import Bound, Condition, Diagnosis, KnownFailure, Ratio, Status, Unseen
from lab.base.record import Outcome
from tests.unit.analysis_samples import AT_LEAST, AT_MOST, SEEDS, SHARE, cell, cells, claim, control, ratio, scenario

BOUND_CLAIM = claim(
    Bound("0.98 .. 1.02", 0.98, 1.02), ratio("none.together.fast.iops", "bound.none.together.fast.iops")
)


def judged(*together: float) -> Verdict:
    return judge(scenario([claim()]), cells("none", *together))


def only(verdict: Verdict) -> ClaimVerdict:
    return verdict.claims[0]


def test_the_seeds_decide_a_claim_if_they_agree() -> None:
    verdict = judged(95, 97, 91)
    assert (verdict.status, verdict.exit_code) == (Status.PASS, 0)
    ensemble = only(verdict).judgement.ensemble
    assert ensemble is not None and (ensemble.low, ensemble.median, ensemble.high) == (0.91, 0.95, 0.97)
    assert only(verdict).sentence == "it keeps it"
    verdict = judged(5, 7, 6)
    assert (verdict.status, verdict.exit_code) == (Status.FAIL, 1)
    assert only(verdict).sentence == "it starves"
    for together, holds in (((95, 89, 92), "seed 1, 3"), ((80, 95, 80), "seed 2")):
        verdict = judged(*together)
        assert (verdict.status, verdict.exit_code) == (Status.DONE, 125)
        assert (
            only(verdict).sentence == f"inconclusive: the bound lies inside the ensemble (it holds under {holds} only)"
        )


@pytest.mark.parametrize(
    ("share", "status"), [(1.02, Status.PASS), (1.06, Status.FAIL), (1.061, Status.ERROR), (2.0, Status.ERROR)]
)
def test_a_figure_above_its_own_bound_is_an_error_of_the_lab(share: float, status: Status) -> None:
    """The slow role holds its half of the tags, so both hold (1 + share) / 2 of them."""
    results = [replace(cell("none", seed, 1), figures=at_share(share)) for seed in SEEDS]
    verdict = judge(scenario([BOUND_CLAIM]), results)
    assert only(verdict).judgement.status is status
    if status is Status.ERROR:
        bound = share * 8000 / ((1 + share) / 2)
        says = f"none.together.fast.iops is {share * 8000:.5g}, its bound {bound:.5g}: no device of this topology does"
        assert only(verdict).sentence.startswith(says)
        assert verdict.exit_code == 125


def test_a_figure_above_the_bound_of_another_load_is_none() -> None:
    other = claim(AT_LEAST, ratio("none.together.fast.iops", "bound.none.together.slow.iops"))
    results = [replace(cell("none", seed, 1), figures=at_share(0.5)) for seed in SEEDS]
    assert only(judge(scenario([other]), results)).judgement.status is Status.PASS


def test_one_seed_above_the_bound_is_enough() -> None:
    results = [replace(cell("none", seed, 1), figures=at_share(0.5 + 0.7 * (seed == SEEDS[1]))) for seed in SEEDS]
    assert only(judge(scenario([BOUND_CLAIM]), results)).judgement.status is Status.ERROR


@pytest.mark.parametrize(
    ("figure", "of", "status"),
    [
        ("bw", "bw", Status.ERROR),
        ("members.bw", "bw", Status.ERROR),
        ("members.bw", "iops", Status.PASS),
        ("bw", "lat.mean", Status.PASS),
    ],
)
def test_only_rates_are_held_against_the_bound_of_the_same_rate(figure: str, of: str, status: Status) -> None:
    rate = claim(AT_LEAST, ratio(f"none.together.fast.{figure}", f"bound.none.together.fast.{of}"))
    figures = at_share(0.5) | {("together", "fast", figure): 1.2 * 8000 * 4096}
    results = [replace(cell("none", seed, 1), figures=figures) for seed in SEEDS]
    assert only(judge(scenario([rate]), results)).judgement.status is status


def at_share(share: float, slow: float = 80.0) -> dict[tuple[str, str, str], float]:
    idle = {(load, "guest", "cpu.idle"): 0.9 for load in ("solo", "together")}
    return {("together", "fast", "iops"): 8000 * share, ("together", "slow", "iops"): slow, **idle}


def test_a_kernel_without_fair_shares_is_no_error_of_the_lab() -> None:
    """A neighbour of one request a second leaves all tags but one: 1.94 of the fair half, on a mutant of idle-lun."""
    results = [replace(cell("none", seed, 1), figures=at_share(1.97, slow=1.0)) for seed in SEEDS]
    assert only(judge(scenario([BOUND_CLAIM]), results)).judgement.status is Status.FAIL


def test_an_optional_claim_is_shown_and_not_counted() -> None:
    verdict = judge(scenario([claim(), claim(AT_MOST, optional=True)]), cells("none", 95, 95, 95))
    assert verdict.status is Status.PASS
    assert verdict.claims[1].judgement.status is Status.FAIL


@pytest.mark.parametrize(
    ("draft", "optional", "text", "status"),
    [
        (False, False, "the share is kept (unproven)", Status.PASS),
        (False, True, "the share is kept (optional, unproven)", Status.PASS),
        (True, True, "the share is kept (draft, unproven)", Status.DONE),
    ],
)
def test_a_claim_that_does_not_count_says_so(draft: bool, optional: bool, text: str, status: Status) -> None:
    extra = control() if optional and not draft else None
    model = scenario([replace(claim(optional=optional), draft=draft)], [extra] if extra else [], ["none", "red"])
    verdict = judge(model, [*cells("none", 200, 200, 200), *cells("red", 5, 5, 5)])
    assert verdict.claims[0].text == (text.replace(", unproven", "").replace(" (unproven)", "") if extra else text)
    assert verdict.status is status
    document = verdict_document(verdict)["claims"][0]
    assert (document["optional"], document.get("draft", False)) == (optional, draft)


def test_without_claims_a_run_is_done_unless_a_boot_is_not() -> None:
    def verdict(*statuses: Status) -> Verdict:
        return judge(scenario(), [CellResult("none", seed, it) for seed, it in enumerate(statuses, 1)])

    assert (verdict(Status.PASS, Status.SKIP).status, verdict(Status.PASS).exit_code) == (Status.DONE, 0)
    assert (verdict(Status.PASS, Status.MISS).status, verdict(Status.PASS, Status.MISS).exit_code) == (Status.MISS, 125)
    assert (verdict(Status.SKIP).status, verdict(Status.SKIP).exit_code) == (Status.SKIP, 125)
    draft = judge(scenario([replace(claim(), draft=True)]), cells("none", 95))
    assert (draft.status, draft.exit_code) == (Status.DONE, 0)
    assert judge(scenario([replace(claim(), draft=True), claim(AT_MOST)]), cells("none", 95)).exit_code == 1


def test_controls_alone_decide_where_there_are_no_claims() -> None:
    results = [*cells("none", 95), *cells("red", 5)]
    assert judge(scenario([], [control()], ["none", "red"]), results).status is Status.PASS
    assert judge(scenario([], []), results).status is Status.DONE
    other = ratio("red.together.fast.iops", "red.solo.fast.iops")
    model = scenario([claim(of=other, optional=True)], [replace(control(), ratio=SHARE)], ["none", "red"])
    skips = [*cells("none", 5), CellResult("red", 1, Status.SKIP, ("no null_blk",))]
    verdict = judge(model, skips)
    assert (verdict.controls[0].word, verdict.status) == ("PASS", Status.DONE)


def test_a_missing_requirement_skips_with_all_reasons() -> None:
    results = [CellResult("none", seed, Status.SKIP, ("no CONFIG_A", "no CONFIG_B")) for seed in SEEDS]
    verdict = judge(scenario([claim()]), results)
    assert (verdict.status, verdict.exit_code) == (Status.SKIP, 125)
    assert only(verdict).sentence == "arm none: no CONFIG_A; no CONFIG_B"


@pytest.mark.parametrize(
    ("status", "lab_broke", "code"),
    [(Status.ERROR, False, 125), (Status.ERROR, True, 128), (Status.MISS, False, 125), (Status.FAIL, False, 1)],
)
def test_one_bad_boot_decides(status: Status, lab_broke: bool, code: int) -> None:
    bad = CellResult("none", 2, status, ("as it was",), outcome=Outcome.LOST, lab_broke=lab_broke)
    verdict = judge(scenario([claim()]), [cell("none", 1, 95), bad, cell("none", 3, 95)])
    assert (verdict.status, verdict.exit_code) == (status, code)
    assert only(verdict).judgement.status is status
    assert "as it was" in only(verdict).sentence


def test_what_was_not_measured_decides_nothing() -> None:
    verdict = judge(scenario([claim()]), cells("none", 95, 95), seeds=SEEDS)
    assert (verdict.status, verdict.exit_code) == (Status.MISS, 125)
    assert verdict.incidents[0].reasons == ("arm none under seed 3 was not measured",)
    verdict = judge(scenario([claim(of=ratio("none.solo.fast.lat.p99.9"))]), cells("none", 1, 1, 1))
    assert verdict.status is Status.ERROR
    assert "recorded no solo.fast.lat.p99.9" in only(verdict).sentence
    results = [cell("none", seed, 1, solo=0) for seed in SEEDS]
    assert judge(scenario([claim()]), results).status is Status.ERROR
    assert judge(scenario(), cells("none", 1, 1, 1)).status is Status.DONE


def test_a_line_of_a_function_that_the_kernel_does_not_have_is_skipped() -> None:
    wanted = scenario([claim(of=ratio("none.together.guest.line.sd_done.seen"))])
    bare = cells("none", 1, 1, 1)
    counted = [replace(one, figures={**one.figures, ("together", "guest", "lines.seen"): 1.0}) for one in bare]
    verdict = judge(wanted, counted)
    assert only(verdict).judgement.status is Status.SKIP
    assert "arm none: the kernel has no function or variable sd_done, or inlines it" in only(verdict).sentence
    assert judge(wanted, bare).status is Status.ERROR, "nothing was counted"


def test_folios_whose_order_the_kernel_does_not_say_are_skipped() -> None:
    wanted = scenario([claim(of=ratio("none.together.fast.folios.order0"))])
    verdict = judge(wanted, cells("none", 1, 1, 1))
    assert only(verdict).judgement.status is Status.SKIP
    assert "does not say how large a folio is, which Linux 5.17 and later do" in only(verdict).sentence


def test_a_cost_that_ticks_do_not_tell_is_skipped() -> None:
    wanted = scenario([claim(of=ratio("none.together.fast.cpu.per_io"))])

    def idle(share: float, **iops: float) -> Verdict:
        figures = {("together", "guest", "cpu.idle"): share}
        figures |= {("together", role, "iops"): value for role, value in iops.items()}
        return judge(wanted, [replace(each, figures={**each.figures, **figures}) for each in cells("none", 1, 1, 1)])

    assert idle(0.06).status is Status.SKIP
    assert "idle time is known in ticks only" in only(idle(0.06)).sentence
    assert idle(0.05).status is Status.ERROR, "it was not counted at all"
    bare = {("together", "fast", "iops"): 95.0}
    unknown = judge(
        replace(wanted, meant=tuple(Unseen)),
        [CellResult("none", seed, Status.PASS, figures=bare) for seed in SEEDS],
    )
    assert unknown.status is Status.ERROR, "nor was the idle time"
    assert idle(0.06, fast=0, slow=0).status is Status.ERROR, "no I/O has no cost"


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
@pytest.mark.parametrize("load", ["together", "solo"])
def test_a_figure_that_is_not_finite_was_not_recorded(value: float, load: str) -> None:
    usual = {("together", "fast", "lat.mean"): 5.0, ("solo", "fast", "lat.mean"): 5.0}
    results = [replace(cell, figures={**cell.figures, **usual}) for cell in cells("none", 95, 95, 95)]
    results[2] = replace(results[2], figures={**results[2].figures, (load, "fast", "lat.mean"): value})
    verdict = judge(scenario([claim(of=ratio("none.together.fast.lat.mean", "none.solo.fast.lat.mean"))]), results)
    assert verdict.status is Status.ERROR
    assert only(verdict).sentence == f"arm none under seed 3 recorded no {load}.fast.lat.mean"


@pytest.mark.parametrize(
    ("expect", "holds"),
    [
        (Bound(">= 0.9", 0.9, None), True),
        (Bound("> 0.9", 0.9, None, low_open=True), False),
        (Bound("<= 0.9", None, 0.9), True),
        (Bound("< 0.9", None, 0.9, high_open=True), False),
        (Bound("0.9 .. 1", 0.9, 1.0), True),
        (Bound("0.5 .. 0.9", 0.5, 0.9), True),
    ],
)
def test_a_value_at_the_bound(expect: Bound, holds: bool) -> None:
    assert expect.holds(0.9) is holds
    (low, high) = (0.9 - 1e-9, 0.9 + 1e-9)
    assert expect.holds(high) is (expect.low == 0.9) and expect.holds(low) is (expect.high == 0.9)
    assert judge(scenario([claim(expect)]), cells("none", 90, 90, 90)).status is (Status.PASS if holds else Status.FAIL)


@pytest.mark.parametrize(
    ("red", "status"), [((5, 5, 5), Status.PASS), ((90, 90, 90), Status.ERROR), ((5, 90, 5), Status.DONE)]
)
def test_an_arm_control_must_fail(red: tuple[float, ...], status: Status) -> None:
    results = cells("none", 95, 95, 95) + cells("red", *red)
    verdict = judge(scenario([claim()], [control()], ["none", "red"]), results)
    assert verdict.status is status
    if status is Status.ERROR:
        assert "did not fail" in verdict.controls[0].sentence


def on_mutant(*together: float, mutant: str = "no-fair-tags") -> ControlVerdict:
    model = scenario([claim()], [control(AT_MOST, SHARE, mutant="no-fair-tags")])
    return judge(model, cells("none", *together), mutant=mutant).controls[0]


def test_a_control_for_other_kernels_is_not_run() -> None:
    model = scenario([claim()], [replace(control(AT_MOST, SHARE), kernels=">= 6.2")])
    (old, new) = (judge(model, cells("none", 10, 20, 30), release=release).controls[0] for release in ("6.1", "6.2"))
    assert (old.word, old.sentence) == ("not run", "not run: it is made for kernels >= 6.2")
    assert new.word == Status.PASS


def test_a_mutant_control_is_judged_on_its_mutant_only() -> None:
    red = on_mutant(10, 20, 30)
    assert red.judgement is not None
    assert (red.judgement.status, red.sentence) == (Status.PASS, "negative control: fails, as it must")
    green = on_mutant(95, 95, 95)
    assert green.judgement is not None and green.judgement.status is Status.ERROR
    assert on_mutant(10, 20, 30, mutant="lifo-wake").judgement is None
    verdict = judge(scenario([claim()], [control(mutant="no-fair-tags")]), cells("none", 95, 95, 95))
    assert verdict.status is Status.PASS
    assert verdict.controls[0].judgement is None
    assert verdict.controls[0].sentence == "not run: needs a kernel with the mutant no-fair-tags"
    assert not verdict.controls[0].held


@pytest.mark.parametrize(
    ("outcome", "hangs", "status"),
    [
        (Outcome.HANG, True, Status.PASS),
        (Outcome.HANG, False, Status.ERROR),
        (Outcome.OOPS, True, Status.ERROR),
        (Outcome.OOPS, False, Status.ERROR),
    ],
)
def test_a_mutant_that_kills_its_guest_is_red_only_where_it_was_to_hang(
    outcome: Outcome, hangs: bool, status: Status
) -> None:
    dead = replace(cell("none", 2, 95), status=Status.FAIL, reasons=("the kernel died",), figures={}, outcome=outcome)
    results = [cell("none", 1, 95), dead, cell("none", 3, 95)]
    model = scenario([claim()], [replace(control(AT_MOST, SHARE, mutant="no-fair-tags"), hangs=hangs)])
    verdict = judge(model, results, mutant="no-fair-tags")
    judged = verdict.controls[0].judgement
    assert judged is not None and (judged.status, judged.ensemble) == (status, None)
    assert "the kernel died" in verdict.controls[0].sentence
    assert verdict.status is Status.FAIL
    # One that hangs and one that dies are not red.
    other = replace(dead, seed=1, outcome=Outcome.OOPS)
    judged = judge(model, [other, dead], mutant="no-fair-tags").controls[0].judgement
    assert judged is not None and judged.status is Status.ERROR


def test_a_claim_about_the_device_needs_an_idle_guest() -> None:
    model = scenario([BOUND_CLAIM])
    assert judge(model, cells("none", 7990, 8000, 7950)).status is Status.PASS
    busy = judge(model, cells("none", 7990, 8000, 7950, idle=0.19))
    assert busy.status is Status.DONE
    assert "idle for less than a fifth" in only(busy).sentence
    assert judge(scenario([claim()]), cells("none", 95, 95, 95, idle=0.2)).status is Status.PASS
    assert judge(scenario([claim()]), cells("none", 95, 95, 95, idle=0.19)).status is Status.DONE


@pytest.mark.parametrize("busy", ["solo", "together"])
@pytest.mark.parametrize("idle", [0.1, None])
def test_the_guest_must_be_idle_in_the_windows_of_both_operands(busy: str, idle: float | None) -> None:
    """None: how idle it was is not recorded."""
    results = cells("none", 95, 95, 95)
    figures = {key: value for key, value in results[1].figures.items() if key != (busy, "guest", "cpu.idle")}
    if idle is not None:
        figures[busy, "guest", "cpu.idle"] = idle
    results[1] = replace(results[1], figures=figures)
    verdict = judge(scenario([claim()]), results)
    assert (verdict.status, verdict.exit_code) == (Status.DONE, 125)
    assert "idle for less than a fifth" in only(verdict).sentence


@pytest.mark.parametrize(("idle", "base", "code"), [(0.9, 0.9, 0), (0.1, 0.9, 125), (0.9, 0.1, 125)])
def test_the_base_kernel_s_windows_must_be_idle_too(idle: float, base: float, code: int) -> None:
    against = scenario([claim(of=ratio("none.together.fast.iops", "baseline.none.together.fast.iops"))])
    baseline = cells("none", 100, 100, 100, idle=base)
    assert judge(against, cells("none", 95, 95, 95, idle=idle), baseline).exit_code == code


def test_a_busy_processor_decides_nothing_in_any_window() -> None:
    assert judge(scenario([claim()]), cells("none", 5, 5, 5)).exit_code == 1
    assert judge(scenario([claim()]), cells("none", 5, 5, 5, idle=0.0)).exit_code == 125
    results = cells("none", 95, 95, 95)
    (cell, *others) = results
    busy = {**cell.figures, ("solo", "guest", "cpu.idle"): 0.1}
    assert judge(scenario([claim()]), [replace(cell, windows=(cell.figures, cell.figures)), *others]).exit_code == 0
    assert judge(scenario([claim()]), [replace(cell, windows=(cell.figures, busy)), *others]).exit_code == 125


@pytest.mark.parametrize(
    ("left", "right", "guarded"),
    [
        ("none.together.fast.cpu.per_io", "none.solo.fast.cpu.per_io", False),
        ("none.together.fast.disk.merges", "none.together.fast.disk.bios", False),
        ("none.together.fast.disk.merges", "none.solo.fast.disk.merges", True),
        ("none.together.fast.disk.merges", None, True),
        ("none.together.fast.disk.busy.ms", "none.together.fast.disk.bios", True),
        ("none.together.fast.iops", "none.together.fast.disk.bios", True),
        ("none.together.fast.cpu.per_io", "none.together.fast.iops", True),
        ("none.together.fast.paths.busiest", None, False),
        ("none.together.lun.fast.tags.mean", None, True),
    ],
)
def test_what_needs_an_idle_guest(left: str, right: str | None, guarded: bool) -> None:
    of = ratio(left, right)
    figures = {("together", "guest", "cpu.idle"): 0.0, ("solo", "guest", "cpu.idle"): 0.0}
    for _, load, role, metric in (one.path for one in (of.left, of.right) if one is not None):
        figures[load, role, metric] = 5.0
    results = [replace(cell, figures=figures) for cell in cells("none", 1, 1, 1)]
    verdict = judge(scenario([claim(of=of)]), results)
    assert verdict.status is (Status.DONE if guarded else Status.PASS)


def diagnosis(that: str, of: Ratio, expect: Bound) -> Diagnosis:
    return Diagnosis(that, (Condition(of, expect),))


HELD = ratio("none.together.lun.fast.tags.mean")
STARVED = diagnosis("few tags", HELD, Bound("<= 2", None, 2))
FULL = diagnosis("all tags", HELD, Bound(">= 60", 60, None))


def diagnosed(held: float | None, *diagnoses: Diagnosis, together: float = 5) -> ClaimVerdict:
    results = cells("none", together, together, together)
    if held is not None:
        key = ("together", "lun", "fast.tags.mean")
        results = [replace(cell, figures={**cell.figures, key: held + cell.seed / 10}) for cell in results]
    return only(judge(replace(scenario([claim()]), diagnoses=diagnoses), results))


def test_a_failure_has_the_diagnosis_that_holds_with_its_figures_or_what_was_ruled_out() -> None:
    found = diagnosed(1.0, STARVED, FULL)
    assert found.sentence == "few tags (none.together.lun.fast.tags.mean = 1.1 .. 1.3)"
    assert [one.holds for one in found.diagnosed] == [True, False]
    assert diagnosed(30.0, STARVED, FULL).sentence == (
        "cause unknown; ruled out: few tags (none.together.lun.fast.tags.mean = 30.1 .. 30.3, not <= 2); "
        "ruled out: all tags (none.together.lun.fast.tags.mean = 30.1 .. 30.3, not >= 60)"
    )
    assert diagnosed(1.9, STARVED).sentence.startswith("cause unknown; ruled out: few tags")
    assert diagnosed(None, STARVED).sentence == "cause unknown; not measured: few tags"
    both = Diagnosis("few tags while many wait", (*STARVED.when, Condition(SHARE, Bound("<= 0.01", None, 0.01))))
    found = diagnosed(1.0, both)
    assert found.sentence == (
        "cause unknown; ruled out: few tags while many wait (none.together.fast.iops / none.solo.fast.iops = 0.05, "
        "not <= 0.01)"
    )


def test_a_diagnosis_is_of_failures_of_its_arms_and_loads_alone() -> None:
    other = diagnosis("elsewhere", ratio("red.together.lun.fast.tags.mean"), Bound("<= 2", None, 2))
    load = diagnosis("elsewhere", ratio("none.alone.lun.fast.tags.mean"), Bound("<= 2", None, 2))
    across = diagnosis(
        "both", ratio("none.together.lun.fast.tags.mean", "red.together.fast.iops"), Bound("<= 2", None, 2)
    )
    beside = replace(STARVED, when=(*STARVED.when, *other.when))
    assert diagnosed(1.0, other, load, across, beside).sentence == "it starves"
    assert diagnosed(1.0, STARVED, together=95).sentence == "it keeps it"


def test_a_known_failure_is_diagnosed_too() -> None:
    known = KnownFailure("5.10", "it is old", "https://example.org/")
    model = replace(scenario([replace(claim(), known=(known,))]), diagnoses=(STARVED,))
    results = [
        replace(cell, figures={**cell.figures, ("together", "lun", "fast.tags.mean"): 1.0})
        for cell in cells("none", 5, 5, 5)
    ]
    (found,) = judge(model, results, release="5.10.0").claims
    assert found.word == "XFAIL"
    assert found.sentence.endswith("; measured: few tags (none.together.lun.fast.tags.mean = 1)")


def test_a_baseline_is_compared_when_it_was_given() -> None:
    against = scenario([claim(of=ratio("none.together.fast.iops", "baseline.none.together.fast.iops"))])
    results = cells("none", 95, 95, 95)
    alone = judge(against, results)
    assert alone.status is Status.SKIP
    assert only(alone).sentence == "no BASE kernel given"
    assert judge(against, results, cells("none", 100, 100, 100)).status is Status.PASS
    assert judge(against, results, cells("none", 1000, 1000, 1000)).status is Status.FAIL


@given(st.lists(st.floats(0.01, 1e6), min_size=3, max_size=3), st.floats(0.01, 10))
def test_a_claim_is_as_its_seeds_are(together: list[float], least: float) -> None:
    verdict = judge(scenario([claim(Bound("", least, None))]), cells("none", *together))
    held = [value / 100.0 >= least for value in together]
    expected = Status.PASS if all(held) else Status.DONE if any(held) else Status.FAIL
    assert verdict.status is expected


@given(st.permutations(cells("none", 95, 80, 91)))
def test_the_order_of_cells_does_not_matter(results: list[CellResult]) -> None:
    assert judge(scenario([claim(AT_LEAST)]), results) == judged(95, 80, 91)
