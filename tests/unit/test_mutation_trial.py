# SPDX-License-Identifier: GPL-2.0-only
"""What becomes of a mutant: by the boots of the arms that execute it, and what is kept of that."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from harness.base.files import read_json, write_json
from harness.base.plain import from_plain, identity
from harness.cli import main
from harness.commands.common.options import SCENARIOS
from harness.judge.thresholds import NullEvidence
from harness.limits.load import load_scenario
from harness.record.boot_files import save_boot
from harness.record.store import RunFolder, Store, planned
from harness.run.lanes import Lanes
from harness.scenario.load import find_scenarios
from harness.scenario.model import Scenario
from harness.studies.mutation.campaign import MutantCampaign, measure_all, trials
from harness.studies.mutation.page import MutantScore, SurvivorNotes, limits_of, mutants_page, score
from harness.studies.mutation.places import Mutant, mutants_of
from harness.studies.mutation.schemata import numbered
from harness.studies.mutation.trial import (
    Fate,
    MovedFigure,
    MutantBench,
    ReferenceArm,
    Trial,
    companions,
    in_turn,
    reference,
    try_mutant,
)
from lab.base.errors import CannotJudge, LabBroken
from lab.base.record import Outcome
from tests.unit.analysis_samples import claim, ratio, scenario
from tests.unit.store_samples import facts, files, record

SOURCE = b"int f(int a)\n{\n\tif (a < 2)\n\t\tg(a);\n\treturn a + 1;\n}\n"
FOUND = mutants_of("block/sample.c", SOURCE)
NUMBERS = numbered(FOUND.mutants)
SOUND = 95.0


def sample(name: str) -> Scenario:
    """The claim of arm ``none`` compares it with arm ``red``; arm ``alone`` has a claim of its own."""
    pair = ratio("none.together.fast.iops", "red.together.fast.iops")
    own = ratio("alone.together.fast.iops", "alone.solo.fast.iops")
    model = replace(
        scenario([claim(of=pair), replace(claim(of=own), that="alone")], (), ("none", "red", "alone")), name=name
    )
    return replace(model, digest=identity(model))


@dataclass(frozen=True)
class MadeUpBench(MutantBench):
    """``together`` is the IOPS of an arm with a mutant, or how its boot ends."""

    lab: Any = None
    kernel: Any = None
    turns: Any = None
    listener: Any = None
    together: Mapping[tuple[int, str], float | Outcome] = field(default_factory=dict)
    booted: list[str] = field(default_factory=list)
    detail: str = "as it happened"

    def run(
        self, store: Store, scenario: Scenario, arms: Sequence[str], number: int, limits: Mapping[str, float]
    ) -> RunFolder:
        cells = planned([(arm, 1, ()) for arm in arms])
        run = store.new_run(scenario, facts(scenario, cells))
        for cell in run.missing():
            self.booted.append(cell.arm)
            value = self.together.get((number, cell.arm), SOUND)
            iops = value if isinstance(value, float) else SOUND
            kmsg = {"kmsg": b"[ 1.0] blklab_mutants: reached ff\n"}
            outcome = value if isinstance(value, Outcome) else Outcome.BYE
            made = record(run.fresh_boot_folder(cell), files(together=iops) | kmsg, outcome)
            save_boot(replace(made, detail=self.detail) if outcome is Outcome.UNFIT else made)
        return run


def arms_of(bench: MutantBench, folder: Path, *names: str) -> tuple[ReferenceArm, ...]:
    found = [one for name in names for one in reference(bench, Store(folder), sample(name), ("none", "red", "alone"))]
    return tuple(found)


def tried(bench: MutantBench, folder: Path, arms: Sequence[ReferenceArm], most: int = 1) -> Trial:
    return try_mutant(bench, Store(folder / "work"), 2, Trial("here", Fate.EQUIVALENT, most), arms)


@pytest.mark.parametrize(
    ("together", "fate", "differs"),
    [
        ({}, Fate.EQUIVALENT, 0),
        ({(2, "alone"): 94.0}, Fate.SURVIVED, 1),
        ({(2, "alone"): 9.0}, Fate.KILLED, 1),
        ({(2, "alone"): Outcome.HANG}, Fate.DIED, 1),
        ({(2, "alone"): Outcome.UNFIT}, Fate.DIED, 1),
    ],
)
def test_the_fate_of_a_mutant(
    tmp_path: Path, together: Mapping[tuple[int, str], float | Outcome], fate: Fate, differs: int
) -> None:
    arms = arms_of(MadeUpBench(), tmp_path / "reference", "one")
    bench = MadeUpBench(together=together)
    found = tried(bench, tmp_path, arms)
    assert (found.fate, len(found.differs), bench.booted) == (fate, differs, ["alone"])
    assert bool(found.reason) == (fate in (Fate.KILLED, Fate.DIED))


def test_an_arm_that_differs_is_judged_with_those_that_its_claims_compare(tmp_path: Path) -> None:
    arms = tuple(one for one in arms_of(MadeUpBench(), tmp_path / "reference", "one") if one.arm != "alone")
    bench = MadeUpBench(together={(2, "none"): 50.0})
    found = tried(bench, tmp_path, arms)
    assert found.fate is Fate.KILLED
    assert set(found.arms) == {"one.none", "one.red"}
    assert found.reason == "one: the share is kept"


def test_the_cheapest_arm_of_each_scenario_is_first_and_its_companions_count(tmp_path: Path) -> None:
    arms = arms_of(MadeUpBench(), tmp_path, "one", "two")
    every = {(one.scenario.name, one.arm): one for one in arms}
    assert companions(every["one", "none"], every) == {"none", "red"}
    assert companions(every["one", "alone"], every) == {"alone"}
    order = [(one.scenario.name, one.arm) for one in in_turn(2, arms)]
    assert order[:2] == [("one", "alone"), ("two", "alone")]
    assert order[2:4] == [("one", "none"), ("two", "none")]
    assert in_turn(99, arms) == []


def test_an_arm_that_no_claim_is_about_is_tried_last(tmp_path: Path) -> None:
    def with_one_claim(one: ReferenceArm) -> ReferenceArm:
        return replace(one, scenario=replace(one.scenario, claims=one.scenario.claims[:1]))

    arms = [with_one_claim(one) for one in arms_of(MadeUpBench(), tmp_path, "one")]
    assert [one.arm for one in in_turn(2, arms)] == ["none", "red", "alone"]


def test_a_mutant_is_tried_in_the_arms_that_reach_it_alone(tmp_path: Path) -> None:
    arms = [replace(one, reached=frozenset()) for one in arms_of(MadeUpBench(), tmp_path / "reference", "one")]
    assert tried(MadeUpBench(), tmp_path, arms, most=3).arms == {}


def test_a_reference_whose_boot_does_not_end_well_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CannotJudge, match="one does not pass without a mutant: hang"):
        arms_of(MadeUpBench(together={(1, "alone"): Outcome.HANG}), tmp_path, "one")


def test_an_arm_that_the_kernel_refuses_is_left_out(tmp_path: Path) -> None:
    model = sample("one")
    queued = replace(model.arms["red"], queue={"scheduler": "mq-deadline"})
    model = replace(model, arms={**model.arms, "red": queued})
    model = replace(model, digest=identity(model))
    detail = "queue.iosched/async_depth[l0]: nothing matches /lab/l0.sys/queue/iosched/async_depth"
    bench = MadeUpBench(together={(1, "red"): Outcome.UNFIT}, detail=detail)
    arms = reference(bench, Store(tmp_path), model, ("none", "red", "alone"))
    assert [one.arm for one in arms] == ["none", "alone"]


def test_a_claim_that_fails_without_a_mutant_detects_none(tmp_path: Path) -> None:
    arms = arms_of(MadeUpBench(together={(1, "alone"): 9.0}), tmp_path / "reference", "one")
    assert {one.failing for one in arms} == {("alone",)}
    found = tried(MadeUpBench(together={(2, "alone"): 8.0}), tmp_path, arms)
    assert found.fate is Fate.SURVIVED


def campaign_of(root: Path, most: int = 1) -> MutantCampaign:
    return MutantCampaign(root, NUMBERS, arms_of(MadeUpBench(), root / "reference", "one"), most)


def test_a_campaign_resumes_and_deepens_what_was_not_detected(tmp_path: Path) -> None:
    heard: list[int] = []
    bench = MadeUpBench(together={(2, "alone"): 9.0})

    def hear(number: int, _: Trial) -> None:
        heard.append(number)

    campaign = campaign_of(tmp_path)
    wanted = campaign.sample(len(NUMBERS))
    assert set(wanted) == set(NUMBERS)
    measure_all(campaign, bench, wanted[:2], hear, Lanes(1, 1 << 30))
    measure_all(campaign, bench, wanted, hear, Lanes(1, 1 << 30))
    assert heard == list(wanted)
    assert [trial.place for _, trial in trials(campaign, wanted)] == [NUMBERS[one].place for one in wanted]
    heard.clear()
    measure_all(replace(campaign, most=2), bench, wanted, hear, Lanes(1, 1 << 30))
    assert heard == [one for one in wanted if one != 2]
    assert not (tmp_path / "work").exists() or not any((tmp_path / "work").iterdir())


def test_what_was_not_tried_comes_before_further_arms(tmp_path: Path) -> None:
    heard: list[int] = []
    campaign, bench, lanes = campaign_of(tmp_path), MadeUpBench(), Lanes(1, 1 << 30)
    measure_all(campaign, bench, (2,), lambda *_: None, lanes)
    measure_all(replace(campaign, most=2), bench, (2, 3), lambda number, _: heard.append(number), lanes)
    assert heard == [3, 2]


def booted_for(campaign: MutantCampaign, together: Mapping[tuple[int, str], float | Outcome]) -> list[str]:
    """The arms that are booted for mutant 2."""
    bench = MadeUpBench(together=together)
    measure_all(campaign, bench, (2,), lambda *_: None, Lanes(1, 1 << 30))
    return bench.booted


def test_more_arms_are_tried_after_those_that_were(tmp_path: Path) -> None:
    arms = arms_of(MadeUpBench(), tmp_path / "reference", "one", "two")
    campaign = MutantCampaign(tmp_path, NUMBERS, arms, 1)
    assert booted_for(campaign, {(2, "alone"): 94.0}) == ["alone"]
    first = campaign.trial(2)
    assert first
    # None differs there now: it is the first boot, kept, that says that the mutant survived.
    assert booted_for(replace(campaign, most=2), {}) == ["alone"]
    second = campaign.trial(2)
    assert second
    assert (list(first.arms), sorted(second.arms)) == (["one.alone"], ["one.alone", "two.alone"])
    assert (second.fate, second.differs, second.seconds > first.seconds) == (Fate.SURVIVED, ("one.alone",), True)
    assert not replace(campaign, most=2).lacks(2)
    # An arm that was added since is tried, whatever number of arms was allowed then.
    assert replace(campaign, most=2, arms=(*arms_of(MadeUpBench(), tmp_path / "third", "a-new"), *arms)).lacks(2)


def test_the_arm_of_a_claim_that_was_made_for_a_mutant_is_tried_first(tmp_path: Path) -> None:
    arms = arms_of(MadeUpBench(), tmp_path / "reference", "one", "two")
    assert [one.name for one in in_turn(2, arms, "two: the share is kept")][:2] == ["two.none", "two.red"]
    campaign = MutantCampaign(tmp_path, NUMBERS, arms, 1, {NUMBERS[2].place: "two: the share is kept"})
    assert booted_for(campaign, {(2, "none"): 50.0}) == ["none", "none", "red"]
    killed = campaign.trial(2)
    assert killed
    assert (killed.fate, killed.reason) == (Fate.KILLED, "two: the share is kept")


@pytest.mark.parametrize(
    ("alone", "change", "counts"),
    [
        (SOUND, {"digest": "other results"}, False),
        (SOUND, {"scenario": replace(sample("one"), digest="other claims")}, True),
        (9.0, {"scenario": replace(sample("one"), digest="other claims")}, False),
        (94.0, {"scenario": replace(sample("one"), digest="other claims")}, False),
    ],
)
def test_a_trial_against_other_results_or_claims_does_not_count(
    tmp_path: Path, alone: float, change: dict[str, Any], counts: bool
) -> None:
    campaign = campaign_of(tmp_path)
    assert booted_for(campaign, {(2, "alone"): alone}) == ["alone"]
    assert booted_for(campaign, {}) == []
    others = replace(campaign, arms=tuple(replace(one, **change) for one in campaign.arms))
    assert (others.trial(2) is not None) == counts
    assert booted_for(others, {}) == ([] if counts else ["alone"])


def test_what_was_tried_stays_in_the_study_when_more_is_reached(tmp_path: Path) -> None:
    campaign = campaign_of(tmp_path)
    last = campaign.sample(len(NUMBERS))[-1]
    assert last not in campaign.wanted(2)
    measure_all(campaign, MadeUpBench(), (last,), lambda *_: None, Lanes(1, 1 << 30))
    assert campaign.wanted(2) == (last, campaign.sample(1)[0])
    measure_all(campaign, MadeUpBench(), campaign.sample(2), lambda *_: None, Lanes(1, 1 << 30))
    assert set(campaign.wanted(2)) == {last, *campaign.sample(2)}


def test_the_parts_of_all_shards_are_the_whole_and_each_is_the_same_in_a_larger_one(tmp_path: Path) -> None:
    campaign = campaign_of(tmp_path)
    few, many = campaign.sample(4), campaign.sample(len(NUMBERS))
    parts = [campaign.part(many, number, 2) for number in (1, 2)]
    assert all(parts)
    assert sorted(one for part in parts for one in part) == sorted(many)
    assert set(campaign.part(few, 1, 2)) == set(few) & set(parts[0])
    assert campaign.part(many, 1, 1) == many


def test_a_trial_that_breaks_ends_the_campaign(tmp_path: Path) -> None:
    class Broken(MadeUpBench):
        def run(self, *_: Any) -> RunFolder:
            raise LabBroken("no room")

    with pytest.raises(LabBroken, match="no room"):
        measure_all(campaign_of(tmp_path), Broken(), (2, 3), lambda *_: None, Lanes(1, 1 << 30))


REACHED = dict.fromkeys(FOUND.mutants[:4], 2)


def test_a_trial_of_another_version_is_tried_again(tmp_path: Path) -> None:
    campaign = campaign_of(tmp_path)
    assert booted_for(campaign, {}) == ["alone"]
    (stored,) = (tmp_path / "trials").iterdir()
    write_json(stored, {**read_json(stored), "score": 1})
    assert campaign.trial(2) is None
    assert booted_for(campaign, {}) == ["alone"]


def test_an_unknown_file_is_refused_before_anything_is_built(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "mutants", "--file", "block/none.c"]) == 129
    assert "no mutants are made of block/none.c" in capsys.readouterr().err


def outcome(*fates: Fate) -> MutantScore:
    tried = [
        (
            mutant,
            Trial(mutant.place, fate, 3, {"one.alone": "d"}, ("one.alone",), "one: the claim", 6),
        )
        for mutant, fate in zip(FOUND.mutants, fates, strict=False)
    ]
    return MutantScore(FOUND, REACHED, tried, ())


def test_equivalent_mutants_do_not_count_in_the_score() -> None:
    assert score(outcome(Fate.KILLED, Fate.DIED, Fate.SURVIVED, Fate.EQUIVALENT).tried) == 2 / 3
    assert score(outcome(Fate.EQUIVALENT).tried) is None


def page_of(known: MutantScore) -> str:
    return mutants_page(known, {"block/sample.c": SOURCE}, "Source: s.", "blklab x")


def survivor(number: int, *changed: MovedFigure) -> tuple[Mutant, Trial]:
    mutant = FOUND.mutants[number]
    trial = Trial(mutant.place, Fate.SURVIVED, 1, {"one.alone": "d"}, ("one.alone",))
    return mutant, replace(trial, changed=changed)


def test_the_page_counts_fates_and_claims() -> None:
    page = page_of(outcome(Fate.KILLED, Fate.SURVIVED, Fate.SURVIVED, Fate.EQUIVALENT))
    assert "| block/sample.c | 6 | 4 | 4 | 1 | 0 | 2 | 1 | 33 % |" in page
    assert "### Not explained: 2" in page
    assert "No figure changes.\nTried in 1 arm; arms that execute it: 2.\nDiffers in one.alone." in page
    assert "| 1 | 1 | 0 | 2 | 1 |" in page
    assert "-\tif (a < 2)\n+\tif (a <= 2)" in page
    assert "| one: the claim | 1 |" in page


LIMITS = {"one.alone.iops": 0.01, "one.alone.disk.merges": 0.05, "one.alone.disk.requests": 0.0}


@pytest.mark.parametrize(
    ("figure", "within"),
    [
        (MovedFigure("one.alone.iops", 100.0, 100.9), True),
        (MovedFigure("one.alone.iops", 100.9, 100.0), True),
        (MovedFigure("one.alone.iops", 100.0, 101.1), False),
        (MovedFigure("one.alone.disk.requests", 100.0, 101.0), False),
        (MovedFigure("one.alone.cpu.idle", 0.96, 1.0), True),
        (MovedFigure("one.alone.cpu.idle", 0.9, 1.0), False),
        (MovedFigure("one.alone.disk.merges", 0.0, 1.0), False),
    ],
)
def test_a_survivor_that_moves_figures_as_far_as_a_null_pair_is_explained_by_them(
    figure: MovedFigure, *, within: bool
) -> None:
    known = MutantScore(FOUND, REACHED, [survivor(1, figure)], (), LIMITS)
    page = page_of(known)
    assert ("survivors: 1 explained by figures" in page) == within
    assert "Moves most in relation to its limit: one.alone." in page
    assert ("disk.merges, from 0 to 1 (limit" in page) == (not figure.before)
    assert ("### Not explained: 1" in page) != within


def test_a_trial_without_its_figures_is_not_explained_by_them() -> None:
    mutant, trial = survivor(1)
    assert "No figure changes." in page_of(MutantScore(FOUND, REACHED, [(mutant, trial)], ()))
    assert "### Not explained: 1" in page_of(MutantScore(FOUND, REACHED, [(mutant, replace(trial, changed=None))], ()))


def test_a_sentence_explains_a_survivor_and_a_claim_that_kills_one_is_named() -> None:
    moved = MovedFigure("one.alone.iops", 100.0, 200.0)
    killed = outcome(Fate.KILLED).tried[0]
    notes = SurvivorNotes({FOUND.mutants[1].place: "A is never 2."}, {killed[0].place: "one: the claim"})
    page = page_of(MutantScore(FOUND, REACHED, [killed, survivor(1, moved), survivor(2, moved)], (), LIMITS, notes))
    assert "survivors: 0 explained by figures, 1 by a sentence, 1 not explained; further killed" in page
    assert "by a claim made for them: 1" in page
    assert "A is never 2.\nMoves most in relation to its limit: one.alone.iops, 1e+02 % (limit 1 %)." in page
    assert 'fails "one: the claim".' in page
    other = replace(notes, claims={killed[0].place: "one: another claim"})
    assert 'fails "one' not in page_of(MutantScore(FOUND, REACHED, [killed], (), LIMITS, other))


def test_a_trial_keeps_every_figure_that_differs(tmp_path: Path) -> None:
    arms = arms_of(MadeUpBench(), tmp_path / "reference", "one")
    bench, begun = MadeUpBench(together={(2, "alone"): 94.0}), Trial("here", Fate.EQUIVALENT, 1)
    found = try_mutant(bench, Store(tmp_path / "work"), 2, begun, arms)
    assert found.changed is not None
    (iops,) = [one for one in found.changed if one.name == "one.alone.together.fast.iops"]
    assert iops.after < iops.before
    null_pair = NullEvidence(0.1, 0.2, 0.3, 4, 3, "x")
    limits = limits_of(arms, {"rate, several roles, below 1,000 IOPS": null_pair})
    assert limits[iops.name] == null_pair.single


def test_a_survivor_without_its_figures_is_tried_again(tmp_path: Path) -> None:
    campaign = campaign_of(tmp_path)
    assert booted_for(campaign, {(2, "alone"): 94.0}) == ["alone"]
    (stored,) = (tmp_path / "trials").iterdir()
    plain = read_json(stored)
    write_json(stored, {**plain, "changed": None})
    assert campaign.trial(2)
    assert booted_for(campaign, {(2, "alone"): 94.0}) == ["alone"]
    assert read_json(stored)["changed"]


def test_the_notes_are_of_mutants_that_exist_and_of_claims_that_scenarios_make() -> None:
    notes = from_plain(SurvivorNotes, read_json(SCENARIOS / "mutants" / "survivors.json"))
    assert not notes.sentences.keys() & notes.claims.keys()
    for place, sentence in notes.sentences.items():
        assert Path(place.split(":")[0]).suffix in (".c", ".h"), place
        assert sentence[0].isupper() and sentence.endswith("."), place
    scenarios = (load_scenario(name, search=SCENARIOS) for name in find_scenarios(SCENARIOS))
    made = {f"{one.name}: {claim.that}" for one in scenarios for claim in one.claims}
    assert set(notes.claims.values()) <= made
