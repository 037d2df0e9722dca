# SPDX-License-Identifier: GPL-2.0-only
"""Which mutants are made of a source; what becomes of each, by the boots of the arms that execute it."""

import subprocess
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from harness.base.files import read_json, write_json
from harness.base.plain import identity
from harness.profile.cells import ProfiledCell
from harness.record.judging import Run, judge_run
from harness.record.store import Store, planned, save_boot
from harness.run.bench import Bench, Lanes, Turns
from harness.run.events import nobody
from harness.scenario.model import Scenario
from harness.scenario.registry import GUEST, IDLE
from lab.base.errors import CannotJudge, LabBroken
from lab.base.record import Outcome
from tests.unit.analysis_samples import claim, ratio, scenario
from tests.unit.store_samples import facts, files, record
from tools.mutation import kernel
from tools.mutation.__main__ import Fate, fate, mutants_page, score_lines
from tools.mutation.kernel import (
    NONE,
    Mutant,
    further_files,
    mutants_of,
    number_mutants,
    patch_lines,
    reached_numbers,
    schema,
)
from tools.mutation.trial import (
    MarkedFigure,
    MutantBench,
    MutantCampaign,
    ReferenceArm,
    Trial,
    cheap,
    cheapest_arms,
    companions,
    reference,
    try_mutant,
)

SOURCE = b"int f(int a)\n{\n\tif (a < 2)\n\t\tg(a);\n\treturn a + 1;\n}\n"
MUTANTS = mutants_of("block/sample.c", SOURCE)
NUMBERS = number_mutants(MUTANTS)
SOUND = 95.0
Ends = Mapping[tuple[int, str], float | Outcome]


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
    """``together`` is the IOPS of an arm with a mutant, or how its boot ends; ``executed`` what functions execute."""

    kernel: Any = None
    containing: Callable[[int, Collection[str]], Collection[str]] = lambda _, executed: executed
    executed: Mapping[int, dict[str, float]] = field(default_factory=dict)
    together: Ends = field(default_factory=dict)
    booted: list[str] = field(default_factory=list)
    unfit: tuple[str, ...] = ()

    def run(self, scenario: Scenario, arms: Sequence[str], number: int, limits: Mapping[str, float]) -> Run:
        cells = planned([(arm, 1, ()) for arm in arms])
        folder = self.bench.store.new_run(scenario, facts(scenario, cells))
        for cell in folder.missing():
            self.booted.append(cell.arm)
            value = self.together.get((number, cell.arm), SOUND)
            iops = value if isinstance(value, float) else SOUND
            kmsg = {"kmsg": b"[ 1.0] blklab_mutants: reached ff\n"}
            outcome = value if isinstance(value, Outcome) else Outcome.BYE
            made = record(folder.fresh_boot_folder(cell), files(together=iops) | kmsg, outcome)
            # As in a real boot, whose steps write the number.
            made = replace(made, fingerprint={**made.fingerprint, "work": str(number)})
            save_boot(replace(made, unfit=self.unfit) if outcome is Outcome.UNFIT else made)
        return Run(folder, judge_run(folder))

    def profiled(self, run: Run, cell: ProfiledCell, number: int) -> dict[str, float]:
        return self.executed.get(number, {})


def bench_of(folder: Path, together: Ends | None = None, **more: Any) -> MadeUpBench:
    lab: Any = None
    bench = Bench(lab, Store(folder), lambda: nullcontext(nobody), Turns(Lanes(1, 1 << 30)))
    return MadeUpBench(bench, together=together or {}, **more)


def arms_of(folder: Path, *names: str, together: Ends | None = None) -> tuple[ReferenceArm, ...]:
    bench = bench_of(folder / "reference", together)
    return tuple(arm for name in names for arm in reference(bench, sample(name)))


