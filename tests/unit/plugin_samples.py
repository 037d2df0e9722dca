# SPDX-License-Identifier: GPL-2.0-only
"""Boots for the tests of the pytest plugin: recorded ones, where real machines would be."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from harness.judge.verdict import Verdict
from harness.record.judging import Run, judge_run
from harness.record.store import KernelFacts, PlannedCell, RunFolder, Store, save_boot
from harness.scenario.model import Scenario
from lab.base.errors import LabBroken
from lab.base.record import Outcome
from tests.unit.store_samples import facts, files, record

ENDINGS = "endings.json"
RELEASES = {"debian:5.10": "5.10.0-46-amd64", "debian:6.1": "6.1.0-50-amd64"}

SCENARIO = """\
scenario: {name}
title: Two devices on one tag set
clock: virtual
schema: 1
topology: null-shared-tags
queue: {{scheduler: none}}
seeds: 2
window: {{ramp: 0s, runtime: 8s}}
{more}
arms:
  none: {{}}
  red: {{}}
loads:
  solo:
    fast: {{disk: fast, rw: randread, bs: 4k, iodepth: 64}}
  together:
    fast: {{disk: fast, rw: randread, bs: 4k, iodepth: 64}}
    slow: {{disk: slow, rw: randread, bs: 4k, iodepth: 64}}
claims:
  - that: the fast device keeps its share
    ratio: none.together.fast.iops / none.solo.fast.iops
    expect: ">= 0.9"
    otherwise: the slow one starves it
{known}
controls:
  - that: a share can be lost
    ratio: red.together.fast.iops / red.solo.fast.iops
    expect: "<= 0.5"
"""
KNOWN = '    known: [{kernels: "5.10", because: tags are first come first served, link: https://example.org/x}]'


def scenario_text(name: str, *, more: str = "", known: str = "") -> str:
    return SCENARIO.format(name=name, more=more, known=known)


class RecordedBoots:
    """Leaves in the store what machines would have left, as ``endings.json`` of the folder says.

    Its entries, by kernel: ``iops`` of the fast device next to the slow one in arm none (100 alone),
    ``outcome`` of every boot, ``skip`` reasons, or ``lab`` for a lab that does not work at all.
    """

    def __init__(self, root: Path) -> None:
        self._root, self._store = root, Store(root / "results")

    def __call__(self, scenario: Scenario, kernel: str) -> Run:
        said = json.loads((self._root / ENDINGS).read_text()).get(kernel, {})
        if "lab" in said:
            raise LabBroken(said["lab"], remedy="mend it")
        plan = tuple(self._cells(scenario, tuple(said.get("skip", ()))))
        known = facts(scenario, plan)
        release = RELEASES[kernel]
        run = self._store.new_run(scenario, replace(known, kernel=KernelFacts(kernel, release, "Debian", "k" * 64)))
        for cell in plan:
            if not cell.skip:
                together = said.get("iops", 95) if cell.arm == "none" else 5
                outcome = Outcome(said.get("outcome", "bye"))
                save_boot(record(run.fresh_boot_folder(cell), files(together=together), outcome))
        return Run(run, self._finished(run))

    @staticmethod
    def _cells(scenario: Scenario, skip: tuple[str, ...]) -> Iterator[PlannedCell]:
        for number, (arm, seed) in enumerate((arm, seed) for arm in scenario.arms for seed in (1, 2)):
            yield PlannedCell(arm, seed, "" if skip else f"{number:03d}", skip=skip)

    @staticmethod
    def _finished(run: RunFolder) -> Verdict:
        verdict = judge_run(run)
        run.finish(verdict, elapsed=1.0)
        return verdict
