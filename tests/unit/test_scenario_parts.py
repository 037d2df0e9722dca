# SPDX-License-Identifier: GPL-2.0-only
"""Parts of a scenario file: ratios, bounds, known failures, the schema for editors and cells."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.base.plain import from_plain, to_plain
from harness.run.plan import expand
from harness.scenario.model import Bound, KnownFailure, Operand, Scenario, is_in
from harness.scenario.ratio import ExpressionError, Names, parse_bound, parse_ratio
from harness.scenario.registry import COUNTED, GUEST, IDLE, OF_ROLES, held_by
from lab.base.errors import Misuse
from lab.kernels.model import RangeError, parse_range
from tests.unit.scenario_text import GOOD, load, mistakes

KNOWN = """\
    expect: ">= 0.9"
    known:
      - {kernels: ">= 5.8, < 5.14", because: tags are handed out first come first served, link: https://example.org/1}
      - {kernels: "5.10", because: the same, link: lore.kernel.org/linux-block/x}
"""
EXPECT = '    expect: ">= 0.9"\n'


def with_known(text: str = KNOWN) -> str:
    assert EXPECT in GOOD
    return GOOD.replace(EXPECT, text)


@pytest.mark.parametrize(
    ("kernels", "inside", "outside"),
    [
        (">= 5.8, < 5.14", ("5.8.0-1-amd64", "5.8", "5.13.19", "5.14-rc7"), ("5.7.19", "5.8-rc1", "5.14.0-1", "6.1")),
        (">=5.8,<5.14-rc1", ("5.13.99",), ("5.14-rc1", "5.14-rc7")),
        ("5.10", ("5.10-rc1", "5.10.0-46-amd64", "5.10.209"), ("5.1", "5.100", "5.11", "4.10")),
        ("5.10.30", ("5.10.30", "5.10.30-amd64"), ("5.10.3", "5.10.300", "5.10")),
        ("7.2-rc3", ("7.2-rc3", "7.2.0-rc3-amd64"), ("7.2-rc30", "7.2", "7.2-rc2")),
        ("< 6.1", ("5.10.0-46-amd64", "6.1-rc8"), ("6.1.0-50-amd64", "6.12.107+deb13-amd64")),
        (" >= 6.12.100 ", ("6.12.107+deb13-amd64", "7.2.12"), ("6.12.99", "6.1.0-50-amd64")),
    ],
)
def test_a_range_includes_its_kernels_only(kernels: str, inside: tuple[str, ...], outside: tuple[str, ...]) -> None:
    assert [release for release in inside if not is_in(release, kernels)] == []
    assert [release for release in outside if is_in(release, kernels)] == []


def test_a_release_that_cannot_be_read_is_in_no_range() -> None:
    assert not is_in("next-20240101", ">= 0.0")


@pytest.mark.parametrize(
    "text", ["", "5", "<= 5.14", "> 5.8", "5.8 - 5.14", ">= 5.8 < 5.14", "5.10-amd64", ">= ", "v5.1"]
)
def test_text_that_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(RangeError, match="expected kernels"):
        parse_range(text)


@pytest.mark.parametrize("text", [">= 5.14, < 5.8", ">= 5.8, < 5.8", ">= 5.8, < 5.8-rc1"])
def test_a_range_without_kernels_is_refused(text: str) -> None:
    with pytest.raises(RangeError, match="no kernel is in"):
        parse_range(text)


def test_known_failures_are_kept_with_their_claim(tmp_path: Path) -> None:
    scenario = load(with_known(), tmp_path)
    assert scenario.claims[0].known == (
        KnownFailure(">= 5.8, < 5.14", "tags are handed out first come first served", "https://example.org/1"),
        KnownFailure("5.10", "the same", "lore.kernel.org/linux-block/x"),
    )
    assert from_plain(Scenario, to_plain(scenario)) == scenario
    assert load(GOOD, tmp_path).claims[0].known == ()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('">= 5.8, < 5.14"', '"<= 5.14"', 't.yaml:23:19: kernels: expected kernels such as "5.10" or ">= 5.8, < 5.14"'),
        ('">= 5.8, < 5.14"', '">= 5.14, < 5.8"', "t.yaml:23:23: kernels, character 4: no kernel is in"),
        ('"5.10"', "5.10", 't.yaml:24:19: kernels: expected kernels such as "5.10"'),
        ('"5.10"', "5.10", 'a number in YAML (quote it: "5.10")'),
        (", because: the same", "", "t.yaml:24:9: known: because is missing"),
        (", link: lore.kernel.org/linux-block/x", "", "t.yaml:24:9: known: link is missing"),
        ("lore.kernel.org/linux-block/x", "a mail", "link: expected an address"),
        ("because: the same", "why: the same", "why: unknown key"),
    ],
)
def test_mistakes_are_reported_at_their_place(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = with_known()
    assert old in text
    assert message in mistakes(text.replace(old, new), tmp_path)


def test_a_list_without_entries_is_refused(tmp_path: Path) -> None:
    assert "known: expected 1 to" in mistakes(with_known(EXPECT + "    known: []\n"), tmp_path)


NAMES = Names(("shared", "one-queue", "64"), {"solo": ("victim",), "lopsided": ("hog", "victim")})


def test_operands_are_figures_bounds_numbers_and_what_an_arm_tries() -> None:
    ratio = parse_ratio("one-queue.solo.victim.lat.p99.9/bound.64.lopsided.hog.bw", NAMES)
    assert ratio.left == Operand("figure", ("one-queue", "solo", "victim", "lat.p99.9"))
    assert ratio.right == Operand("bound", ("64", "lopsided", "hog", "bw"))
    assert parse_ratio(" 1.5 / shared.solo.victim.iops ", NAMES).left == Operand("number", (), 1.5)
    assert parse_ratio("shared.solo.victim.iops", NAMES).right is None
    right = parse_ratio("shared.solo.victim.iops / baseline.shared.solo.victim.iops", NAMES).right
    assert right == Operand("baseline", ("shared", "solo", "victim", "iops"))
    known = replace(NAMES, tried={"shared": ("stack.md0.queue.max_sectors_kb",)})
    ratio = parse_ratio("shared.tried.accepted.stack.md0.queue.max_sectors_kb", known)
    assert ratio.left.path == ("shared", "tried", "accepted", "stack.md0.queue.max_sectors_kb")
    for text, says in (
        ("shared.tried.refused.stack.md0.queue.max_sectors_kb", "no result of a try refused"),
        ("shared.tried.effective.stack.md0.queue.nr_requests", "no setting under try: stack.md0.queue.nr_requests"),
        ("bound.shared.tried.accepted.stack.md0.queue.max_sectors_kb", "no load tried"),
    ):
        with pytest.raises(ExpressionError, match=says):
            parse_ratio(text, known)


@pytest.mark.parametrize("metric", OF_ROLES)
def test_every_metric_can_be_named(metric: str) -> None:
    several = replace(NAMES, sampled={"shared": {GUEST: COUNTED}})
    assert parse_ratio(f"shared.solo.victim.{metric} / 2", several).left.path[3] == metric


def test_what_cpus_share_is_known_on_several_alone() -> None:
    several = replace(NAMES, sampled={"64": {GUEST: (IDLE, *COUNTED)}, "shared": {GUEST: (IDLE,)}})
    ratio = parse_ratio("64.solo.guest.lines.seen / 64.solo.victim.locks.held", several)
    assert (ratio.left.path[3], ratio.right and ratio.right.path[3]) == ("lines.seen", "locks.held")
    named = replace(NAMES, sampled={**several.sampled, "64": {GUEST: held_by(GUEST)}})
    assert parse_ratio("64.solo.guest.line.sd_done.locks.held", named).left.path[3] == "line.sd_done.locks.held"
    for text in ("64.solo.guest.line.sd_done.taken", "64.solo.victim.line.sd_done.seen"):
        with pytest.raises(ExpressionError, match=r"no .* line\.\w+\."):
            parse_ratio(text, named)
    for text, says in (
        ("64.solo.guest.line.sd_done.seen", "arm 64 has no line.sd_done.seen: its machine has one CPU"),
        ("shared.solo.guest.lines.seen", "arm shared has no lines.seen: its machine has one CPU"),
        ("shared.solo.guest.lines.remote", "arm shared has no lines.remote: its machine has one NUMA node"),
        ("shared.solo.victim.atomics", "arm shared has no atomics: its machine counts no instructions"),
        ("1 / bound.64.solo.victim.atomics", "no metric with a bound: atomics"),
        ("1 / bound.64.solo.guest.lines.seen", "bound.* is what the topology allows to roles"),
    ):
        with pytest.raises(ExpressionError, match=says):
            parse_ratio(text, several)


@pytest.mark.parametrize(
    ("text", "offset", "message"),
    [
        ("sharde.solo.victim.iops", 0, "no arm sharde, did you mean shared?"),
        ("shared.sole.victim.iops", 7, "no load sole, did you mean solo?"),
        ("shared.solo.hog.iops", 12, "no role of load solo: hog"),
        ("shared.solo.victim.iosp", 19, "no metric iosp, did you mean iops?"),
        ("1 / baseline.shared.sole.victim.iops", 20, "no load sole"),
        ("shared.solo.victim.lat.max / bound.shared.solo.victim.lat.max", 54, "no metric with a bound: lat.max"),
        ("shared.solo.victim", 0, "expected arm.load.role.metric"),
        ("shared..victim.iops", 0, "expected arm.load.role.metric"),
        ("", 0, "an operand is missing"),
        ("/ 1", 0, "an operand is missing"),
        ("shared.solo.victim.iops /", 25, "an operand is missing"),
        ("shared.solo.victim.iops 2", 24, 'expected /, got "2"'),
        ("shared.solo.victim.iops / 2 / 3", 28, 'expected the end, got "/"'),
        ("shared.solo.victim.iops * 2", 24, 'unexpected "*"'),
        ("__import__('os')", 10, 'unexpected "("'),
        ("shared.solo.victim.iops / 0", 26, "division by zero"),
        ("shared.solo.victim.iops / 0.0", 26, "division by zero"),
        ("1 / 2", 4, "neither operand is measured"),
        ("3", 0, "a number alone measures nothing"),
        ("bound.shared.solo.victim.iops / 2", 32, "neither operand is measured"),
        ("shared.solo.victim.iops / shared.solo.victim.iops", 26, "always 1"),
    ],
)
def test_mistakes_in_a_ratio_are_reported_at_their_character(text: str, offset: int, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse_ratio(text, NAMES)
    assert message in caught.value.message
    assert caught.value.offset == offset


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        (">= 0.9", (0.9, 1, 5), (0.89, 0)),
        ("> 0.9", (0.91,), (0.9, 0.1)),
        ("<= 0.15", (0.15, 0), (0.16,)),
        ("< 0.15", (0.14,), (0.15, 1)),
        ("0.98 .. 1.02", (0.98, 1, 1.02), (0.97, 1.03)),
        ("1..2", (1, 2), (0.5, 3)),
    ],
)
def test_bounds(text: str, inside: tuple[float, ...], outside: tuple[float, ...]) -> None:
    bound = parse_bound(text)
    assert all(bound.holds(value) for value in inside)
    assert not any(bound.holds(value) for value in outside)
    assert bound.text == text


@pytest.mark.parametrize(
    "text", ["", "0.9", ">= ", "=> 1", ">= -1", "1 .. ", "2 .. 1", ">= 0", "< 0", ">= 1 2", "1e5", "9" * 400]
)
def test_text_that_is_no_bound_is_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        parse_bound(text)


@given(st.text(max_size=80))
def test_no_text_breaks_the_parsers(text: str) -> None:
    for parser in (parse_bound, lambda each: parse_ratio(each, NAMES)):
        try:
            parser(text)
        except ExpressionError as error:
            assert 0 <= error.offset <= len(text)


@given(st.floats(0, 10**6), st.floats(0, 10**6))
def test_an_interval_holds_between_its_ends(low: float, high: float) -> None:
    bound = Bound("", min(low, high), max(low, high))
    assert bound.holds(low)
    assert bound.holds(high)
    assert not bound.holds(max(low, high) + 1)


def test_cells_come_seed_by_seed_and_can_be_chosen(tmp_path: Path) -> None:
    scenario = load(GOOD, tmp_path)
    cells = [(arm.name, seed) for arm, seed in expand(scenario)]
    assert cells == [("shared", 1), ("limited", 1), ("shared", 2), ("limited", 2)]
    cells = [(arm.name, seed) for arm, seed in expand(scenario, seeds=3, arms=["limited"])]
    assert cells == [("limited", 1), ("limited", 2), ("limited", 3)]
    with pytest.raises(Misuse, match="no arm limitde, did you mean limited"):
        expand(scenario, arms=["limitde"])
    with pytest.raises(Misuse, match="at least 1, got 0"):
        expand(scenario, seeds=0)
