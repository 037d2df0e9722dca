# SPDX-License-Identifier: GPL-2.0-only
"""Values of a ratio's operands under one seed, and what must be measured for them."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from harness import fitted
from harness.judge.cells import CellResult, Ensemble, worst
from harness.limits.limits import arm_bound, shares_of_bound
from harness.noise import Rule
from harness.scenario.model import Operand, Ratio, Scenario, Status
from harness.scenario.ratio import BASELINE, BOUND, NUMBER
from harness.scenario.registry import IOPS, TOTAL_IOS, Rate, figure_of

Cells = Mapping[tuple[str, int], CellResult]


class Unavailable(Exception):
    """An operand has no value; ``status`` and ``reason`` are what a claim on it becomes."""

    def __init__(self, status: Status, reason: str) -> None:
        self.status, self.reason = status, reason


@dataclass(frozen=True)
class Evidence:
    """Everything a ratio may refer to. ``baseline`` is None when no BASE kernel was given, ``rule`` without noise."""

    scenario: Scenario
    cells: Cells
    baseline: Cells | None = None
    rule: Rule | None = None


def arms_needed(ratios: Iterable[Ratio]) -> frozenset[str]:
    every = (operand for ratio in ratios for operand in ratio.operands)
    return frozenset(operand.arm for operand in every if operand.kind != NUMBER)


def ratio_value(ratio: Ratio, seed: int, evidence: Evidence) -> float:
    """Raises Unavailable when an operand was not measured or the right side is zero."""
    left = operand_value(ratio.left, seed, evidence)
    if ratio.right is None:
        return left
    right = operand_value(ratio.right, seed, evidence)
    if right == 0:
        raise Unavailable(Status.ERROR, f"the right side of {ratio.text} is zero under seed {seed}")
    return left / right


def ratio_ensemble(ratio: Ratio, evidence: Evidence, seeds: Sequence[int]) -> Ensemble:
    """The ratio under each of ``seeds``. Raises Unavailable unless it has a value under all of them."""
    values: dict[int, float] = {}
    lacking: list[Unavailable] = []
    for seed in seeds:
        try:
            values[seed] = ratio_value(ratio, seed, evidence)
        except Unavailable as unavailable:
            lacking.append(unavailable)
    if not seeds:
        raise Unavailable(Status.MISS, "no seed was run")
    if lacking:
        status = worst(unavailable.status for unavailable in lacking)
        reasons = dict.fromkeys(unavailable.reason for unavailable in lacking if unavailable.status is status)
        raise Unavailable(status, "; ".join(reasons))
    return Ensemble(values)


def window_values(ratio: Ratio, seed: int, evidence: Evidence) -> tuple[float, ...]:
    """The ratio in each window of the boots of one seed; empty where they have only one. Raises Unavailable."""
    base = evidence.baseline or {}
    counts = [len(cell.windows) for cell in (*evidence.cells.values(), *base.values()) if cell.seed == seed]
    values = []
    for number in range(min(filter(None, counts), default=0)):
        cells, others = (_of_window(table, seed, number) for table in (evidence.cells, base))
        values.append(ratio_value(ratio, seed, replace(evidence, cells=cells, baseline=others or evidence.baseline)))
    return tuple(values)


def _of_window(cells: Cells, seed: int, number: int) -> Cells:
    """``cells`` with the figures of one window of the boots of a seed."""
    windows = {key: cell.windows for key, cell in cells.items() if cell.seed == seed and cell.windows}
    return {**cells, **{key: replace(cells[key], figures=figures[number]) for key, figures in windows.items()}}


def operand_value(operand: Operand, seed: int, evidence: Evidence) -> float:
    """Raises Unavailable."""
    if operand.kind == NUMBER:
        return operand.number
    if operand.kind == BOUND:
        load, role, metric = operand.key
        return arm_bound(evidence.scenario.arms[operand.arm], evidence.scenario.loads[load], role, metric)
    if operand.kind == BASELINE:
        if evidence.baseline is None:
            raise Unavailable(Status.SKIP, "no BASE kernel given")
        return _cell_value(operand, seed, evidence.baseline, "on the BASE kernel ")
    return _cell_value(operand, seed, evidence.cells, "")


def _cell_value(operand: Operand, seed: int, cells: Cells, where: str) -> float:
    cell, arm = cells.get((operand.arm, seed)), f"{where}arm {operand.arm}"
    if cell is None:
        raise Unavailable(Status.MISS, f"{arm} under seed {seed} was not measured")
    if cell.status is not Status.PASS:
        raise Unavailable(cell.status, f"{arm}: {'; '.join(cell.reasons)}")
    value = cell.figures.get(operand.key)
    if value is None and (absent := figure_of(*operand.key[1:]).absent(operand.key, cell.figures)):
        raise Unavailable(Status.SKIP, f"{arm}: {absent}")
    if value is None or not math.isfinite(value):
        raise Unavailable(Status.ERROR, f"{arm} under seed {seed} recorded no {'.'.join(operand.key)}")
    return value


def above_bound(ratio: Ratio, ensemble: Ensemble, evidence: Evidence) -> str:
    """Why a ratio of a rate and the bound on it cannot be true; empty where it can.

    A bound rests on rules of the kernel too: fair shares, queue depths, path selectors. A kernel that breaks them
    exceeds it, but no device, link, set of tags or depth of a role.
    """
    left, right = ratio.left, ratio.right
    seed, highest = max(ensemble.values.items(), key=lambda value: value[1])
    if right is None or right.kind != BOUND or left.path[:3] != right.path[:3] or highest <= fitted.ABOVE_BOUND:
        return ""
    load, role, metric = right.key
    rate = figure_of(role, metric).rate
    if rate is None or figure_of(*left.key[1:]).rate is not rate:
        return ""
    arm, window = evidence.scenario.arms[right.arm], evidence.scenario.loads[load]
    figures = evidence.cells[right.arm, seed].figures
    # One of its I/Os may have been served before the window.
    if highest * (1 - 1 / max(1.0, figures.get((load, role, TOTAL_IOS), math.inf))) <= fitted.ABOVE_BOUND:
        return ""
    moved = {each: figures.get((load, each, IOPS), 0.0) * other.bs for each, other in window.roles.items()}
    figure = highest * arm_bound(arm, window, role, metric)
    moved[role] = figure * (window.roles[role].bs if rate is Rate.REQUESTS else 1)
    fullest, _ = shares_of_bound(arm, window, moved, devices=True)
    if fullest <= fitted.ABOVE_BOUND:
        return ""
    return (
        f"{'.'.join(left.path)} is {figure:.5g}, its bound {figure / fullest:.5g}: no device of this topology does"
        " that, so the lab's model of it is wrong"
    )
