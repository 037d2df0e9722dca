# SPDX-License-Identifier: GPL-2.0-only
"""How a run proceeds on each clock. A plan chooses the strategy once; nothing after it asks which clock it is."""

from collections.abc import Collection, Sequence
from itertools import groupby

from harness.judge.verdict import Verdict, unmade
from harness.noise import Rule, stopping_rule
from harness.record.judging import judge_run
from harness.record.store import PlannedCell, RunFolder
from harness.run.boots import Boots, Jobs, recorded
from harness.scenario.model import Arm, Clock, Scenario
from lab.base.errors import Misuse
from lab.kernels.model import Kernel
from lab.session import Lab, accelerator_for


class ClockStrategy:
    """A run in virtual time: boots repeat exactly. They are made side by side, all of them.

    ``alone``: one boot at a time on the whole host. ``shares_boots``: a boot of another run with the same
    fingerprint is as good as a new one.
    """

    alone = False
    shares_boots = True

    def refuse(self, scenario: Scenario, *, verify: bool, baseline: bool) -> None:
        """Raise Misuse when this clock cannot answer the request."""

    def rule(self, seeds: int) -> Rule | None:
        """When a run of ``seeds`` rounds may stop early; None when every planned boot is made."""
        return None

    def accelerator(self, lab: Lab, kernel: Kernel, arms: Collection[Arm]) -> str:
        """What executes the guests of ``arms``, as a suffix of QEMU's version; empty when the clock implies it."""
        return ""

    def make(self, boots: Boots, waiting: Sequence[PlannedCell]) -> Verdict:
        """Make the boots that are waiting, or as many as the rule needs, and judge the run."""
        return boots.make(waiting)

    def complete(self, run: RunFolder, jobs: Jobs) -> bool:
        """Whether the run made every boot that its verdict rests on, each of exactly these jobs."""
        return all(recorded(run, cell, jobs) for cell in run.facts.cells if not cell.skip)

    def repeatable(self, verdict: Verdict) -> bool:
        """Whether the run stays unfinished, so that the same command repeats boots that the host invalidated."""
        return False


class WallTime(ClockStrategy):
    """A run on the wall clock: boots scatter. One at a time, in rounds of all arms, until the stopping rule is met."""

    alone = True
    shares_boots = False

    def refuse(self, scenario: Scenario, *, verify: bool, baseline: bool) -> None:
        if verify:
            raise Misuse(
                f"{scenario.name}: boots on the wall clock do not repeat exactly", remedy="run it without --verify"
            )
        if baseline:
            raise Misuse(
                f"{scenario.name}: on the wall clock a run made at another time is not a baseline",
                remedy="run each kernel by itself: a ratio compares boots made side by side",
            )

    def rule(self, seeds: int) -> Rule | None:
        return stopping_rule(seeds)

    def accelerator(self, lab: Lab, kernel: Kernel, arms: Collection[Arm]) -> str:
        emulated = any(arm.topology.emulated for arm in arms)
        return f", {accelerator_for(lab, kernel)}" if emulated else ""

    def make(self, boots: Boots, waiting: Sequence[PlannedCell]) -> Verdict:
        folder = boots.folder
        for cell in waiting:
            # A boot that the host invalidated left a record; without removing it, judging would count it.
            if folder.boot_folder(cell).exists():
                folder.fresh_boot_folder(cell)
        verdict = judge_run(folder)
        for _, together in groupby(waiting, key=lambda cell: cell.seed):
            if not unmade(verdict):
                break
            # Boots of another run on this host would be noise in this round.
            with boots.lab.cache.workspace("turn", "wall"):
                verdict = boots.make(list(together))
        return verdict

    def complete(self, run: RunFolder, jobs: Jobs) -> bool:
        made = [cell for cell in run.facts.cells if not cell.skip and run.boot(cell) is not None]
        return all(recorded(run, cell, jobs) for cell in made) and not unmade(judge_run(run))

    def repeatable(self, verdict: Verdict) -> bool:
        return any(cell.outcome and cell.outcome.invalidated_by_host for cell in verdict.cells)


STRATEGIES: dict[Clock, ClockStrategy] = {Clock.VIRTUAL: ClockStrategy(), Clock.WALL: WallTime()}
