# SPDX-License-Identifier: GPL-2.0-only
"""Whether the CPU was idle enough for a ratio to be about anything else than the CPU."""

from collections.abc import Sequence

from harness.judge.operands import Evidence, figure_of, operands
from harness.scenario.metric_names import GUEST, IDLE, Basis, basis
from harness.scenario.model import Operand, Ratio
from harness.scenario.ratio import BASELINE, BOUND, NUMBER, TRIED

LEAST_IDLE = 0.2
TOO_BUSY = (
    "the guest was idle for less than a fifth of the window, so the processor and not the device set the figure: "
    "this cannot support a claim about the device"
)


def guest_idle(ratio: Ratio, evidence: Evidence, seeds: Sequence[int]) -> bool:
    """Whether the CPU was idle for at least a fifth of every window that the speed of the ratio's figures rests on.

    False also where the idle time of a window was not recorded.
    """
    for operand in _guarded(ratio):
        figure = figure_of(operand)
        cells = (evidence.baseline or {}) if operand.kind == BASELINE else evidence.cells
        for seed in seeds:
            cell = cells[figure.arm, seed]
            for figures in cell.windows or (cell.figures,):
                if not figures.get((figure.load, GUEST, IDLE), 0.0) >= LEAST_IDLE:
                    return False
    return True


def _guarded(ratio: Ratio) -> list[Operand]:
    """The operands that depend on how fast the guest was: of two counts of one window the quotient does not."""
    measured = [one for one in operands(ratio) if one.kind not in (BOUND, NUMBER) and figure_of(one).load != TRIED]
    bases = [basis(*one.path[2:]) for one in measured]
    windows = {(one.kind, *one.path[:2]) for one in measured}
    if len(measured) > 1 and len(windows) == 1 and set(bases) == {Basis.COUNT}:
        return []
    return [one for one, rests_on in zip(measured, bases, strict=True) if rests_on is not Basis.OTHER]
