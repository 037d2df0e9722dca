# SPDX-License-Identifier: GPL-2.0-only
"""Values exactly at a bound, inputs of none or one, and the sentences that name them."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from harness.figures.boot import MeasurementError, parse
from harness.judge.cells import (
    Ensemble,
    _mean,
    common_result,
    comparable,
    differences,
    ensemble_of,
    result_of_boot,
)
from harness.judge.claims import JudgedCondition, ReproductionVerdict
from harness.judge.verdict import judge, verdict_document
from harness.limits.filling import Flow, FlowElement, FlowKind, fill
from harness.limits.limits import allowed, fair_share
from harness.noise import Interval, finest_level, interval, more_rounds, scatter, stopping_rule
from harness.scenario.model import Bound, Reproduction, Status
from lab.base.errors import Misuse
from lab.base.record import BootRecord, Outcome
from tests.unit.analysis_samples import (
    AT_LEAST,
    SHARE,
    TOGETHER,
    bound,
    cell,
    cells,
    claim,
    control,
    null_topology,
    role,
)
from tests.unit.analysis_samples import load as load_of
from tests.unit.analysis_samples import scenario as sample


def ensemble(*values: float) -> Ensemble:
    return Ensemble(dict(enumerate(values, start=1)))


# Six values, exp(s) and exp(-s) by turns, have the deviation 1.0954 s (sqrt(6 / 5)) about 1. The level of the last look
# is 3/128 from 7 rounds on, 25/1024 at 10 and 11, 9/1024 at 12 and 13, 17/1024 at 14 and 15. Its normal quantile and
# that of the power (0.8416) add up to 2.829, 2.812, 3.217 and 2.971, so r rounds do where deviation / distance is at
# most sqrt(r) over that: 0.935 (7), 0.9997 (8), 1.060 (9), 1.125 (10), 1.180 (11), 1.077 (12), 1.121 (13), 1.259 (14).
@pytest.mark.parametrize(
    ("ratio", "more"),
    [
        (0.93, 1),
        (0.94, 2),
        (0.999, 2),
        (1.0, 3),
        (1.07, 4),
        (1.12, 4),
        (1.13, 5),
        (1.17, 5),
        (1.19, 8),
        (1.25, 8),
        (1.27, 9),
    ],
)
def test_the_rounds_that_would_decide_follow_from_deviation_and_distance(ratio: float, more: int) -> None:
    deviation = ratio * 0.1 / math.sqrt(6 / 5)
    values = [math.exp(sign * deviation) for sign in (1, -1) * 3]
    for edges in ((math.exp(-0.1), None), (None, math.exp(0.1)), (math.exp(-0.1), 1e9), (1e-9, math.exp(0.1))):
        assert more_rounds(values, Bound("", *edges)) == more
    # Not positive: differences, not quotients.
    assert more_rounds([sign * deviation for sign in (1, -1) * 3], Bound("", -0.1, None)) == more


@pytest.mark.parametrize(("values", "more"), [([], 6), ([1.0], 5), ([1.0] * 5, 1), ([1.0] * 6, 1), ([1.0] * 9, 1)])
def test_without_a_distance_the_fewest_rounds_are_asked_for(values: list[float], more: int) -> None:
    """A ratio of positive values has no distance from 0, and fewer than two values have no deviation."""
    assert more_rounds(values, Bound(">= 0", 0.0, None)) == more
    if len(values) < 2:
        assert more_rounds(values, Bound(">= 0.5", 0.5, None)) == more
    # Two values have one: factors of four about 1, and 0.9 is nearer than 64 rounds tell.
    assert more_rounds([0.25, 4.0], Bound(">= 0.9", 0.9, None)) is None


@pytest.mark.parametrize(
    ("edges", "opened", "within", "outside"),
    [
        ((0.9, None), "", True, False),
        ((0.9, None), "low", False, False),
        ((0.91, None), "", False, False),
        ((None, 1.0), "", True, False),
        ((None, 1.0), "high", False, False),
        ((None, 0.99), "", False, False),
        ((1.0, None), "", False, False),
        ((1.0, None), "low", False, True),
        ((1.01, None), "", False, True),
        ((None, 0.9), "", False, False),
        ((None, 0.9), "high", False, True),
        ((None, 0.89), "", False, True),
        ((0.5, 0.8), "", False, True),
        ((1.1, 1.2), "", False, True),
    ],
)
def test_an_interval_at_a_bound(
    edges: tuple[float | None, float | None], opened: str, within: bool, outside: bool
) -> None:
    seen = Interval(0.9, 1.0, 0.95, 1 / 64, 6)
    expect = Bound("", *edges, low_open=opened == "low", high_open=opened == "high")
    assert (seen.within(expect), seen.outside(expect)) == (within, outside)


@pytest.mark.parametrize(
    ("count", "steps", "low", "centre", "high"),
    [
        (20, 1, 0.5, 9.5, 18.5),  # ten pairs of neighbours
        (12, 1, 0.0, 5.5, 10.5),  # the fifth and the tenth batch have two
        (12, 2, 0.5, 5.5, 10.0),  # the first two together; the last two, 9 and (10, 11)
        (10, 1, 0.0, 4.5, 9.0),
    ],
)
def test_more_than_ten_values_are_batches(count: int, steps: int, low: float, centre: float, high: float) -> None:
    for shift in (0.0, -30.0):  # logarithms, and values that have none
        values = [number + shift if shift else math.exp(number) for number in range(count)]
        seen = interval(values, steps / 1024)
        assert seen is not None and (seen.level, seen.rounds) == (steps / 1024, count)
        ends = [each - shift if shift else math.log(each) for each in (seen.low, seen.centre, seen.high)]
        assert ends == pytest.approx([low, centre, high], abs=1e-9)
    assert [finest_level(number) for number in (1, 6, 10, 11)] == [1 / 2, 1 / 64, 1 / 1024, 1 / 1024]


@pytest.mark.parametrize(
    ("rounds", "looks"),
    [
        (5, []),
        (6, [(6, 1 / 64)]),
        (11, [(11, 25 / 1024)]),
        (12, [(6, 1 / 64), (12, 9 / 1024)]),
        # A third of 0.025 is less than 1/64; what is left is halved.
        (24, [(6, 1 / 64), (12, 4 / 1024), (24, 5 / 1024)]),
        (40, [(10, 8 / 1024), (20, 8 / 1024), (40, 9 / 1024)]),
    ],
)
def test_looks_and_their_levels(rounds: int, looks: list[tuple[int, float]]) -> None:
    assert [(look.rounds, look.level) for look in stopping_rule(rounds).looks] == looks


def test_scatter_needs_two_of_each_and_positive_ratios() -> None:
    two = [[1.0, math.exp(2)], [math.exp(4), math.exp(6)]]
    assert scatter(two[:1]) is None and scatter([two[0], [1.0]]) is None and scatter([two[0], [1.0, -1.0]]) is None
    seen = scatter([[1.0, math.exp(2)], [1.0, math.exp(2)]])
    # Equal boots: the variance of their means is less than the windows give, which is no scatter of boots.
    assert seen is not None and (seen.boots, seen.windows) == pytest.approx((0.0, math.sqrt(2)))


@pytest.mark.parametrize(
    ("warnings", "shown"),
    [(1, "a 0"), (3, "a 0; a 1; a 2"), (4, "a 0; a 1; a 2; and 1 more"), (5, "a 0; a 1; a 2; and 2 more")],
)
def test_warnings_of_the_kernel_are_quoted_up_to_three(warnings: int, shown: str) -> None:
    record = BootRecord(
        Path("x"), Outcome.BYE, "bye", tuple(f"a {number}" for number in range(warnings)), {}, "d", {}, {}, {}
    )
    arm = sample([claim()]).arms["none"]
    result = result_of_boot(arm, 1, record, [], release="6.1")
    assert (result.status, result.reasons) == (
        Status.ERROR,
        (f"the kernel complained after it was ready: {shown}",),
    )
    hung = result_of_boot(arm, 1, replace(record, outcome=Outcome.HANG, detail=""), [], release="6.1")
    assert hung.reasons == ("the kernel hung after it was ready",)
    said = result_of_boot(arm, 1, replace(record, outcome=Outcome.HANG, detail="in step 3"), [], release="6.1")
    assert said.reasons == ("the kernel hung after it was ready: in step 3",)


@pytest.mark.parametrize(
    ("other", "says"),
    [({}, ""), ({"qemu": "8"}, "qemu differs"), ({"qemu": "8", "arm": "x"}, "arm, qemu differ"), ({"kernel": "5"}, "")],
)
def test_two_boots_are_compared_by_all_but_their_kernels(other: dict[str, str], says: str) -> None:
    own = {"kernel": "6", "base": "b", "job": "j", "qemu": "7", "arm": "none"}
    here, there = (replace(cell("none", 2, 95), fingerprint=each) for each in (own, own | other))
    (found,) = comparable([here], [there])
    reason = f"cannot be compared under seed 2: {says}, not only the kernel"
    assert (found.status, found.reasons, bool(found.figures)) == (
        (Status.ERROR, (reason,), False) if says else (Status.PASS, (), True)
    )
    assert differences({"qemu": "7"}, {}) == ("qemu",)


def test_repetitions_name_each_digest_once_and_the_first_that_failed() -> None:
    first = cell("none", 3, 95)
    differing = common_result(
        [replace(first, digest="a" * 20), replace(first, digest="b" * 20), replace(first, digest=None)]
    )
    assert differing.reasons == (
        f"arm none under seed 3 is not repeatable: its digests are {'a' * 12}, {'b' * 12}, none",
    )
    assert (differing.lab_broke, differing.figures) == (True, {})
    dead = replace(first, status=Status.FAIL, reasons=("it died",))
    for ended in (dead, replace(dead, digest=None)):
        assert common_result([first, ended]) is ended and common_result([ended, first]) is ended


def test_a_document_has_its_figures_in_order_and_seeds_that_nobody_planned_too() -> None:
    first = cell("none", 8, 95)
    turned = replace(first, figures=dict(reversed(list(first.figures.items()))))
    verdict = judge(sample([claim()]), [turned, cell("none", 2, 95), cell("none", 1, 95)])
    assert verdict.seeds == (1, 2, 8)
    names = [list(each["figures"]) for each in verdict_document(verdict)["cells"]]
    assert names == [sorted(each) for each in names]


def test_a_mean_is_none_of_rounding() -> None:
    values = [number / 7 for number in range(1, 60)]
    assert [_mean([value] * count) for count in (1, 3) for value in values] == values * 2


def test_an_ensemble_has_the_seeds_of_its_arm_alone() -> None:
    key = ("together", "fast", "iops")
    found = ensemble_of([*cells("none", 95, 80, 91), *cells("red", 5)], "none", key)
    assert found is not None and (found.low, found.median, found.high) == (80, 91, 95)
    assert found.holding(AT_LEAST) == (1, 2, 3) and found.holding(Bound("<= 91", None, 91)) == (2, 3)
    assert ensemble_of(cells("none", 95), "red", key) is None


@pytest.mark.parametrize(
    ("values", "says"),
    [((1.0,), "r = 1"), ((1.0, 1.0001), "r = 1"), ((1.0, 1.25), "r = 1 .. 1.25"), ((), "r not measured")],
)
def test_a_condition_is_quoted_with_three_digits(values: Sequence[float], says: str) -> None:
    assert str(JudgedCondition("r", ">= 1", ensemble(*values) if values else None, True)) == says


def test_a_reproduction_is_off_by_a_share_of_the_report() -> None:
    entry = Reproduction("as reported", SHARE, 0.5, "", "")
    assert ReproductionVerdict(**vars(entry), ensemble=ensemble(0.4, 0.6, 0.65)).off == pytest.approx(0.2)
    assert ReproductionVerdict(**vars(replace(entry, reported=None)), ensemble=ensemble(0.4)).off is None


@pytest.mark.parametrize(
    ("together", "says"),
    [((95, 80, 95), "seed 1, 3 only"), ((80, 95, 80), "seed 2 only")],
)
def test_an_ensemble_on_both_sides_of_a_bound_names_the_seeds_that_hold(together: Sequence[int], says: str) -> None:
    (found,) = judge(sample([claim()]), cells("none", *together)).claims
    assert found.sentence == f"inconclusive: the bound lies inside the ensemble (it holds under {says})"
    assert found.judgement.status is Status.DONE


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
    model = sample([replace(claim(optional=optional), draft=draft)], [extra] if extra else [], ["none", "red"])
    verdict = judge(model, [*cells("none", 200, 200, 200), *cells("red", 5, 5, 5)])
    assert verdict.claims[0].text == (text.replace(", unproven", "").replace(" (unproven)", "") if extra else text)
    assert verdict.status is status
    document = verdict_document(verdict)["claims"][0]
    assert (document["optional"], document.get("draft", False)) == (optional, draft)


@pytest.mark.parametrize(("can_queue", "users", "share"), [(64, 1, 64), (64, 3, 22), (10, 3, 4), (8, 4, 4), (3, 2, 3)])
def test_a_fair_share_is_rounded_up_and_four_at_least(can_queue: int, users: int, share: int) -> None:
    assert fair_share(can_queue, users) == share


def test_the_order_of_elements_does_not_follow_from_hashes() -> None:
    """They differ at each start of Python."""
    fixed = {FlowElement(FlowKind.DISK, f"d{number}", 1.0): 1.0 for number in range(24)}
    assert list(fill([Flow("flow", 1.0, fixed)]).use) == list(fixed)


def test_bounds_of_one_role_and_of_none() -> None:
    topology = null_topology()
    only = role("fast", "fast", iodepth=1)
    assert bound(topology, load_of("solo", only), only, "iops") == pytest.approx(250)
    assert bound(topology, load_of("solo", only), only, "lat.mean") == pytest.approx(4e6)
    with pytest.raises(Misuse, match=r"no bound on lat\.max"):
        bound(topology, load_of("solo", only), only, "lat.max")
    # 64 tags for two: 32 of each by Little's law.
    found = allowed(topology, TOGETHER)
    assert dict(found.rates) == pytest.approx({"fast": 32 / 0.004 * 4096, "slow": 32 / 0.4 * 4096})
    assert [limit.use for limit in found.limits] == pytest.approx([1, 1, 1, 0.5, 0.5])


def test_what_is_no_json_is_quoted_with_its_first_60_bytes() -> None:
    with pytest.raises(MeasurementError, match=f'it starts with "{{\ufffd{58 * "a"}"$'):
        parse(b" {\xff" + 70 * b"a", "fio.json")
