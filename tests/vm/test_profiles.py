# SPDX-License-Identifier: GPL-2.0-only
"""Profiles of real boots: the guest notices nothing, every instruction has a function, and they repeat."""

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from harness.profile.cells import FOLDER, ProfiledCell, profile_of
from harness.profile.model import Group, Profile, differential
from harness.record.store import load_run
from harness.run.plan import guest_job
from lab.base.cache import Cache
from lab.base.errors import EXIT_PASS
from lab.base.units import silent
from lab.kernels.resolve import resolve
from lab.session import open_lab, prepare_job
from lab.symbols import twin_symbols
from tests.vm.host import blklab, kernel_or_skip
from tests.vm.null_reads import profiled, write_reads
from tests.vm.slower_kernel import slower

pytestmark = [pytest.mark.network]
KERNEL = "debian:6.1"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Folder of a finished run of the reads on a kernel, made once."""
    root = tmp_path_factory.mktemp("profiles")
    scenario = write_reads(root)

    @cache
    def made(kernel: str) -> Path:
        kernel_or_skip(kernel)
        done = blklab("run", str(scenario), "--kernel", kernel, "--results", str(root))
        assert done.returncode == EXIT_PASS, done.stdout + done.stderr
        return (root / "reads" / "latest").resolve()

    return made


@pytest.fixture(scope="module")
def profile(run: Callable[[str], Path]) -> Callable[..., Profile]:
    """``profile_of`` raises LabBroken unless the profiled boot's digest is that of the stored one."""
    lab = open_lab(Cache.default())

    def made(arm: str, kernel: str = KERNEL) -> Profile:
        resolved = resolve(kernel, lab.cache)
        return profile_of(lab, load_run(run(kernel)), ProfiledCell(arm, "libaio"), resolved, phase_seen=silent)

    return made


MUTANTS = {
    "debian:6.1": {
        "submit_bio_noacct": 62,
        "bio_integrity_prep": 57,
        "process_one_work": 50,
        "__rseq_handle_notify_resume": 26,
    },
    "debian:6.12": {"submit_bio_noacct": 40},
    "debian:7.2": {"process_one_work": 106, "submit_bio_noacct": 37, "io_submit_one": 31},
}
"""Functions that execute once per I/O behind mq-deadline, and instructions that are added to each.

On 6.1.192 (6.1.176 did not) other timing moves sbitmap_get by more than 15 per I/O: __queue_work and
__handle_irq_event_percpu, which have no room for more than 15, were taken out for that after they failed.
"""
EACH = [pytest.param(spec, marks=[] if spec == "debian:6.1" else pytest.mark.slow) for spec in MUTANTS]


def test_every_instruction_has_a_function_and_a_call_path(profile: Callable[..., Profile]) -> None:
    found = profile("none")
    assert found.unexplained == 0
    assert found.surprises == 0
    assert found.head.per_io is not None
    # /proc/stat counts in ticks of 10 ms, the window has ten.
    assert float(found.per_io(found.total)) == pytest.approx(found.head.per_io, rel=0.12)
    names = {function.name: cost for function, cost in found.costs.items() if function.group is Group.KERNEL}
    assert float(found.per_io(names["blk_mq_submit_bio"].calls)) == pytest.approx(1, rel=0.05)


def test_two_profiles_of_one_cell_are_the_same_bytes(
    profile: Callable[..., Profile], run: Callable[[str], Path]
) -> None:
    profile("none")
    before = {path: path.read_bytes() for path in run(KERNEL).parent.glob(f"{FOLDER}/*/libaio.json")}
    for path in before:
        shutil.rmtree(path.parent)
    profile("none")
    again = [path for path in before if path.is_file()]
    assert len(again) == 1
    assert again[0].read_bytes() == before[again[0]]


@pytest.mark.slow
def test_an_elevator_shows_in_the_differential(profile: Callable[..., Profile]) -> None:
    found = differential(profile("none"), profile("mq-deadline"))
    new = [change.function.name for change in found.changes if change.note == "only after"]
    assert found.rest == 0
    assert "dd_insert_requests" in new


@pytest.mark.parametrize("spec", EACH)
def test_instructions_added_to_functions_are_listed_first_and_exactly(
    profile: Callable[..., Profile], run: Callable[[str], Path], spec: str, tmp_path: Path
) -> None:
    before, mutants = profile("mq-deadline", spec), MUTANTS[spec]
    lab, scenario = open_lab(Cache.default()), load_run(run(spec)).scenario
    kernel, arm = resolve(spec, lab.cache), scenario.arms["mq-deadline"]
    job = guest_job(scenario, arm, 1)
    prepared = prepare_job(lab, kernel, arm.topology, job)
    symbols = twin_symbols(lab, prepared, job).functions
    for name, added in mutants.items():
        kernel = slower(kernel, symbols, name, added, tmp_path)
    found = differential(before, profiled(lab, kernel, scenario, "mq-deadline", tmp_path / "boot")["libaio"])
    assert found.rest == 0
    listed = {
        change.function.name: change.after.instructions / change.after.calls
        - change.before.instructions / change.before.calls
        for change in found.changes[: len(mutants)]
    }
    print(spec, {name: f"{float(delta):.3f}" for name, delta in listed.items()})
    assert {name: round(delta) for name, delta in listed.items()} == mutants


@pytest.mark.parametrize("spec", EACH)
def test_memory_is_cleared_in_words(profile: Callable[..., Profile], spec: str) -> None:
    """A CPU with fsrs clears byte by byte from 6.4 on: 411 instructions a call, 90 on 6.1 (an md RAID1 read)."""
    costs = {function.name: cost for function, cost in profile("none", spec).costs.items()}
    clearing = sum(cost.instructions for name, cost in costs.items() if name in ("memset", "memset_orig", "__memset"))
    assert 0 < clearing < 150 * costs["memset"].calls