@pytest.mark.parametrize(
    ("together", "expected", "marked", "claim_fails"),
    [
        ({}, "equivalent", False, False),
        ({(2, "alone"): 94.0}, "survived", False, False),
        ({(2, "alone"): 9.0}, "detected", True, True),
        ({(2, "alone"): 950.0}, "detected", True, False),
        ({(2, "alone"): Outcome.HANG}, "died", False, False),
        ({(2, "alone"): Outcome.UNFIT}, "died", False, False),
    ],
)
def test_the_fate_of_a_mutant(
    tmp_path: Path, together: Ends, expected: Fate, *, marked: bool, claim_fails: bool
) -> None:
    bench = bench_of(tmp_path / "work", together)
    arms = [arm for arm in arms_of(tmp_path, "one") if arm.cell.arm == "alone"]
    trial = try_mutant(bench, 2, Trial("here"), arms, 1)
    assert (fate(trial), bench.booted) == (expected, ["alone"])
    assert (bool(trial.marked), bool(trial.claim), bool(trial.differs)) == (marked, claim_fails, bool(together))


def test_a_marked_figure_is_named_with_both_values(tmp_path: Path) -> None:
    arms = [arm for arm in arms_of(tmp_path, "one") if arm.cell.arm == "alone"]
    trial = try_mutant(bench_of(tmp_path / "work", {(2, "alone"): 950.0}), 2, Trial("here"), arms, 1)
    (iops,) = [figure for figure in trial.marked if figure.name == "one.alone.together.fast.iops"]
    assert iops.after == pytest.approx(10 * iops.before)


@pytest.mark.parametrize(
    ("after", "idle", "expected"),
    [
        ({"f": 101.0, "g": 50.0}, 0.0, ["f 100 101"]),
        ({"f": 100.1, "g": 90.0}, 0.0, []),
        ({"g": 50.0}, 0.0, ["f 100 0"]),
        ({"f": 101.0}, 0.5, []),
    ],
)
def test_a_function_that_contains_the_mutant_is_marked_in_a_busy_load(
    tmp_path: Path, after: dict[str, float], idle: float, expected: list[str]
) -> None:
    (arm,) = (arm for arm in arms_of(tmp_path, "one") if arm.cell.arm == "alone")
    arm = replace(arm, cell=replace(arm.cell, figures={**arm.cell.figures, ("together", GUEST, IDLE): idle}))
    executed = {NONE: {"f": 100.0, "g": 50.0}, 2: after}
    bench = bench_of(tmp_path / "work", executed=executed, containing=lambda _, names: {"f"} & {*names})
    trial = try_mutant(bench, 2, Trial("here"), [arm], 1)
    assert [f"{each.name.rpartition('.')[2]} {each.before:g} {each.after:g}" for each in trial.tracked] == expected
    assert fate(trial) == ("detected" if expected else "equivalent")


def test_what_nothing_detects_is_tracked_in_the_cheapest_busy_arm(tmp_path: Path) -> None:
    arms = [replace(arm, seconds={"alone": 1, "none": 2, "red": 3}[arm.cell.arm]) for arm in arms_of(tmp_path, "one")]
    busy = [
        replace(arm, cell=replace(arm.cell, figures={**arm.cell.figures, ("together", GUEST, IDLE): 0.0}))
        if arm.cell.arm == "red"
        else arm
        for arm in arms
    ]
    executed = {NONE: {"f": 100.0}, 2: {"f": 120.0}}
    for chosen, booted, expected in ((busy, ["alone", "red"], "detected"), (arms, ["alone"], "equivalent")):
        bench = bench_of(tmp_path / expected, executed=executed, containing=lambda _, names: {*names})
        campaign = MutantCampaign(tmp_path / expected, NUMBERS, tuple(chosen), 1)
        (campaign.root / "trials").mkdir(parents=True)
        assert (fate(campaign.measure(bench, 2)), bench.booted) == (expected, booted)
        assert not campaign.lacks(2)


def test_an_arm_that_differs_is_judged_with_those_that_its_claims_compare(tmp_path: Path) -> None:
    arms = [arm for arm in arms_of(tmp_path, "one") if arm.cell.arm != "alone"]
    bench = bench_of(tmp_path / "work", {(2, "none"): 50.0})
    trial = try_mutant(bench, 2, Trial("here"), arms, 1)
    assert set(trial.arms) == {"one.none", "one.red"}
    assert trial.claim == "one: the share is kept"


