# SPDX-License-Identifier: GPL-2.0-only
"""Schedules in guests: one seed repeats to the byte, warm and cold; races are found and reduced."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby, pairwise
from pathlib import Path

import pytest

from harness.cli import main
from harness.commands.options import tell
from harness.hunt.finds import find_file, read_find
from harness.hunt.reduce import Reducer
from harness.hunt.search import Limits, Search
from harness.hunt.trial import Ground, ready
from harness.limits.entries import load_scenario
from harness.scenario.model import Hunt
from lab.kernels.model import Kernel
from lab.kernels.resolve import resolve
from lab.schedule import FEW, NOBODY, STALLS, TURNS, Change, LoggedChange, Schedule, drawn, read_log
from lab.session import Lab
from tests.vm.marks import building

SCENARIO, SEED = "hunt/planted-sleep", 5


def _ground(lab: Lab, kernel: Kernel, name: str, folder: Path, *functions: str) -> Ground:
    scenario = load_scenario(name)
    (arm,) = scenario.arms.values()
    return ready(lab, kernel, (scenario, arm), functions=functions, folder=folder, tell=tell)


@pytest.fixture(scope="module")
def ground(machine: tuple[Lab, Kernel], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    yield _ground(*machine, SCENARIO, tmp_path_factory.mktemp("ready"))


@pytest.mark.network
@pytest.mark.slow
@pytest.mark.parametrize("strategy", [FEW, STALLS, TURNS])
def test_one_seed_repeats_warm_and_cold_and_another_one_differs(ground: Ground, tmp_path: Path, strategy: str) -> None:
    assert ground.clean is None
    schedules = [drawn(strategy, seed, ground.course.places) for seed in (SEED, SEED, SEED + 1)]
    trials = []
    for number, schedule in enumerate(schedules):
        folder = tmp_path / str(number)
        folder.mkdir()
        own = replace(ground, lab=replace(ground.lab, cold=number == 1))
        trials.append(own.boot(schedule, folder))
    warm, cold, other = trials
    assert warm.fault is cold.fault is None
    assert warm.digest
    assert warm.digest == cold.digest
    assert warm.course == cold.course
    assert [*read_log(warm.folder)] == [*read_log(cold.folder)]
    assert other.digest != warm.digest
    if strategy == FEW:
        assert {made.change for made in read_log(warm.folder)} <= {*schedules[0].changes}
    assert warm.course
    if strategy == STALLS:
        assert warm.course.changes > 0
        assert warm.course.pairs - ground.course.pairs
    assert {place for pair in ground.course.pairs for place in pair} <= {at for _, at in ground.course.places}


@pytest.mark.network
@pytest.mark.slow
def test_a_cpu_stands_for_its_length_though_timers_end_the_turns_of_others(
    machine: tuple[Lab, Kernel], tmp_path: Path
) -> None:
    """30 times, while timers end what two others read and how long they pause. A log of values changes nothing."""
    for name in ("ready", "boot"):
        (tmp_path / name).mkdir()
    ground = _ground(*machine, "hunt/planted-list", tmp_path / "ready", "null_queue_rq")
    (address, count), length = min((at, n) for (cpu, at), n in ground.course.places.items() if cpu == 0), 50_000
    schedule = Schedule(tuple(Change(0, address, nth, length) for nth in range(1, count, count // 30)))
    plain, logged = (ground.boot(replace(schedule, values=wanted), tmp_path / "boot") for wanted in (False, True))
    assert plain.digest == logged.digest
    every = [*read_log(tmp_path / "boot")]
    assert len(every) >= 30
    for made in every:
        assert made.values
        assert made.back
        assert 0 < made.back.executed - made.executed < 2 * length
    entered = [{ground.symbols.function_at(stay.address) for stay in made.others} for made in every]
    timers = [names for names in entered if any(symbol and "apic_timer" in symbol.name for symbol in names)]
    assert len(timers) > 15


@pytest.mark.network
@pytest.mark.slow
@pytest.mark.parametrize(("leader", "soonest"), [(NOBODY, 1), (2, 2)])
def test_the_leader_of_a_change_executes_before_the_others(
    machine: tuple[Lab, Kernel], tmp_path: Path, leader: int, soonest: int
) -> None:
    """Of 30 changes while CPUs 1 and 2 read. Without a leader they execute in QEMU's order, that of their numbers."""
    for name in ("ready", "boot"):
        (tmp_path / name).mkdir()
    ground = _ground(*machine, "hunt/planted-list", tmp_path / "ready", "null_queue_rq")
    address, count = min((at, n) for (cpu, at), n in ground.course.places.items() if cpu == 0)
    changes = [Change(0, address, nth, 5000, leader=leader) for nth in range(1, count, count // 30)]
    ground.boot(Schedule(tuple(changes)), tmp_path / "boot")
    both = [order for order in map(_order, read_log(tmp_path / "boot")) if len({*order}) > 1]
    assert len([order for order in both if order[0] == soonest]) > len(both) / 2


def _order(made: LoggedChange) -> list[int]:
    """The CPUs that execute more than 100 instructions of a change, which a block that waits has not."""
    stays = groupby(pairwise((*made.others, *([made.back] if made.back else []))), lambda pair: pair[0].cpu)
    spans = [(cpu, [end.executed - start.executed for start, end in pairs]) for cpu, pairs in stays]
    return [cpu for cpu, executed in spans if sum(executed) > 100]


@pytest.mark.network
@pytest.mark.slow
def test_single_instructions_repeat_warm_and_cold(machine: tuple[Lab, Kernel], tmp_path: Path) -> None:
    """A change behind an instruction that is no jump: the CPU continues at the next instruction."""
    (tmp_path / "ready").mkdir()
    scenario = load_scenario("hunt/planted-list")
    scenario = replace(scenario, hunt=Hunt(("blk_mq_start_request",), step="instruction"))
    (arm,) = scenario.arms.values()
    lab, kernel = machine
    ground = ready(lab, kernel, (scenario, arm), functions=(), folder=tmp_path / "ready", tell=tell)
    (cpu, address), *_ = sorted(ground.course.places)
    trials = []
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        own = replace(ground, lab=replace(ground.lab, cold=number == 1))
        trials.append(own.boot(Schedule((Change(cpu, address, 1, 1000),)), folder))
    warm, cold = trials
    assert warm.digest == cold.digest
    assert warm.course == cold.course
    assert [*read_log(warm.folder)] == [*read_log(cold.folder)]
    (made,) = read_log(warm.folder)
    assert made.back
    assert 0 < made.back.address - address <= 15


@pytest.mark.parametrize(
    ("mutant", "scenario", "functions", "changes"),
    [
        pytest.param("race-sleep", "hunt/planted-sleep", (), 1, marks=building()),
        pytest.param("race-list", "hunt/planted-list", ("null_take_cell",), 1, marks=building()),
        pytest.param("sbitmap-unlocked", "hunt/sbitmap-cleared", (), 1, marks=building()),
    ],
)
def test_a_race_is_found_and_reduced_to_its_changes(
    lab: Lab, tmp_path: Path, *, mutant: str, scenario: str, functions: tuple[str, ...], changes: int
) -> None:
    """The scenario says how many changes of CPU the race needs; a find may need more."""
    (tmp_path / "ready").mkdir()
    ground = _ground(lab, resolve(f"source:6.12+{mutant}", lab.cache), scenario, tmp_path / "ready", *functions)
    assert ground.clean is None
    (tmp_path / "seeds").mkdir()
    searched = Search([ground], FEW, tmp_path / "seeds", 2).run(Limits(seeds=200))
    find = searched.finds[0]
    assert find.trial.fault
    reducer = Reducer(ground, find.trial.fault, tmp_path / "reduce", tell)
    assert reducer.repeats(find.schedule) == 3
    reduced = reducer.reduce(find.schedule, find.trial.folder)
    assert len(reduced.changes) == changes
    assert all(made.back for made in read_log(reduced.trial.folder))


_STOCK = [pytest.mark.network, pytest.mark.slow]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("qos-sleepers", marks=building()),
        pytest.param("elevator-writers", marks=_STOCK),
        pytest.param("wbt-enabled", marks=_STOCK),
    ],
)
def test_a_kept_search_finds_its_fault_and_nothing_on_the_good_kernel(lab: Lab, tmp_path: Path, name: str) -> None:
    """The same fault three times more; reductions are tested above."""
    kept, counts = read_find(find_file(name)), []
    for spec in (kept.kernel, *kept.good):
        folder = tmp_path / spec
        (folder / "ready").mkdir(parents=True)
        ground = _ground(lab, resolve(spec, lab.cache), kept.scenario, folder / "ready")
        searched = Search([ground], kept.strategy, folder, 2).run(Limits(kept.seeds, first=kept.first))
        counts.append(len(searched.finds))
        for find in searched.finds[:1]:
            assert find.trial.fault
            reducer = Reducer(ground, find.trial.fault, tmp_path / "reduce", tell)
            assert reducer.repeats(find.schedule) == 3
    assert counts[0] and not any(counts[1:])


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("planted-list", marks=building()),
        # Both CPUs sleep until a timer of 30 us comes while the one stands: it has to stand, and time to pass.
        pytest.param("planted-sleep", marks=building()),
        pytest.param("sbitmap-cleared", marks=building()),
        pytest.param("elevator-writers", marks=_STOCK),
        pytest.param("wbt-enabled", marks=_STOCK),
    ],
)
def test_a_kept_schedule_repeats_its_fault(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not any more once the guest's own programs changed: then it is searched and kept again."""
    kept = read_find(find_file(name))
    assert main(["hunt", "--replay", name, "--kernel", kept.kernel, "--results", str(tmp_path)]) == 1
    assert f"FOUND  {kept.kind}:" in capsys.readouterr().out
