# SPDX-License-Identifier: GPL-2.0-only
"""Ranges of kernels on which a claim is known to fail, and how a scenario file says them."""

from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from harness.base.plain import from_plain, to_plain
from harness.scenario.model import KnownFailure, Scenario, is_in
from harness.scenario.reference import json_schema
from lab.base.errors import InputErrors
from lab.kernels.ranges import RangeError, parse_range
from lab.yaml.strict import Problems, parse, plain_value
from tests.unit.scenario_text import GOOD, load

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
    with pytest.raises(InputErrors) as raised:
        load(text.replace(old, new), tmp_path)
    assert message in str(raised.value)


def test_a_list_without_entries_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputErrors, match="known: expected 1 to"):
        load(with_known(EXPECT + "    known: []\n"), tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "valid"), [("", "", True), ('"5.10"', "5.10", False), (">= 5.8,", "> 5.8,", False)]
)
def test_the_json_schema_has_the_same_rule(old: str, new: str, *, valid: bool) -> None:
    value = plain_value(parse(with_known().replace(old, new).encode(), "s.yaml", Problems()))
    assert Draft202012Validator(json_schema()).is_valid(value) is valid
