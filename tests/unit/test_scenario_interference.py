# SPDX-License-Identifier: GPL-2.0-only
"""The default loads of a scenario about neighbours."""

from pathlib import Path

import pytest

from harness.scenario.load import load_scenario
from lab.base.errors import InputErrors

TEXT = """\
scenario: t
title: a test
schema: 1
topology: 3ware-8506
queue: {scheduler: none}
window: {ramp: 1s, runtime: 2s}
arms: {plain: {}}
interference:
  hog: {disk: p0, rw: randread, bs: 4k, iodepth: 32}
  victim: {disk: p1, rw: randread, bs: 4k, iodepth: 2}
claims:
  - {that: it holds, ratio: plain.lopsided.victim.iops / plain.solo.victim.iops, expect: ">= 0.9"}
controls:
  - {that: it can fail, ratio: plain.balanced.victim.iops / plain.lopsided.hog.iops, expect: "<= 0.9"}
"""


def load(folder: Path, text: str) -> "dict[str, dict[str, int]]":
    path = folder / "t.yaml"
    path.write_text(text)
    loads = load_scenario(str(path), search=folder).loads
    return {name: {role.name: role.iodepth for role in one.roles.values()} for name, one in loads.items()}


def test_solo_lopsided_and_balanced_with_a_bystander_in_each(tmp_path: Path) -> None:
    assert load(tmp_path, TEXT) == {
        "solo": {"victim": 2},
        "lopsided": {"hog": 32, "victim": 2},
        "balanced": {"hog": 2, "victim": 2},
    }
    text = TEXT.replace("claims:", "  bystander: {disk: q1, rw: randread, bs: 4k, iodepth: 4}\nclaims:")
    assert load(tmp_path, text) == {
        "solo": {"victim": 2, "bystander": 4},
        "lopsided": {"hog": 32, "victim": 2, "bystander": 4},
        "balanced": {"hog": 2, "victim": 2, "bystander": 4},
    }


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("iodepth: 32", "iodpeth: 32"), "t.yaml:9:41: iodpeth: unknown key, did you mean iodepth?"),
        (("hog: {", "bully: {"), "interference: hog is missing"),
        (("interference:", "loads: {solo: {}}\ninterference:"), "interference: the file also has loads"),
        (("interference:\n", "from: {report: x}\nno: |\n"), "loads is missing"),
    ],
)
def test_mistakes_are_reported_at_their_place(tmp_path: Path, change: tuple[str, str], said: str) -> None:
    with pytest.raises(InputErrors) as raised:
        load(tmp_path, TEXT.replace(*change))
    assert said in str(raised.value)
    assert str(raised.value).count(said) == 1
