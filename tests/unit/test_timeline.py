# SPDX-License-Identifier: GPL-2.0-only
"""Timelines over made-up kernels: what is measured, what counts as a change, and how it is told."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import pytest

from harness import fitted
from harness.bisect.releases import Releases, bisect_releases, demand_figure
from harness.bisect.releases import text as release_text
from harness.grid.lines import GridRow, KernelSide, changes, figure_lines, label, lines
from harness.grid.measure import Sweeper, judged
from harness.grid.timeline import Timeline, next_place, text, timeline
from harness.judge.cells import CellResult, Ensemble
from harness.judge.difference import LARGE, Precision, compare_figures, null_evidence
from harness.judge.verdict import judge
from harness.record.judging import Run
from harness.record.store import KernelFacts, PlannedCell, RunFolder
from harness.scenario.model import Status
from lab.base.errors import CannotJudge, Misuse
from lab.base.record import BootRecord
from tests.unit.analysis_samples import cells, claim, ratio, scenario
from tests.unit.store_samples import facts, record

SERIES = ("5.10", "6.1", "6.12", "6.16", "6.17", "6.18", "6.19", "7.0", "7.1", "7.2", "7.3")
SCENARIO = scenario([claim()])
FIGURE = "none.together.fast.iops"
SLOW = null_evidence()["rate, several roles, below 1,000 IOPS"].single


@dataclass(frozen=True)
class MadeUp(RunFolder):
    """A run whose boots took a minute together."""

    def boots(self) -> Iterator[tuple[PlannedCell, BootRecord]]:
        yield PlannedCell("none", 1, "000"), replace(record(self.path, {}), wall={"boot": 60.0})


@dataclass
class Kernels:
    """``shares`` is the victim's throughput on each kernel in percent, None for one that cannot be had."""

    shares: Sequence[float | None]
    seeds: int = 3
    asked: list[str] = field(default_factory=list)

    def row(self) -> GridRow:
        return GridRow.of(SCENARIO, [f"debian:{series}" for series in SERIES[: len(self.shares)]])

    def extended(self, row: GridRow, place: int) -> GridRow:
        spec, share = row.cells[place].kernel.spec, self.shares[place]
        self.asked.append(spec.removeprefix("debian:"))
        if share is None:
            return row.decided(place, replace(row.cells[place], status=Status.MISS, reason="the suite dropped it"))
        seen = cells("none", *(share + seed / 10 for seed in range(self.seeds)))
        config = {"CONFIG_PREEMPT_LAZY": "y", "CONFIG_SND_X": "m"} if place > 2 else {"CONFIG_BLK_DEV_RSXX": "m"}
        kernel = KernelFacts(spec, spec, "Debian", spec)
        folder = MadeUp(Path("sample/r"), replace(facts(SCENARIO, ()), kernel=kernel), SCENARIO)
        return row.decided(place, judged(row.cells[place], Run(folder, judge(SCENARIO, seen))), config)

    def timeline(self, step: int = 3) -> Timeline:
        return timeline(cast("Sweeper", self), self.row(), lambda _: None, ("iops",), step)

    def releases(self, figure: str = "") -> Releases:
        return bisect_releases(cast("Sweeper", self), self.row(), figure, lambda _: None)


def test_kernels_that_agree_are_measured_coarsely() -> None:
    kernels = Kernels([95.0] * 11)
    found = kernels.timeline()
    assert kernels.asked == ["5.10", "6.16", "6.19", "7.2", "7.3"]
    assert not found.changes
    assert "15 boots that took 5 min 0 s one after another; 18 saved by measuring coarsely first" in text(found)
    assert "not measured, as the kernels around agree: 6.1, 6.12, 6.17, 6.18, 7.0, 7.1" in text(found)


def test_a_claim_that_layout_might_turn_is_said() -> None:
    """130 % and 90.1 % of a bound at 90 %; another layout moves two such rates below 1,000 IOPS by 37.61 %."""
    found = text(Kernels([130.0, 90.1]).timeline())
    (near,) = [line for line in found.splitlines() if "within layout" in line]
    assert near.startswith("6.1, ") and "within layout: 0.11% from its bound; another layout of the same code" in near


@pytest.mark.parametrize("at", range(1, 11))
def test_every_change_is_found_between_neighbours(at: int) -> None:
    kernels = Kernels([20.0] * at + [95.0] * (11 - at))
    found = kernels.timeline()
    assert {(change.before, change.after) for change in found.changes} == {(at - 1, at)}
    assert found.changes[0].difference.turned
    assert len(kernels.asked) == len(set(kernels.asked)) <= 7
    assert f"{SERIES[at - 1]} -> {SERIES[at]}: the share is kept: FAIL -> PASS x 4.73  (" in text(found)