def test_the_cheapest_arm_of_each_scenario_is_first_and_its_companions_count(tmp_path: Path) -> None:
    seconds = {"alone": 1, "none": 2, "red": 3}
    arms = [replace(arm, seconds=seconds[arm.cell.arm]) for arm in arms_of(tmp_path, "one", "two")]
    every = {arm.name: arm for arm in arms}
    assert companions(every["one.none"], arms[:3]) == {"none", "red"}
    assert companions(every["one.alone"], arms[:3]) == {"alone"}
    order = [arm.name for arm in cheapest_arms(2, arms)]
    assert order[:4] == ["one.alone", "two.alone", "one.none", "two.none"]
    assert cheapest_arms(99, arms) == []


def test_a_reference_whose_boot_does_not_end_well_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CannotJudge, match="one does not pass without a mutant: hang"):
        arms_of(tmp_path, "one", together={(1, "alone"): Outcome.HANG})


def test_an_arm_that_the_kernel_refuses_is_left_out(tmp_path: Path) -> None:
    model = sample("one")
    queued = replace(model.arms["red"], queue={"scheduler": "mq-deadline"})
    model = replace(model, arms={**model.arms, "red": queued})
    model = replace(model, digest=identity(model))
    unfit = ("absent", "queue.iosched/async_depth[l0]", "/lab/l0.sys/queue/iosched/async_depth")
    bench = bench_of(tmp_path, {(1, "red"): Outcome.UNFIT}, unfit=unfit)
    assert [arm.cell.arm for arm in reference(bench, model)] == ["none", "alone"]


def test_a_claim_that_fails_without_a_mutant_detects_none(tmp_path: Path) -> None:
    arms = arms_of(tmp_path, "one", together={(1, "alone"): 9.0})
    assert {arm.failing for arm in arms} == {("alone",)}
    trial = try_mutant(bench_of(tmp_path / "work", {(2, "alone"): 8.0}), 2, Trial("here"), arms, 3)
    assert not trial.claim


def campaign_of(root: Path, *names: str, most: int = 1) -> MutantCampaign:
    arms = [replace(arm, seconds=arm.cell.arm != "alone") for arm in arms_of(root, *(names or ("one",)))]
    return MutantCampaign(root, NUMBERS, tuple(arms), most)


def booted_for(campaign: MutantCampaign, together: Ends, *numbers: int) -> list[str]:
    """The arms that are booted for mutant 2, or for these."""
    bench = bench_of(campaign.root / "work", together)
    campaign.measure_all(bench, numbers or (2,), lambda _: None)
    return bench.booted


def test_a_campaign_resumes_and_tries_more_arms_of_what_further_ones_can_detect(tmp_path: Path) -> None:
    campaign = campaign_of(tmp_path)
    wanted = campaign.sample(len(NUMBERS))
    assert set(wanted) == set(NUMBERS)
    assert campaign.sample(2) == wanted[:2]
    assert replace(campaign, seed=1).sample(len(NUMBERS)) != wanted
    together = {(2, "alone"): 9.0}
    assert booted_for(campaign, together, *wanted[:2]) == ["alone"] * 2
    assert booted_for(campaign, together, *wanted) == ["alone"] * (len(NUMBERS) - 2)
    assert booted_for(replace(campaign, most=2), together, *wanted) == ["none"] * (len(NUMBERS) - 1)
    first = campaign.trial(2)
    assert first is not None and (first.claim, bool(first.marked)) == ("one: alone", True)
    assert not any((tmp_path / "work").glob("*/*"))


def test_an_arm_that_was_added_since_is_tried(tmp_path: Path) -> None:
    campaign = campaign_of(tmp_path, "two", most=2)
    assert booted_for(campaign, {}) == ["alone", "none"]
    assert not campaign.lacks(2)
    assert replace(campaign, arms=(*campaign_of(tmp_path, "one").arms, *campaign.arms)).lacks(2)


