# SPDX-License-Identifier: GPL-2.0-only
"""Claims that follow from others, what makes a claim fail, and when a selftest counts as passed."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.base.checkout import SCENARIOS
from harness.commands.maintain import shortfalls
from harness.judge.cells import CellResult
from harness.judge.verdict import Verdict
from harness.limits.entries import implied, killers, load_scenario
from harness.scenario.load import find_scenarios
from harness.scenario.model import Claim, Control, KnownFailure, Scenario, Selftest, Status
from harness.scenario.ratio import names_of, parse_bound, parse_ratio
from lab.base.errors import InputErrors
from tests.unit.analysis_samples import AT_MOST, null_topology, scenario

ARMS = ("none", "red", "half")


def model(claims: dict[str, str], controls: dict[str, str] | None = None) -> Scenario:
    """The sample scenario with these ratios and bounds; a control's ratio may begin with MUTANT@."""
    plain = scenario(arms=ARMS)
    plain = replace(plain, arms={**plain.arms, "half": replace(plain.arms["half"], topology=null_topology(32))})
    names = names_of(plain)
    made = [Claim("claim", parse_ratio(text, names), parse_bound(expect)) for text, expect in claims.items()]
    red = []
    for text, expect in (controls or {}).items():
        mutant, _, ratio = text.rpartition("@")
        red.append(Control("control", parse_ratio(ratio, names), parse_bound(expect), mutant))
    return replace(plain, claims=tuple(made), controls=tuple(red))


SOLO, TOGETHER, SLOW = "none.solo.fast.iops", "none.together.fast.iops", "none.together.slow.iops"


def found(of: Scenario) -> list[tuple[bool, int, tuple[str, ...]]]:
    by = [tuple(one.message.partition(" do: ")[2].split("; ")) for one in implied(of)]
    return [(one.section == "controls", one.index, ratios) for one, ratios in zip(implied(of), by, strict=True)]


def test_a_quotient_of_two_bounded_figures_is_implied_with_what_it_follows_from() -> None:
    """Half of the tags together, all of them alone: 0.5 * 1.02 / 0.98 = 0.52."""
    solo, together = f"{SOLO} / bound.{SOLO}", f"{TOGETHER} / bound.{TOGETHER}"
    claims = {solo: "0.98 .. 1.02", together: "0.98 .. 1.02"}
    assert found(model(claims, {f"{TOGETHER} / {SOLO}": "<= 0.53"})) == [(True, 0, (solo, together))]
    assert found(model(claims, {f"{TOGETHER} / {SOLO}": "<= 0.52"})) == []


def test_both_sides_of_an_interval_must_follow() -> None:
    claims = {f"{TOGETHER} / {SOLO}": "0.4 .. 0.6"}
    assert found(model(claims, {f"{SOLO} / {TOGETHER}": "1.6 .. 2.6"})) == [(True, 0, (f"{TOGETHER} / {SOLO}",))]
    assert found(model(claims, {f"{SOLO} / {TOGETHER}": "1.7 .. 2.6"})) == []
    assert found(model({f"{TOGETHER} / {SOLO}": "<= 0.6"}, {f"{SOLO} / {TOGETHER}": "1.6 .. 2.6"})) == []


def test_a_claim_follows_from_claims_alone_and_a_control_from_both() -> None:
    claims = {f"{TOGETHER} / {SOLO}": ">= 0.5"}
    assert found(model(claims, {f"{SOLO} / {TOGETHER}": "<= 2"})) == [(True, 0, (f"{TOGETHER} / {SOLO}",))]
    chain = {f"{TOGETHER} / {SOLO}": "<= 0.5", f"{SLOW} / {TOGETHER}": "<= 0.5", f"{SLOW} / {SOLO}": "<= 0.25"}
    assert found(model(chain)) == [(False, 2, (f"{TOGETHER} / {SOLO}", f"{SLOW} / {TOGETHER}"))]


@pytest.mark.parametrize(("claim", "control", "follows"), [("> 1", "< 1", True), (">= 1", "< 1", False)])
def test_an_open_bound_follows_from_an_open_one_alone(claim: str, control: str, follows: bool) -> None:
    of = model({f"{TOGETHER} / {SOLO}": claim}, {f"{SOLO} / {TOGETHER}": control})
    assert bool(found(of)) is follows