def test_a_claim_that_turns_is_a_change_however_small() -> None:
    """From 89.1 to 90.2 % of a bound at 90 %."""
    (change,) = Kernels([89.0, 90.1]).timeline().changes
    assert (change.line.name, change.difference.turned, change.difference.marked) == ("the share is kept", True, False)


def test_every_measured_kernel_has_its_values_in_the_text() -> None:
    """Eleven kernels do not fit in one table: each value has a place once, and what fails is marked."""
    kernels = Kernels([20.0] * 5 + [95.0] * 6)
    report = text(kernels.timeline(step=1))
    rows = [line for line in report.splitlines() if line.startswith("  the share is kept, >= 0.9")]
    heads = [line for line in report.splitlines() if line.startswith("  median, F: the claim fails")]
    assert "  ".join(heads).split().count("6.12") == 1 and len(rows) == len(heads) == 2
    shown = " ".join(row.removeprefix("  the share is kept, >= 0.9") for row in rows).split()
    assert shown == [*(["0.2010", "F"] * 5), *(["0.9510"] * 6)]
    # A figure that changes has its values too, one that does not has none.
    assert sum(line.startswith("  none together.fast.iops") for line in report.splitlines()) == 2
    assert "none solo.fast.iops" not in report
    assert all(len(line) <= 102 for line in report.splitlines() if line.startswith("  the share"))


def test_claims_that_change_are_first_in_the_table() -> None:
    kernels = Kernels([20.0, 95.0])
    found = kernels.timeline()
    still = replace(found.lines[0], name="another claim", values={0: Ensemble({1: 1.0}), 1: Ensemble({1: 1.0})})
    report = text(replace(found, lines=(still, *found.lines)))
    table = report[report.index("median, F:") :]
    assert table.index("the share is kept") < table.index("another claim")


def test_the_configurations_around_a_change_are_compared() -> None:
    late, early = Kernels([20.0] * 3 + [95.0] * 4), Kernels([20.0] + [95.0] * 6)
    assert "6.12 -> 6.16: 3 options differ: PREEMPT_LAZY n -> y\n" in text(late.timeline())
    assert "5.10 -> 6.1: 0 options differ, none of preemption, the block layer or hardening" in text(early.timeline())
    assert "configurations" not in text(Kernels([20.0] * 4).timeline())


def test_a_kernel_that_is_missing_does_not_stop_the_rest() -> None:
    kernels = Kernels([None, 20.0, 20.0, 20.0, None, 95.0, 95.0, 95.0, 95.0, 95.0, None])
    found = kernels.timeline()
    assert sorted(found.row.missing) == [0, 4, 10]
    assert {(change.before, change.after) for change in found.changes} == {(3, 5)}
    report = text(found)
    assert "6.16 -> 6.18 (6.17 missing): the share is kept" in report
    assert "MISS 5.10: the suite dropped it" in report


def test_no_kernel_at_all() -> None:
    kernels = Kernels([None] * 4)
    found = kernels.timeline()
    assert kernels.asked == [*SERIES[:4]]
    assert "0 measured, 4 missing, 0 not needed" in text(found)


def test_the_order_ends() -> None:
    assert next_place(1, set(), set(), lambda *_: True) == 0
    assert next_place(1, {0}, set(), lambda *_: True) is None
    assert next_place(5, set(range(5)), set(), lambda *_: True) is None
    assert next_place(5, {0, 4}, {1, 2, 3}, lambda *_: True, step=4) is None


@pytest.mark.parametrize(
    ("seeds", "share", "changed"), [(3, 1.04, False), (3, 1.06, True), (1, 0.99 + SLOW, False), (1, 1.01 + SLOW, True)]
)
def test_what_counts_as_a_change(seeds: int, share: float, changed: bool) -> None:
    """Two boots of a slow role among several differ by more than 60 %."""
    kernels = Kernels([50.0, 50.0 * share], seeds)
    found = kernels.timeline()
    figure = next(line for line in found.lines if line.title == "none together.fast.iops")
    assert any(changes([figure], (0, 1))) is changed


@pytest.mark.parametrize(
    ("metric", "kind"),
    [
        ("iops", "rate, one role"),
        ("cpu.per_io", "cpu.per_io, CPU partly idle"),
        ("lat.p99", "percentile of latency, one role"),
        ("paths.busiest", ""),
    ],
)
def test_one_seed_differs_by_more_than_two_boots_of_its_kind_of_figure(metric: str, kind: str) -> None:
    known = null_evidence().get(kind)
    least = max(known.single, LARGE) if known else fitted.SINGLE - 1
    figure = ratio(f"none.solo.fast.{metric}", "bound.none.solo.fast.iops")
    model = replace(SCENARIO, claims=(claim(of=figure),))
    found = lines(replace(Kernels([50.0, 65.0], 1).timeline().row, scenario=model))[0]
    for share, changed in ((least - 0.01, False), (least + 0.01, True)):
        values = {0: Ensemble({1: 1.0}), 1: Ensemble({1: 1 + share})}
        assert any(changes([replace(found, values=values)], (0, 1))) is changed


