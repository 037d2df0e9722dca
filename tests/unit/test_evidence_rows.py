# SPDX-License-Identifier: GPL-2.0-only
"""Rows of evidence: what files they come from, and what is refused when these are loaded."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.base.checkout import SCENARIOS
from harness.base.plain import identity
from harness.scenario.load import read_scenario
from harness.scenario.model import Agreement, Reproduction, Scenario, Source
from harness.scenario.timing import Clock
from lab.base.errors import InputErrors, Misuse
from lab.kernels.mutants import catalogue
from lab.topology.load import load_topology
from lab.topology.model import Origin, Topology
from lab.topology.parameters import multiplied
from tests.unit.analysis_samples import SHARE, claim, scenario
from tests.unit.scenario_text import GOOD, load
from tests.unit.test_topology_language import J4400
from tools.evidence.__main__ import choose
from tools.evidence.rows import (
    FACTORS,
    EvidenceRow,
    RowSide,
    Topic,
    arms_of,
    clock_rows,
    load_out_of_scope,
    load_rows,
    load_zoo,
    multiply,
    report_rows,
    sensitivity_rows,
    shipped_scenarios,
)

VICTIM = "limited.lopsided.victim.iops / limited.solo.victim.iops"


@pytest.fixture(scope="module")
def rows() -> tuple[EvidenceRow, ...]:
    return load_rows(SCENARIOS)


def test_every_topic_has_rows_of_shipped_files(rows: tuple[EvidenceRow, ...]) -> None:
    assert {row.topic for row in rows} == {*Topic} - {Topic.NOISE}
    zoo = [row for row in rows if row.topic is Topic.ZOO]
    assert len({row.name for row in zoo}) == len(zoo) >= 10
    for row in rows:
        named = {control.mutant for control in row.scenario.controls}
        assert not row.mutant or (row.mutant in catalogue() and row.mutant in named), row.name


def test_words_choose_topics_and_rows(rows: tuple[EvidenceRow, ...]) -> None:
    assert choose(rows, ["zoo"])[1] == ["zoo"]
    regression, topics = choose(rows, ["idle-lun-tax"])
    assert ([row.name for row in regression], topics) == (["idle-lun-tax"], ["zoo"])
    scenario, topics = choose(rows, ["held-tags", "controls"])
    assert topics == ["controls"] and {row.scenario.name for row in scenario if row.topic is Topic.CONTROLS} == {
        "held-tags"
    }
    mutant, topics = choose(rows, ["no-ioprio"])
    assert topics == ["controls", "zoo"]
    assert {row.mutant for row in mutant} == {"", "no-ioprio"}
    with pytest.raises(Misuse, match="idle-lun-tax"):
        choose(rows, ["idle-lun-taxes"])


def test_a_claim_that_nothing_makes_fail_is_refused_with_its_line(tmp_path: Path) -> None:
    text = (SCENARIOS / "last-tag.yaml").read_text()
    lonely = '  - {that: lonely, ratio: one-tag.solo.first.iops, expect: ">= 1"}\n'
    (tmp_path / "last-tag.yaml").write_text(text.replace("claims:\n", f"claims:\n{lonely}"))
    (tmp_path / "t.yaml").write_text("x: y\n")
    with pytest.raises(InputErrors) as refused:
        shipped_scenarios(tmp_path)
    line = 1 + (tmp_path / "last-tag.yaml").read_text().splitlines().index(lonely.rstrip())
    (message,) = [str(it) for it in refused.value.problems if "no row makes this claim fail" in str(it)]
    assert f"last-tag.yaml:{line}:" in message
    assert any("t.yaml" in str(it) for it in refused.value.problems), "mistakes of all files at once"


def test_what_is_out_of_scope_has_a_source_and_a_reason() -> None:
    entries = load_out_of_scope(SCENARIOS)
    assert entries
    assert all(that and link.startswith("https://") and because for that, link, because in entries)


_WRONG = """rows:
  - row: a
    that: first
    link: https://example.org/a
    scenario: fair-tag
    ratio: x.y.z.iops
    expect: ">= 1"
  - row: b
    that: second
    link: https://example.org/b
    scenario: fair-tags
    ratio: shared.nowhere.victim.iops
    expect: ">= 1"
    published: 0.5
  - row: c
    that: third
    link: https://example.org/c
    scenario: fair-tags
    ratio: shared.solo.victim.iops
    expect: ">= 1"
    bad_on: [">= 5.14, < 5.8"]
    decision: it is meant to be so
