# SPDX-License-Identifier: GPL-2.0-only
"""Which run folder a request works in, and what a boot that could not be set up says of its cell."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.commands.run import _measure
from harness.record.judging import judge_run
from harness.record.store import BOOT, SCHEMA, RunFacts, RunFolder, Store, planned, read_boot, save_boot
from harness.run.bench import Bench
from harness.run.plan import PlannedRun, Request, check_common_arm
from harness.scenario.model import Arm, Scenario, Status
from lab.base.digest import canonical, digest_bytes
from lab.base.errors import CannotJudge, Misuse
from lab.base.record import Outcome
from lab.kernels.model import Kernel, Release
from tests.unit.analysis_samples import claim, null_topology, scenario
from tests.unit.scenario_text import GOOD, load
from tests.unit.store_samples import KERNEL, facts, files, new_run, record


@pytest.fixture
def sound(tmp_path: Path) -> Scenario:
    return load(GOOD, tmp_path)


@pytest.fixture
def wanted(sound: Scenario) -> RunFacts:
    return facts(sound, planned([(arm, seed, ()) for seed in (1, 2) for arm in sound.arms]))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "results")


@contextmanager
def folder(store: Store, facts: RunFacts, sound: Scenario) -> Iterator[RunFolder]:
    plan = PlannedRun(Request(sound, cast(Any, None)), facts, {})
    with Bench(cast(Any, None), store)._folders(plan, None) as (run,):
        yield run


def test_an_unfinished_run_of_the_same_facts_is_taken_up(store: Store, sound: Scenario, wanted: RunFacts) -> None:
    with folder(store, wanted, sound) as first:
        pass
    with folder(store, replace(wanted, command=("another", "way")), sound) as second:
        assert second.path == first.path
    # Earlier versions did not record how a kernel was built.
    built = replace(wanted, schema=SCHEMA + 1, kernel=replace(wanted.kernel, build="recipe"))
    with folder(store, built, sound) as third:
        assert third.path == first.path


def test_the_newest_of_several_is(store: Store, sound: Scenario, wanted: RunFacts) -> None:
    with folder(store, wanted, sound) as first, folder(store, wanted, sound) as second:
        assert second.path != first.path, "the first is being worked on"
    with folder(store, wanted, sound) as third:
        assert third.path == max(first.path, second.path)


def test_a_new_run_that_another_process_locks_first_is_left_to_it(
    store: Store, sound: Scenario, wanted: RunFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, free = (store.new_run(sound, wanted) for _ in range(2))
    made = iter((taken, free))
    monkeypatch.setattr(store, "unfinished", lambda name: ())
    monkeypatch.setattr(store, "new_run", lambda sound, facts: next(made))
    with taken.held(), folder(store, wanted, sound) as mine:
        assert mine is free
        with pytest.raises(Misuse, match="in use by another process"), mine.held():
            pytest.fail("the lock was given twice")


@pytest.mark.parametrize(
    "change", [{"scenario_digest": "x"}, {"seeds": (1,)}, {"arms": ("shared",)}, {"qemu": "8.0"}, {"baseline": "r"}]
)
def test_other_facts_make_another_run(
    store: Store, sound: Scenario, wanted: RunFacts, change: dict[str, object]
) -> None:
    with folder(store, wanted, sound) as first:
        pass
    with folder(store, replace(wanted, **change), sound) as second:  # type: ignore[arg-type]
        assert second.path != first.path


@pytest.mark.parametrize("damage", [b"", b"{", b"{}", b"[]", b'{"schema": 99}'])
def test_a_damaged_run_is_left_alone(store: Store, sound: Scenario, wanted: RunFacts, damage: bytes) -> None:
    with folder(store, wanted, sound) as first:
        (first.path / "run.json").write_bytes(damage)
    with folder(store, wanted, sound) as second:
        assert second.path != first.path
    assert (first.path / "run.json").read_bytes() == damage


def test_a_judged_run_is_not_taken_up(store: Store, sound: Scenario, wanted: RunFacts) -> None:
    with folder(store, wanted, sound) as first:
        (first.path / "verdict.json").write_text("{}")
    with folder(store, wanted, sound) as second:
        assert second.path != first.path


def test_errors_inside_are_passed_on(store: Store, sound: Scenario, wanted: RunFacts) -> None:
    """Misuse decides only whether a folder is fit to be taken up, not what happens in it."""
    for _ in range(2):
        with pytest.raises(Misuse, match="the BASE run is gone"), folder(store, wanted, sound):
            raise Misuse("the BASE run is gone")
    assert len(store.unfinished(sound.name)) == 1


@pytest.mark.parametrize(("way", "adopting"), [("measure", True), ("run", False)])
def test_a_study_takes_equal_boots_of_other_runs_and_a_run_makes_its_own(
    store: Store, monkeypatch: pytest.MonkeyPatch, way: str, adopting: bool
) -> None:
    seen: list[bool] = []
    monkeypatch.setattr(Bench, "plan", lambda *_: None)
    monkeypatch.setattr(Bench, "earlier", lambda *_: None)

    def carry_out(*_: object, adopting: bool = False) -> list[None]:
        seen.append(adopting)
        return [None]

    monkeypatch.setattr(Bench, "_carry_out", carry_out)
    getattr(Bench(cast(Any, None), store), way)(None)
    assert seen == [adopting]


PATH = "/sys/block/nullb0/queue/iosched/prio_aging_expire"
GONE = ("absent", "queue.iosched/prio_aging_expire[l0]", PATH)
ROUTED = ("routed", "hba.interrupts[nvme0]", "25")


def model() -> Scenario:
    plain = scenario([claim()])
    return replace(plain, arms={"none": Arm("none", null_topology(), {"scheduler": "mq-deadline"}, {})})


def booted(folder: Path, unfit: tuple[str, ...]) -> RunFolder:
    run = new_run(folder, model(), seeds=1)
    (cell,) = run.facts.cells
    boot = record(run.fresh_boot_folder(cell), files(), Outcome.UNFIT)
    save_boot(replace(boot, unfit=unfit))
    return run


def test_an_attribute_that_the_elevator_lacks_is_skipped_by_its_name_and_the_kernel_s(tmp_path: Path) -> None:
    verdict = judge_run(booted(tmp_path, GONE))
    assert (verdict.status, verdict.exit_code) == (Status.SKIP, 125)
    assert verdict.cells[0].reasons == (f"mq-deadline of {KERNEL.release} has no attribute prio_aging_expire",)


def test_an_attribute_that_a_stack_lacks_is_skipped(tmp_path: Path) -> None:
    verdict = judge_run(booted(tmp_path, ("absent", "stack.queue.async_depth[s]", "/lab/s.sys/queue/async_depth")))
    assert verdict.cells[0].reasons == (f"a queue of {KERNEL.release} has no attribute async_depth",)


def test_an_interrupt_that_the_kernel_routes_itself_is_skipped(tmp_path: Path) -> None:
    verdict = judge_run(booted(tmp_path, ROUTED))
    assert (verdict.status, verdict.exit_code) == (Status.SKIP, 125)
    assert verdict.cells[0].reasons == (f"{KERNEL.release} routes interrupt 25 of nvme0 itself",)


@pytest.mark.parametrize(
    ("detail", "unfit"),
    [
        (f"step 9: {GONE[1]}: nothing matches {PATH}", GONE),
        (f"step 9: {ROUTED[1]}: the kernel routes interrupt 25 itself", ROUTED),
        ("step 1: device l0: no", ()),
    ],
)
def test_a_boot_that_was_stored_with_a_sentence_alone_has_its_code(
    tmp_path: Path, detail: str, unfit: tuple[str, ...]
) -> None:
    (cell,) = (run := booted(tmp_path, ())).facts.cells
    path = run.boot_folder(cell) / BOOT
    body = json.loads(path.read_text()) | {"detail": detail}
    del body["unfit"], body["checksum"]
    path.write_text(json.dumps({**body, "checksum": digest_bytes(canonical(body))}))
    assert read_boot(path.parent).unfit == unfit


@pytest.mark.parametrize("unfit", [("refused", GONE[1], "1", PATH), ("absent", "device l0", "/sys/x")])
def test_what_else_a_guest_could_not_set_up_is_an_error(tmp_path: Path, unfit: tuple[str, ...]) -> None:
    assert judge_run(booted(tmp_path, unfit)).status is Status.ERROR


def test_nothing_boots_where_no_arm_runs_on_both_kernels(store: Store, sound: Scenario) -> None:
    """Before, the BASE kernel was measured, to be compared with nothing."""
    lacking: dict[str, dict[str, tuple[str, ...]]] = {
        "5.10": {"shared": ("no can_queue",), "limited": ("no can_queue",)},
        "6.1": {"shared": (), "limited": ()},
    }

    def plan(request: Request) -> PlannedRun:
        reasons = lacking[request.kernel.release]
        cells = planned([(arm, 1, reasons[arm]) for arm in sound.arms])
        return PlannedRun(request, facts(sound, cells), {})

    def measure(_: object) -> None:
        pytest.fail("it would be measured")

    bench = SimpleNamespace(plan=plan, earlier=measure, run=measure)
    old, new = (
        Kernel(release, release, Release.parse(release), "", Path(), None, Path(), {}, release) for release in lacking
    )
    orders: list[tuple[Request, Kernel]] = [(Request(sound, new), old), (Request(sound, old), new)]
    for request, base in orders:
        with pytest.raises(CannotJudge, match="no arm of t runs on both kernels, so nothing was booted: no can_queue"):
            _measure(cast(Bench, bench), request, (base.release, base), cast(Any, None), None)
    lacking["5.10"] = {"shared": ("no can_queue",), "limited": ()}
    check_common_arm(plan(Request(sound, old)), plan(Request(sound, new)))
    lacking["6.1"] = {"shared": (), "limited": ("no tags",)}
    with pytest.raises(CannotJudge, match="no can_queue; no tags"):
        check_common_arm(plan(Request(sound, old)), plan(Request(sound, new)))
