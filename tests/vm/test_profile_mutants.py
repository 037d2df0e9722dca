# SPDX-License-Identifier: GPL-2.0-only
"""Kernels built from source in which one function executes more: the profile names it, the number and the line."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from harness.profile.formats import Side, executed_code, line_changes
from harness.profile.model import Context, Differential, Profile, differential
from harness.profile.report import differential_lines
from harness.scenario.load import read_scenario
from lab.base.cache import Cache
from lab.base.units import silent
from lab.kernels import tree
from lab.kernels.model import Kernel
from lab.kernels.objects import Wanted, source_lines
from lab.kernels.tree import KernelSource
from lab.session import open_lab
from tests.vm.kernel_patches import with_plug, without_nowait, without_plug, write_mutant
from tests.vm.marks import building
from tests.vm.null_reads import profiled, write_reads

pytestmark = building()
STRIPE = "  dm-stripe: {topology: io-cost-dm-stripe}\n"
IO_URING = "  io-uring:\n    io: {disk: dev, rw: randread, bs: 4k, iodepth: 32, ioengine: io_uring}\n"
MUTANTS = {
    "blk_mq_submit_bio": ("block/blk-mq.c", 131),
    "dd_dispatch_request": ("block/mq-deadline.c", 53),
    "dd_insert_requests": ("block/mq-deadline.c", 97),
    "dd_finish_request": ("block/mq-deadline.c", 61),
    "null_queue_rq": ("drivers/block/null_blk/main.c", 73),
    "blk_mq_free_request": ("block/blk-mq.c", 47),
    "submit_bio_noacct": ("block/blk-core.c", 113),
    "blkdev_read_iter": ("block/fops.c", 89),
    "blk_mq_start_request": ("block/blk-mq.c", 67),
    "bio_endio": ("block/bio.c", 151),
}
"""Functions that a read behind mq-deadline calls, by file, and instructions that are added to each.