def test_the_cost_of_an_io_on_a_busy_cpu_differs_from_the_general_threshold_on() -> None:
    """Two boots differ by 0.318 % there; 50 % were needed."""
    figures = {("solo", "fast", "iops"): 200_000.0, ("solo", "fast", "cpu.per_io"): 4_900.0}
    idle = {**figures, ("solo", "fast", "iops"): 100.0}
    for least, seen in ((LARGE, figures), (1, idle)):
        side = [CellResult("a", 1, Status.PASS, figures=seen)]
        (row,) = compare_figures(side, side, ("cpu.per_io",), Precision(exact=True))
        assert row.threshold == least or row.threshold > least == 1


def test_counts_of_several_cpus_are_told_of_all_of_them() -> None:
    own = {("four", "r0", "atomics"): 1.0, ("four", "guest", "atomics"): 2.0}
    for more, names in (
        ({("four", "guest", "lines.seen"): 1.0}, {"none four.guest.atomics"}),
        ({}, {"none four.r0.atomics", "none four.guest.atomics"}),
    ):
        seen = tuple(replace(cell, figures=own | more) for cell in cells("none", 50.0))
        sides = {0: KernelSide(KernelFacts("debian:6.1", "6.1", "Debian", "d"), seen)}
        assert {line.title for line in figure_lines(sides, ("atomics",), exact=True, summed=True)} == names


def test_ranges_that_overlap_are_no_change() -> None:
    found = Kernels([95.0, 95.0]).timeline()
    line = found.lines[0]
    assert line.statuses[0] is Status.PASS
    wide = replace(line, values={0: line.values[0], 1: replace(line.values[1], values={1: 0.95, 2: 3.0, 3: 3.0})})
    assert not any(changes([wide], (0, 1)))


def test_one_kernel_has_no_neighbour() -> None:
    with pytest.raises(Misuse, match="no neighbour"):
        GridRow.of(SCENARIO, ["debian:6.1"])


@pytest.mark.parametrize(
    ("spec", "short"),
    [
        ("debian:6.12", "6.12"),
        ("tree:/src/linux@v6.12", "v6.12"),
        ("path:/boot/of/other", "other"),
        ("distro", "distro"),
    ],
)
def test_kernels_have_short_names(spec: str, short: str) -> None:
    assert label(spec) == short


def test_bisection_by_release() -> None:
    kernels = Kernels([95.0] * 7 + [20.0] * 4)
    found = kernels.releases()
    assert (found.good, found.bad, found.left) == (6, 7, ())
    assert len(kernels.asked) <= 6
    report = text_of(found)
    assert "6.19 -> 7.0: 6.19 is the last good release, 7.0 the first bad one" in report
    assert "the share is kept: 0.9500 .. 0.9520 -> 0.2000 .. 0.2020" in report


def test_releases_that_cannot_be_had_leave_several() -> None:
    kernels = Kernels([95.0] * 4 + [None, None] + [20.0] * 5)
    found = kernels.releases()
    assert (found.good, found.bad, found.left) == (3, 6, (4, 5))
    assert "the first bad release is 6.19 or one of 6.17, 6.18" in text_of(found)


def test_a_figure_without_a_claim() -> None:
    kernels = Kernels([50.0] * 3 + [79.0] * 5)
    found = kernels.releases(FIGURE)
    assert (found.good, found.bad) == (2, 3)
    assert "6.12 -> 6.16" in text_of(found)
    with pytest.raises(Misuse, match=r"has the figure none\.together\.fast\.iop, did") as caught:
        kernels.releases("none.together.fast.iop")
    assert "ARM.LOAD.ROLE.METRIC" in caught.value.remedy


def test_ends_that_cannot_be_bisected() -> None:
    alike, gone = Kernels([95.0] * 4), Kernels([None, 20.0])
    with pytest.raises(CannotJudge, match=r"iops does not differ between the ends: 95\.1 and 95\.1"):
        alike.releases(FIGURE)
    with pytest.raises(CannotJudge, match="no claim holds on the good end and fails on the bad one"):
        alike.releases()
    with pytest.raises(CannotJudge, match=r"debian:5\.10 cannot be measured: the suite dropped it"):
        gone.releases()


def text_of(found: Releases) -> str:
    return "\n".join((*release_text(found, 12, "blklab bisect"), ""))


def test_only_a_figure_that_roles_share_goes_without_a_role() -> None:
    of = scenario([claim()])
    for figure in ("none.together.cpu.per_io", "none.together.fast.iops", "none.solo.fast.cpu.per_io"):
        demand_figure(of, figure)
    with pytest.raises(Misuse, match=r"--figure none\.solo\.cpu\.per_io"):
        demand_figure(of, "none.solo.cpu.per_io")