def test_what_may_fail_implies_nothing() -> None:
    of = model({f"{TOGETHER} / {SOLO}": ">= 0.5"}, {f"{SOLO} / {TOGETHER}": "<= 2"})
    (claim,), (control,) = of.claims, of.controls
    known = KnownFailure("5.10", "it is old", "https://example.org/")
    for other in (replace(claim, optional=True), replace(claim, known=(known,)), replace(claim, kernels=">= 6.1")):
        assert found(replace(of, claims=(other,))) == []
    narrow = replace(of, claims=(replace(claim, kernels=">= 6.1"),), controls=(replace(control, kernels=">= 6.1"),))
    assert len(found(narrow)) == 1
    assert found(replace(of, controls=(replace(control, mutant="no-fair-tags"),))) == []
    assert found(replace(of, selftest=Selftest(Status.PASS, 0))) == []


@pytest.mark.parametrize(
    ("control", "expect", "refused"),
    [
        ("none.solo.fast.lat.max", ">= 1", True),
        ("none.solo.fast.lat.max", ">= 2", False),
        ("none.solo.fast.slat.max", ">= 1", False),
        ("no-fair-tags@none.solo.fast.lat.p99", ">= 0.5", True),
        ("none.solo.guest.cpu.idle", "<= 1", True),
        ("none.solo.guest.cpu.idle", "<= 0.99", False),
        ("none.solo.fast.paths.busiest", "<= 1.5", True),
        (f"{SOLO} / none.solo.fast.lat.max", ">= 0.1", False),
        (f"none.solo.fast.lat.max / {SOLO}", ">= 0.1", False),
    ],
)
def test_a_control_that_every_kernel_satisfies_is_refused(control: str, expect: str, refused: bool) -> None:
    """A latency is at least 1 ns, on the mutant too; a share is at most 1."""
    said = [(one.section, one.message) for one in implied(model({f"{TOGETHER} / {SOLO}": ">= 0.9"}, {control: expect}))]
    assert said == ([("controls", f'"{expect}" holds on every kernel')] if refused else [])


def test_a_bound_of_zero_implies_nothing_and_follows_from_nothing() -> None:
    merges = "none.solo.fast.disk.merges"
    assert found(model({merges: "<= 0"}, {f"{merges} / {SOLO}": "<= 1"})) == []
    assert found(model({f"0 / {SOLO}": "<= 1", f"{TOGETHER} / {SOLO}": "<= 1"})) == []


@given(st.lists(st.floats(0.1, 10), min_size=3, max_size=3), st.floats(0.1, 10))
def test_an_implied_claim_holds_for_all_figures_that_meet_the_premises(values: list[float], limit: float) -> None:
    figures = dict(zip((SOLO, TOGETHER, SLOW), values, strict=True))
    premises = {
        f"{TOGETHER} / {SOLO}": f"<= {figures[TOGETHER] / figures[SOLO] + 0.001:.3f}",
        f"{SLOW} / {TOGETHER}": f"<= {figures[SLOW] / figures[TOGETHER] + 0.001:.3f}",
    }
    if found(model(premises, {f"{SLOW} / {SOLO}": f"<= {limit:.6f}"})):
        assert figures[SLOW] / figures[SOLO] <= limit + 1e-6


def test_the_loader_refuses_implied_claims_with_their_line(tmp_path: Path) -> None:
    text = (SCENARIOS / "null-shared-tags.yaml").read_text()
    ratio = "mq-deadline.together.fast.iops / mq-deadline.solo.fast.iops"
    more = f"  - {{that: too much, ratio: {ratio}, expect: '<= 0.55'}}\n"
    path = tmp_path / "null-shared-tags.yaml"
    path.write_text(text.replace("controls:\n", f"controls:\n{more}"))
    line = path.read_text().splitlines().index(more.rstrip("\n")) + 1
    with pytest.raises(InputErrors) as refused:
        load_scenario(str(path))
    (problem,) = refused.value.problems
    assert (problem.line, "this control holds whenever others of the file do" in problem.message) == (line, True)


def test_every_shipped_scenario_has_claims_of_which_none_is_implied_and_negative_controls() -> None:
    """One of a hunt has a planted race in their place. The loader refuses implied claims."""
    shipped = [
        load_scenario(str(path))
        for path in (path for path in SCENARIOS.rglob("*.yaml") if path.parent.name not in ("evidence", "hunt"))
    ]
    assert [one.name for one in shipped if not (one.claims and one.controls)] == []


@pytest.mark.parametrize("folder", [".", "calibration", "wall"])
def test_every_shipped_claim_names_what_makes_it_fail(folder: str) -> None:
    shipped = [load_scenario(str(path)) for path in find_scenarios(SCENARIOS / folder).values()]
    assert shipped
    assert [f"{one.name}: {claim.that}" for one in shipped for claim in one.claims if not killers(one, claim)] == []


CLAIM = {f"{TOGETHER} / {SOLO}": ">= 0.9"}


