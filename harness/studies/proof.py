# SPDX-License-Identifier: GPL-2.0-only
"""Proof of a bottleneck: the same arm and load measured again with each limit raised by a quarter."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from harness.base.plain import to_plain
from harness.judge.cells import CellResult
from harness.limits.bottleneck import Alteration, Bottleneck, Proof, ProofRow, changes
from harness.record.judging import results_of
from harness.record.store import RunFolder
from harness.run.bench import Bench
from harness.run.plan import Request
from harness.scenario.load import variant
from harness.scenario.model import Arm, Load, Scenario, Status
from lab.base.digest import canonical, digest_bytes
from lab.base.errors import CannotJudge
from lab.kernels.model import Kernel

_BASE = "as-measured"


Remeasure = Callable[[Scenario], Sequence[CellResult]]


def prove(bench: Bench, kernel: Kernel, seeds: int, run: RunFolder, bottleneck: Bottleneck) -> Proof:
    """Measures variants of the run's scenario, called ``SCENARIO.proof``, with ``seeds`` boots for each limit.

    Raises CannotJudge when the load cannot be measured again as it was, and what boots raise.
    """
    scenario = run.scenario

    def remeasure(changed: Scenario) -> Sequence[CellResult]:
        return results_of(bench.measure(Request(changed, kernel, seeds)).folder)

    arm, load = scenario.arms[bottleneck.arm], scenario.loads[bottleneck.load]
    raised = changes(arm, load, bottleneck)
    possible = [change for change in raised if not change.refused]
    throughput: dict[str, float | str] = {}
    for alike in dict.fromkeys(_key(change.load) for change in possible):
        of_load = [change for change in possible if _key(change.load) == alike]
        arms = {change.label: replace(change.arm, name=change.label) for change in of_load}
        if of_load[0].load == load:
            arms = {_BASE: replace(arm, name=_BASE), **arms}
        throughput |= _throughput(remeasure, scenario, arms, of_load[0].load)
    base = throughput.get(_BASE, "no other limit could be raised")
    if isinstance(base, str):
        raise CannotJudge(f"{bottleneck.arm}.{bottleneck.load} was not measured again: {base}")
    rows = tuple(_row(change, base, throughput.get(change.label, change.refused)) for change in raised)
    return Proof(bottleneck, base, rows)


def _key(load: Load) -> str:
    return digest_bytes(canonical(to_plain(load)))


def _row(change: Alteration, base: float, value: float | str) -> ProofRow:
    if isinstance(value, str):
        return ProofRow(change, None, value)
    return ProofRow(change, value * change.times / base - 1)


def _throughput(
    remeasure: Remeasure, scenario: Scenario, arms: Mapping[str, Arm], load: Load
) -> dict[str, float | str]:
    """Bytes per second of all roles together by arm, or the reason why there is no figure."""
    results = remeasure(variant(scenario, "proof", arms=arms, loads={load.name: load}, claims=(), controls=()))
    return {name: _of_arm([result for result in results if result.arm == name], load) for name in arms}


def _of_arm(results: Sequence[CellResult], load: Load) -> float | str:
    failed = [result for result in results if result.status is not Status.PASS]
    if failed:
        return "; ".join(failed[0].reasons) or str(failed[0].status)
    return fmean(sum(result.figures[load.name, role, "bw"] for role in load.roles) for result in results)