"""


def test_all_mistakes_of_a_list_are_reported_at_once(tmp_path: Path) -> None:
    (tmp_path / "evidence").mkdir()
    (tmp_path / "evidence/list.yaml").write_text(_WRONG)
    (tmp_path / "fair-tags.yaml").write_text((SCENARIOS / "fair-tags.yaml").read_text())
    with pytest.raises(InputErrors) as raised:
        load_zoo(tmp_path)
    told = str(raised.value)
    assert "list.yaml:5:15: there is no scenario fair-tag, did you mean fair-tags?" in told
    assert "list.yaml:12:" in told
    assert "published: needs a figure, and a bad side or a decision" in told
    assert "list.yaml:21:13: bad_on: no kernel is in >= 5.14, < 5.8" in told
    assert "decision: with one, no kernel is bad" in told


def test_a_kernel_or_a_mutant_has_an_expected_side() -> None:
    row = EvidenceRow(
        Topic.ZOO, "x", "x", scenario(), SHARE, bad_on=("< 5.4", "6.1"), mutant="m", mutant_is=RowSide.GOOD
    )
    assert [row.side_of(release) for release in ("5.10.0", "6.1.9", "4.19")] == [RowSide.GOOD, RowSide.BAD, RowSide.BAD]
    assert row.side_of("6.12", "m") is RowSide.GOOD
    assert arms_of([row]) == ("none",)


def twins(folder: Path, **changes: object) -> Scenario:
    (folder / "t.yaml").write_text(GOOD)
    model = read_scenario("t", search=folder)
    entry = Agreement("the share", model.claims[0].ratio, "t", VICTIM)
    return replace(model, name="t-megasas", clock=Clock.WALL, agrees=(replace(entry, **changes),))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"scenario": "u"}, 'no scenario "u"'),
        ({"theirs": "limited.lopsidde.victim.iops"}, "no load lopsidde, did you mean lopsided. in t"),
        ({"theirs": "3"}, "measures nothing"),
    ],
)
def test_a_twin_that_is_none_is_named(changes: dict[str, object], wrong: str, tmp_path: Path) -> None:
    with pytest.raises(Misuse, match=wrong):
        [*clock_rows(twins(tmp_path, **changes), tmp_path)]


def test_only_the_wall_clock_names_a_twin_and_it_may_be_named_after_the_run(tmp_path: Path) -> None:
    model = twins(tmp_path)
    assert identity(model) == identity(replace(model, agrees=()))
    text = GOOD + f"agrees:\n  - {{that: x, scenario: u, ratio: {VICTIM}}}\n"
    with pytest.raises(InputErrors, match="only a scenario of the wall clock has it"):
        load(text, tmp_path)
    with pytest.raises(InputErrors, match="no arm limitde"):
        load(
            text.replace("ratio: limited.lopsided.victim.iops / l", "ratio: limitde.lopsided.victim.iops / l"), tmp_path
        )


def test_a_report_gives_a_figure_or_words(tmp_path: Path) -> None:
    line = "reproduces:\n  - {that: it starves, ratio: shared.lopsided.victim.iops / 1, "
    (row,) = report_rows(load(f"{GOOD}{line}reported: 0.62, because: so}}\n", tmp_path))
    assert (row.that, row.published, row.because, row.in_words) == ("it starves", 0.62, "so", "")
    (row,) = report_rows(load(f"{GOOD}{line}in_words: unaffected}}\n", tmp_path))
    assert (row.published, row.in_words) == (None, "unaffected")
    for words in ("because: so", "reported: 0.6, in_words: unaffected"):
        with pytest.raises(InputErrors, match="expected either reported or in_words"):
            load(f"{GOOD}{line}{words}}}\n", tmp_path)
    for number in ("0", "-1", "much", '"0.6"', "1e3", ".5", "10000000"):
        with pytest.raises(InputErrors, match="expected a number above 0 and up to"):
            load(f"{GOOD}{line}reported: {number}}}\n", tmp_path)


@pytest.fixture
def topology(tmp_path: Path) -> Topology:
    (tmp_path / "t.yaml").write_text(J4400)
    return load_topology("./t.yaml", near=tmp_path)


def test_parameters_are_multiplied_by_their_names(topology: Topology) -> None:
    assert multiplied(topology, "disk.d*.seek", 1.25).disks["d1"].seek == 100_000_000
    assert multiplied(topology, "disk.d*.seek", 1.25).disks["e1"] == topology.disks["e1"]
    faster = multiplied(topology, "disk.d0.rate", 0.5).disks["d0"]
    assert (faster.rate, faster.zones[0].rate) == (4_000_000, 2_250_000)
    assert multiplied(topology, "disk.*.rpm", 2).disks["d0"].rotation == 41_666_666
    assert multiplied(topology, "link.port*.efficiency", 0.5).links["port1"].rate == 56_400_000
    assert multiplied(topology, "link.port0.cost", 2).links["port0"].cost == 40_000
    assert multiplied(topology, "hba.*.can_queue", 2).hbas["mpt1"].can_queue == 254
    assert multiplied(topology, "hba.*.cmd_per_lun", 4).hbas["mpt1"].cmd_per_lun == 127
    assert multiplied(topology, "disk.*.service", 2) == topology


def test_a_fitted_parameter_has_a_row_for_each_factor_with_the_arms_of_the_ratio_and_no_claims() -> None:
    model = scenario([claim()])
    arm = model.arms["none"]
    origins = (Origin("disk.fast.service", "fitted", "x"), Origin("disk.slow.service", "cites", "y"))
    arms = {"none": replace(arm, topology=replace(arm.topology, origins=origins)), "other": replace(arm, name="other")}
    model = replace(model, arms=arms, source=Source("x"), reproduces=(Reproduction("it halves", SHARE, 0.5),))
    rows = [*sensitivity_rows(model)]
    assert [(row.parameter, row.factor) for row in rows] == [("disk.fast.service", factor) for factor in FACTORS]
    changed = rows[0].scenario
    assert (list(changed.arms), changed.claims, changed.digest) == (["none"], (), identity(changed))
    assert len({row.scenario.digest for row in rows}) == 3
    service = arm.topology.disks["fast"].service
    assert service is not None and changed.arms["none"].topology.disks["fast"].service == round(service * 0.8)
    with pytest.raises(Misuse, match=r"disk\.fast\.service cannot be 100000 times"):
        multiply(model, "disk.fast.service", 100_000)