@pytest.mark.parametrize(
    ("controls", "names"),
    [
        ({"red.together.fast.iops / red.solo.fast.iops": "<= 0.5"}, ("arm red",)),
        ({f"no-fair-tags@{TOGETHER} / {SOLO}": "< 0.9"}, ("mutant no-fair-tags",)),
        ({f"{SLOW} / {SOLO}": "<= 0.5"}, ()),
        ({"red.together.fast.iops / none.solo.fast.iops": "<= 0.5"}, ()),
        ({"red.together.fast.iops / red.solo.fast.iops": "<= 0.95"}, ()),
        ({"red.together.fast.iops / red.solo.fast.iops": ">= 0.95"}, ()),
        ({"red.together.fast.bw / red.solo.fast.bw": "<= 0.5"}, ()),
        ({"no-fair-tags@red.together.fast.iops / red.solo.fast.iops": "<= 0.5"}, ()),
        ({"red.together.fast.iops / 100": "<= 0.5"}, ()),
    ],
)
def test_a_killer_measures_the_same_elsewhere_and_out_of_bounds(
    controls: dict[str, str], names: tuple[str, ...]
) -> None:
    of = model(CLAIM, controls)
    assert killers(of, of.claims[0]) == names


@pytest.mark.parametrize(
    ("claim", "control", "kills"),
    [
        # 32 of 64 tags make 8000, 16 of 32 make 4000.
        (f"{TOGETHER} / bound.{TOGETHER}", f"half.together.fast.iops / bound.{TOGETHER}", True),
        (f"{TOGETHER} / bound.{TOGETHER}", "half.together.fast.iops / bound.half.together.fast.iops", True),
        (f"{TOGETHER} / bound.{TOGETHER}", "half.together.fast.iops / 8000", True),
        (f"{TOGETHER} / bound.{TOGETHER}", "half.together.fast.iops / 16000", False),
    ],
)
def test_bounds_and_numbers_are_constants(claim: str, control: str, kills: bool) -> None:
    of = model({claim: "0.98 .. 1.02"}, {control: "<= 0.55" if kills else "<= 0.5"})
    assert bool(killers(of, of.claims[0])) is kills


@pytest.mark.parametrize(("most", "kills"), [(95, True), (105, False)])
def test_a_figure_without_a_unit_is_compared_with_one_in_hundreds(most: int, kills: bool) -> None:
    of = model({f"{TOGETHER} / 100": ">= 1"}, {"red.together.fast.iops": f"<= {most}"})
    assert bool(killers(of, of.claims[0])) is kills


def test_known_failures_and_claims_for_other_kernels_are_killers() -> None:
    of = model(CLAIM)
    known = KnownFailure("< 5.17", "it is old", "https://example.org/")
    assert killers(of, replace(of.claims[0], known=(known,))) == ("kernels < 5.17",)
    of = model(CLAIM)
    old, new = replace(of.claims[0], kernels="< 6.17"), replace(of.claims[0], expect=AT_MOST, kernels=">= 6.18")
    of = replace(of, claims=(old, new))
    assert (killers(of, old), killers(of, new)) == (("kernels >= 6.18",), ("kernels < 6.17",))


def test_a_claim_that_holds_elsewhere_is_a_killer_and_an_optional_one_is_none() -> None:
    elsewhere = "red.together.fast.iops / red.solo.fast.iops"
    of = model({**CLAIM, elsewhere: "<= 0.5"})
    first, other = of.claims
    assert (killers(of, first), killers(of, other)) == (("arm red",), ("arm none",))
    optional = replace(of, claims=(first, replace(other, optional=True)))
    assert killers(optional, first) == ()
    expected = replace(
        of, claims=(first, replace(other, known=(KnownFailure("< 5.17", "old", "https://example.org/"),)))
    )
    assert killers(expected, first) == ()


def verdict(status: Status, code: int, reason: str = "") -> Verdict:
    cells = (CellResult("plain", 1, status, (reason,)),)
    return Verdict("s", "0", status, code, (1,), (), (), (), cells)


def test_its_own_status_code_and_words_are_a_pass() -> None:
    wanted = Selftest(Status.FAIL, 1, says="panic")
    assert list(shortfalls(wanted, verdict(Status.FAIL, 1, "a panic in the window"))) == []


@pytest.mark.parametrize(
    ("got", "said"),
    [
        (verdict(Status.PASS, 1, "panic"), "status is PASS, must be FAIL"),
        (verdict(Status.FAIL, 128, "panic"), "exit code is 128, must be 1"),
        (verdict(Status.FAIL, 1, "something else"), 'the reasons lack "panic"'),
    ],
)
def test_each_departure_is_named(got: Verdict, said: str) -> None:
    (only,) = shortfalls(Selftest(Status.FAIL, 1, says="panic"), got)
    assert only.startswith(said)