def test_a_trial_against_other_results_or_claims_does_not_count(tmp_path: Path) -> None:
    campaign = campaign_of(tmp_path)
    assert booted_for(campaign, {}) == ["alone"]
    assert booted_for(campaign, {}) == []
    claims = [replace(arm, scenario=replace(arm.scenario, digest="other claims")) for arm in campaign.arms]
    results = [replace(arm, cell=replace(arm.cell, digest="other results")) for arm in campaign.arms]
    assert all(replace(campaign, arms=tuple(arms)).trial(2) is None for arms in (claims, results))


def test_a_trial_of_another_version_is_tried_again(tmp_path: Path) -> None:
    campaign = campaign_of(tmp_path)
    assert booted_for(campaign, {}) == ["alone"]
    (stored,) = (tmp_path / "trials").iterdir()
    write_json(stored, {**read_json(stored), "score": 1})
    assert booted_for(campaign, {}) == ["alone"]


def test_a_trial_that_breaks_ends_the_campaign(tmp_path: Path) -> None:
    class Broken(MadeUpBench):
        def run(self, *_: Any) -> Run:
            raise LabBroken("no room")

    bench = Broken(bench_of(tmp_path).bench)
    with pytest.raises(LabBroken, match="no room"):
        campaign_of(tmp_path).measure_all(bench, (2, 3), lambda _: None)


def test_an_expensive_scenario_is_not_used() -> None:
    (name, load), *_ = sample("one").loads.items()
    short = replace(sample("one"), pause=0, loads={name: replace(load, runtime=90 * 10**9, ramp=0)})
    assert cheap(short)
    assert not cheap(replace(short, pause=4 * 10**9))
    arms = {key: replace(arm, topology=replace(arm.topology, memory=2 << 30)) for key, arm in short.arms.items()}
    assert not cheap(replace(short, arms=arms))


def test_the_page_has_both_scores_without_what_died_or_is_equivalent() -> None:
    marked = (MarkedFigure("one.alone.solo.fast.iops", 100.0, 50.0),)
    base = Trial("p", {"one.alone": "d"}, ("one.alone",), seconds=60)
    trials = (
        replace(base, marked=marked, claim="one: alone"),
        replace(base, marked=marked),
        base,
        replace(base, died="one: hang", marked=marked),
        replace(base, differs=()),
    )
    tried = list(zip(MUTANTS, trials, strict=False))
    page = mutants_page(tried, score_lines(6, 6, trials), seed=7, most=3)
    assert "5 of these tried: 1 died, 1 equivalent, 3 others" in page
    assert "compare marks 2 of 3 (67 %), claims detect 1 of 3 (33 %)" in page
    assert "track marks 2 of 3 (67 %)" in page
    assert "5 boots, 5 minutes" in page
    assert "| detected | one: alone; one.alone.solo.fast.iops 100 -> 50 | one.alone |" in page
    assert "| died | one: hang; " in page


SAMPLE = b"""\
static int notes;

static void note(int much)
{
	notes += much;
}

static int pick(int a, int b)
{
	static const int few = 3;
	int sum = 0;

	if (a > 2 && !(b & 1))
		sum += a * 3;
	else if (a == 1)
		return b <= 4 ? -1 : b << 2;
	note(sum);
	switch (b) {
	case 2:
		sum--;
		break;
	default:
		if ((a != b))
			note(a);
	}
	sum += a ?: 5;
	spin_unlock(&sum);
	return sum + (int)sizeof(sum * 2) - few;
}
"""
MAIN = """
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
	SELECT;
	for (int a = 0; a < 6; a++)
		for (int b = 0; b < 6; b++)
			printf("%d ", pick(a, b));
	printf("%d\\n", notes);
	return 0;
}
"""
KERNEL = """
#define spin_unlock(lock) ((void)(lock))
typedef unsigned char u8;
#define OPTIMIZER_HIDE_VAR(var) __asm__ ("" : "=r" (var) : "0" (var))
"""


def mutants() -> tuple[Mutant, ...]:
    return mutants_of("block/sample.c", SAMPLE)


def shown(mutant: Mutant) -> str:
    return f"{mutant.function}:{mutant.line} {mutant.before} -> {mutant.after}"