The compiler must leave the rest of the function alone. In blk_mq_get_tag gcc 12 makes a branch of a cmov, so a read
executes 68 instructions more where 67 are added.
"""

LINED = "dd_insert_requests"


@dataclass(frozen=True)
class Bench:
    """``kernel`` is of the source as it is. ``profiles`` boots an arm and returns a profile for each load."""

    source: KernelSource
    kernel: Kernel
    folder: Path
    profiles: Callable[[Kernel, str], Mapping[str, Profile]]

    def profile(self, kernel: Kernel) -> Profile:
        return self.profiles(kernel, "mq-deadline")["libaio"]

    def mutant(self, function: str) -> tuple[KernelSource, Kernel]:
        return self.built(write_mutant(self.folder, self.source, MUTANTS[function][0], function, MUTANTS[function][1]))

    def built(self, name: str) -> tuple[KernelSource, Kernel]:
        source = replace(self.source, mutant=name, mutants=self.folder)
        return source, tree.built(source, Cache.default())


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return _bench("6.12", tmp_path_factory.mktemp("mutants"))


def _bench(series: str, folder: Path) -> Bench:
    cache = Cache.default()
    scenario = read_scenario(str(write_reads(folder, arms=STRIPE, loads=IO_URING)), search=folder)
    # A snapshot serves later boots of the same kernel: there are none.
    lab = replace(open_lab(cache), cold=True)
    known: dict[tuple[str, str], Mapping[str, Profile]] = {}

    def profiles(kernel: Kernel, name: str) -> Mapping[str, Profile]:
        if (kernel.digest, name) not in known:
            known[kernel.digest, name] = profiled(lab, kernel, scenario, name, folder / f"{kernel.digest}-{name}")
        return known[kernel.digest, name]

    source = tree.source_of(series, cache, tell=silent)
    kernel = tree.built(source, cache)
    return Bench(source, kernel, folder, profiles)


def per_call(found: Differential, function: str) -> tuple[float, float]:
    """Calls per I/O and instructions added to each, where the function is listed first."""
    first = found.changes[0]
    assert first.function.name == function
    added = first.after.instructions / first.after.calls - first.before.instructions / first.before.calls
    return float(first.after.calls), float(added)


@pytest.mark.parametrize("function", MUTANTS)
def test_added_instructions_are_listed_first_and_exactly(bench: Bench, function: str) -> None:
    _, kernel = bench.mutant(function)
    found = differential(bench.profile(bench.kernel), bench.profile(kernel))
    assert found.rest == 0
    assert (found.before.unexplained, found.after.unexplained) == (0, 0)
    calls, added = per_call(found, function)
    print(f"{function}: {MUTANTS[function][1]} added, {added:.3f} found, {calls:.3f} calls per I/O")
    assert calls == pytest.approx(1, abs=0.1)
    assert added == pytest.approx(MUTANTS[function][1], abs=0.5)


def test_without_a_plug_each_read_behind_an_elevator_wakes_a_kernel_thread(bench: Bench) -> None:
    """What 6.1 does and 6.12 does not, with one configuration."""
    (bench.folder / "no-plug.patch").write_text(without_plug(bench.source))
    _, kernel = bench.built("no-plug")
    _expect_a_kernel_thread(bench.profile(bench.kernel), bench.profile(kernel))


def test_with_a_plug_7_2_wakes_no_kernel_thread(tmp_path: Path) -> None:
    """What 7.2 has removed (9cbbac29d752), with one configuration."""
    bench = _bench("7.2", tmp_path)
    (bench.folder / "plug.patch").write_text(with_plug(bench.source))
    _, kernel = bench.built("plug")
    _expect_a_kernel_thread(bench.profile(kernel), bench.profile(bench.kernel))


def _calls_of_processes(found: Differential) -> Mapping[str, tuple[float, float]]:
    """Calls per I/O before and after, by function; an interrupt calls __schedule too."""
    return {
        one.function.name: (float(one.before.calls), float(one.after.calls))
        for one in found.changes
        if one.function.context is Context.KERNEL
    }


def _expect_a_kernel_thread(direct: Profile, woken: Profile) -> None:
    found = differential(direct, woken)
    print("\n".join(differential_lines(found)))
    calls = _calls_of_processes(found)
    assert calls["process_one_work"] == pytest.approx((0, 1), abs=0.1)
    assert calls["__schedule"] == pytest.approx((0, 2), abs=0.2)
    before, after = found.totals
    assert after / before > 1.25


def test_without_nowait_each_read_is_submitted_by_a_kernel_thread(bench: Bench) -> None:
    """What 5.10 does and 6.1 does not, with one configuration."""
    (bench.folder / "no-nowait.patch").write_text(without_nowait(bench.source))
    _, kernel = bench.built("no-nowait")
    found = differential(*(bench.profiles(one, "dm-stripe")["io-uring"] for one in (bench.kernel, kernel)))
    print("\n".join(differential_lines(found)))
    calls = _calls_of_processes(found)
    assert calls["io_wq_submit_work"] == pytest.approx((0, 1), abs=0.1)


def test_added_instructions_have_their_line(bench: Bench) -> None:
    source, kernel = bench.mutant(LINED)
    before, after = bench.profile(bench.kernel), bench.profile(kernel)
    kernels = (bench.source, bench.kernel), (source, kernel)
    sides = [_side(profile, *one) for profile, one in zip((before, after), kernels, strict=True)]
    first = line_changes(sides, "vmlinux", LINED)[0]
    path, added = MUTANTS[LINED]
    assert (first.line.file, first.line.text.split("(")[0]) == (path, "asm_inline volatile")
    calls = differential(before, after).changes[0].after.calls
    assert not first.before
    assert first.after == added * calls


def _side(profile: Profile, source: KernelSource, kernel: Kernel) -> Side:
    code = executed_code(profile, [("vmlinux", LINED)])
    wanted = [Wanted(one.owner, one.name, one.counts) for one in code]
    found = source_lines(kernel, source, wanted, Cache.default())
    return Side(profile, dict(zip(code, found, strict=True)))