def test_each_operator_finds_its_places_and_what_measures_nothing_has_no_mutant() -> None:
    assert Counter(mutant.operator for mutant in mutants()) == {
        "condition": 4,
        "relation": 2,
        "arithmetic": 9,
        "constant": 9,
        "statement": 6,
    }
    texts = [shown(mutant) for mutant in mutants()]
    assert "pick:13 a > 2 -> a >= 2" in texts
    assert "pick:13 a > 2 && !(b & 1) -> !(a > 2 && !(b & 1))" in texts
    assert "pick:16 b << 2 -> b >> 2" in texts
    assert "pick:20 sum-- -> sum++" in texts
    assert "note:5 notes += much; -> ;" in texts
    assert {mutant.line for mutant in mutants()}.isdisjoint({10, 19, 27})


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        ("\tint at[4];\n\tuse(at);", {4}),
        ("\treturn min(x, 4);", set()),
        ("\treturn x + /* why */ 4;", {3}),
        ("#if PAGE_SIZE > 4096\n\tuse(x);\n#endif", {4}),
        ("\treturn (sector_t)-x;", set()),
    ],
)
def test_a_place_that_must_stay_has_no_mutant(body: str, lines: set[int]) -> None:
    assert {mutant.line for mutant in mutants_of("a.c", f"int f(int x)\n{{\n{body}\n}}\n".encode())} == lines


def test_the_one_build_behaves_as_a_build_of_each_mutant(tmp_path: Path) -> None:
    numbers = number_mutants(mutants())
    header = further_files("", 100)["include/linux/blklab_mutants.h"]
    (tmp_path / "linux").mkdir()
    (tmp_path / "linux/blklab_mutants.h").write_text(header)
    for name in ("compiler", "types"):
        (tmp_path / f"linux/{name}.h").write_text("")
    counters = "int blklab_mutant; u8 blklab_reached[100];\n"
    every = compiled(tmp_path, "every", schema(SAMPLE, numbers), counters, "blklab_mutant = atoi(argv[1])")
    plain = said(compiled(tmp_path, "plain", SAMPLE, "", "(void)argc"))
    assert said(every, NONE) == plain
    for number, mutant in numbers.items():
        changed = SAMPLE[: mutant.start] + mutant.after.encode() + SAMPLE[mutant.end :]
        alone = said(compiled(tmp_path, "alone", changed, "", "(void)argc"))
        assert alone != plain, shown(mutant)
        assert said(every, number) == alone, shown(mutant)


def compiled(folder: Path, name: str, source: bytes, more: str, select: str) -> Path:
    text = KERNEL + (f"#include <linux/blklab_mutants.h>\n{more}" if more else "") + source.decode()
    (folder / f"{name}.c").write_text(text + MAIN.replace("SELECT", select))
    words = ["gcc", "-O2", "-w", f"-I{folder}", "-o", str(folder / name), str(folder / f"{name}.c")]
    subprocess.run(words, check=True)
    return folder / name


def said(program: Path, *numbers: int) -> str:
    return subprocess.run([program, *map(str, numbers)], check=True, capture_output=True, text=True).stdout


def test_the_one_build_keeps_the_order_of_lines_and_has_room_for_every_number() -> None:
    assert len(schema(SAMPLE, number_mutants(mutants())).splitlines()) == len(SAMPLE.splitlines()) + 1
    code = further_files("obj-y += a.o\n", 300)["block/blklab_mutants.c"]
    assert "u8 blklab_reached[512];" in code
    assert f'"{kernel.REACHED}%*phN' in code


def test_numbers_of_executed_places_are_read_from_the_kernels_log() -> None:
    log = "[    1.5] blklab_mutants: reached 0580\n[    1.6] quiet\n[    1.7] blklab_mutants: reached 01\n"
    assert reached_numbers(log) == {0, 2, 15, 16}


def test_a_patch_makes_files_and_changes_others(tmp_path: Path) -> None:
    new = {"a.c": "one\nthree\n", "new.h": "x\n"}
    (tmp_path / "a.c").write_text("one\ntwo\n")
    patch = "".join(patch_lines({"a.c": "one\ntwo\n"}, new))
    subprocess.run(["git", "apply", "-"], input=patch, text=True, check=True, cwd=tmp_path)
    assert {name: (tmp_path / name).read_text() for name in new} == new
