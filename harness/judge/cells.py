# SPDX-License-Identifier: GPL-2.0-only
"""What one cell says: its status and figures, whether it compares with that of another kernel; how statuses roll up.

An ensemble is one figure under all seeds, or a ratio of two, of which each operand must have been measured.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, geometric_mean

from harness import fitted
from harness.figures.boot import MeasurementError
from harness.figures.read import figures_of, overridden, refused
from harness.limits.limits import arm_bound, shares_of_bound
from harness.noise import Rule
from harness.scenario.model import Arm, Bound, Load, Operand, Ratio, Scenario, Status
from harness.scenario.ratio import BASELINE, BOUND, NUMBER
from harness.scenario.registry import IOPS, TOTAL_IOS, FigureKey, Figures, Rate, figure_of
from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_FAIL, EXIT_LAB_BROKEN, EXIT_PASS
from lab.base.record import BootRecord, Outcome

WORST_FIRST = (Status.FAIL, Status.ERROR, Status.MISS, Status.PASS, Status.DONE, Status.SKIP)


ENDINGS: Mapping[Outcome, tuple[Status, str]] = {
    Outcome.BYE: (Status.PASS, ""),
    Outcome.NOT_READY: (Status.MISS, "the guest never said ready"),
    Outcome.LATE: (Status.MISS, "the host did not bring the guest up in time"),
    Outcome.OOPS: (Status.FAIL, "the kernel oopsed after it was ready"),
    Outcome.HANG: (Status.FAIL, "the kernel hung after it was ready"),
    Outcome.DOUBTFUL: (Status.ERROR, "the guest died or hung, and not surely of its kernel"),
    Outcome.NO_MEMORY: (Status.ERROR, "the guest ran out of memory"),
    Outcome.UNFIT: (Status.ERROR, "the guest did not do as asked"),
    Outcome.GARBLED: (Status.ERROR, "the result channel broke its format"),
    Outcome.LOST: (Status.ERROR, "the lab lost the guest"),
}
"""What each way in which a boot can end means, and the start of the reason shown."""
WARNED = Status.ERROR, "the kernel complained after it was ready"
LAB_BROKE = frozenset({Outcome.GARBLED, Outcome.LOST})


def ending(outcome: Outcome, *, warned: bool) -> tuple[Status, str]:
    """A boot that finished is only as good as its console: warnings make it an error."""
    return WARNED if outcome is Outcome.BYE and warned else ENDINGS[outcome]


def worst(statuses: Iterable[Status]) -> Status:
    """The first of kcidb's order that occurs. Raises ValueError when there is none at all."""
    return min(statuses, key=WORST_FIRST.index)


def roll_up(incidents: Iterable[Status], required: Iterable[Status]) -> Status:
    """Status of a run: ``incidents`` are its boots, ``required`` its claims and controls that count.

    A run passes only when everything required was judged and held, so DONE and SKIP among the
    required weigh more than any PASS; a boot that was skipped weighs nothing by itself.
    """
    demanded = list(required)
    bad = [status for status in (*demanded, *incidents) if status in (Status.FAIL, Status.ERROR, Status.MISS)]
    if bad:
        return worst(bad)
    if not demanded:
        return Status.DONE
    for lacking in (Status.DONE, Status.SKIP):
        if lacking in demanded:
            return lacking
    return Status.PASS


def matrix_status(cells: Iterable[Status]) -> Status:
    """Status of a matrix: cells that a kernel cannot run (SKIP) do not count if others were judged.

    One cell that could not be decided (DONE) makes the whole undecided.
    """
    return roll_up((), [status for status in cells if status is not Status.SKIP] or (Status.SKIP,))


def exit_code_of(cells: Iterable[tuple[Status, int]]) -> int:
    """What a process exits with that judged several, from the status and the exit code of each.

    What only measures (DONE, exit 0) counts as a pass.
    """
    every = list(cells)
    judged = [code for status, code in every if status is not Status.SKIP]
    if judged and not any(judged):
        return EXIT_PASS
    if matrix_status(status for status, _ in every) is Status.FAIL:
        return EXIT_FAIL
    return max([EXIT_CANNOT_JUDGE, *(code for _, code in every)])


def exit_code(status: Status, *, lab_broke: bool, only_measured: bool = False) -> int:
    """What a process that judged ``status`` exits with; 125 means that it could not judge.

    ``only_measured``: the scenario claims nothing, so DONE is all that a run can be.
    """
    if status is Status.PASS or (status is Status.DONE and only_measured):
        return EXIT_PASS
    if status is Status.FAIL:
        return EXIT_FAIL
    if status is Status.ERROR and lab_broke:
        return EXIT_LAB_BROKEN
    return EXIT_CANNOT_JUDGE


_SHOWN_WARNINGS = 3


@dataclass(frozen=True)
class Ensemble:
    """``values`` maps seed to value; there is at least one, and all are finite."""

    values: Mapping[int, float]

    def __post_init__(self) -> None:
        if not self.values or not all(math.isfinite(value) for value in self.values.values()):
            raise ValueError("an ensemble needs finite values")

    @property
    def low(self) -> float:
        return min(self.values.values())

    @property
    def high(self) -> float:
        return max(self.values.values())

    @property
    def median(self) -> float:
        return statistics.median(self.values.values())

    def holding(self, bound: Bound) -> tuple[int, ...]:
        """The seeds whose value lies within ``bound``."""
        return tuple(seed for seed, value in self.values.items() if bound.holds(value))

    def separate_from(self, other: "Ensemble") -> bool:
        """Whether the two ranges have no value in common: only then do two kernels differ."""
        return self.high < other.low or other.high < self.low


@dataclass(frozen=True)
class CellResult:
    """One arm under one seed. ``outcome`` is None when nothing was booted (SKIP, or never run).

    ``figures`` maps (load, role, metric) to a value and is empty unless ``status`` is PASS.
    ``reasons`` are complete sentences for a person. ``fingerprint`` is that of the boot. ``windows`` has the figures
    of each where there are several, of which ``figures`` is the mean.
    """

    arm: str
    seed: int
    status: Status
    reasons: tuple[str, ...] = ()
    figures: Figures = field(default_factory=dict)
    digest: str | None = None
    outcome: Outcome | None = None
    lab_broke: bool = False
    fingerprint: Mapping[str, str] = field(default_factory=dict)
    windows: tuple[Figures, ...] = ()

    @property
    def kernel_failed(self) -> bool:
        """Whether the kernel failed, hung or did not come up."""
        return self.status is Status.FAIL or self.outcome in (Outcome.NOT_READY, Outcome.HANG, Outcome.OOPS)


def ensemble_of(cells: Iterable[CellResult], arm: str, key: FigureKey) -> Ensemble | None:
    """A figure (load, role, metric) of an arm over the seeds; None if no boot recorded it."""
    values = {cell.seed: cell.figures[key] for cell in cells if cell.arm == arm and key in cell.figures}
    return Ensemble(values) if values else None


def missing_cell(arm: str, seed: int) -> CellResult:
    """A cell that was planned and has no complete record."""
    return CellResult(arm, seed, Status.MISS, (f"arm {arm} under seed {seed} was not measured",))


def result_of_boot(
    arm: Arm, seed: int, record: BootRecord, loads: Iterable[Load], windows: int = 1, *, release: str
) -> CellResult:
    """Judge how a boot of ``release`` ended, and read its figures when it ended well.

    Those of each load are the mean over its ``windows``.
    """
    status, says = ending(record.outcome, warned=bool(record.warnings))
    result = CellResult(
        arm.name,
        seed,
        status,
        digest=record.digest,
        outcome=record.outcome,
        lab_broke=record.outcome in LAB_BROKE,
        fingerprint=record.fingerprint,
    )
    if record.outcome is Outcome.UNFIT and (reason := refused(record.unfit, arm.queue["scheduler"], release)):
        return replace(result, status=Status.SKIP, reasons=(reason,))
    if status is not Status.PASS:
        return replace(result, reasons=(_reason(says, record),))
    try:
        if reasons := tuple(overridden(record.files, arm.topology)):
            return replace(result, status=Status.SKIP, reasons=reasons)
        numbered = {load.name: load.windows(windows) for load in loads}
        loads_of = ({name: loads[number] for name, loads in numbered.items()} for number in range(windows))
        figures = tuple(_window(record, arm, of_window) for of_window in loads_of)
        return replace(result, figures=_together(figures), windows=figures if windows > 1 else ())
    except MeasurementError as error:
        return replace(result, status=Status.ERROR, reasons=(error.message,))


def common_result(repetitions: Sequence[CellResult]) -> CellResult:
    """One result for several boots of the same cell: ERROR unless all left the same digest."""
    first, *others = repetitions
    for other in others:
        if other.status is not Status.PASS and first.status is Status.PASS:
            return other
    digests = sorted({result.digest or "none" for result in repetitions if result.status is Status.PASS})
    if len(digests) > 1:
        short = ", ".join(digest[:12] for digest in digests)
        reason = f"arm {first.arm} under seed {first.seed} is not repeatable: its digests are {short}"
        return replace(first, status=Status.ERROR, reasons=(reason,), figures={}, lab_broke=True)
    return first


def _window(record: BootRecord, arm: Arm, numbered: Mapping[str, Load]) -> Figures:
    """The figures of one window, by the names of the loads: ``numbered`` are those of this window."""
    names = {load.name: name for name, load in numbered.items()}
    figures = figures_of(record.files, arm.topology, numbered.values())
    return {(names.get(load, load), role, metric): value for (load, role, metric), value in figures.items()}


def _together(windows: Sequence[Figures]) -> Figures:
    keys = dict.fromkeys(key for figures in windows for key in figures)
    return {key: _mean([figures[key] for figures in windows if key in figures]) for key in keys}


def _mean(values: Sequence[float]) -> float:
    """Geometric where it can be: the quotient of two such means is the mean of the windows' quotients."""
    mean = geometric_mean(values) if min(values) > 0 else fmean(values)
    # Not by a rounding error beyond values that are all the same.
    return min(max(mean, min(values)), max(values))


def _reason(says: str, record: BootRecord) -> str:
    if record.outcome is Outcome.BYE:
        shown = "; ".join(record.warnings[:_SHOWN_WARNINGS])
        rest = len(record.warnings) - _SHOWN_WARNINGS
        return f"{says}: {shown}" + (f"; and {rest} more" if rest > 0 else "")
    return f"{says}: {record.detail}" if record.detail else says


KERNELS_OWN = frozenset({"kernel", "base", "job"})
"""What of a fingerprint belongs to the kernel: itself, the archive with its modules, the job that loads them."""


def comparable(cells: Sequence[CellResult], baseline: Sequence[CellResult]) -> tuple[CellResult, ...]:
    """The cells of the BASE kernel that have a counterpart in ``cells``, with the status that counts.

    ERROR is a cell that differs from its counterpart in more than the kernel, and one in
    which the BASE kernel failed: that says nothing against the kernel under test.
    """
    fellows = {(cell.arm, cell.seed): cell for cell in cells}
    return tuple(_beside(fellows[base.arm, base.seed], base) for base in baseline if (base.arm, base.seed) in fellows)


def differences(fingerprint: Mapping[str, str], other: Mapping[str, str]) -> tuple[str, ...]:
    """Names of what differs between two fingerprints although the kernels do not make it differ."""
    names = (fingerprint.keys() | other.keys()) - KERNELS_OWN
    return tuple(sorted(name for name in names if fingerprint.get(name) != other.get(name)))


def _beside(cell: CellResult, base: CellResult) -> CellResult:
    if base.status is Status.FAIL:
        return replace(base, status=Status.ERROR)
    if cell.status is not Status.PASS or base.status is not Status.PASS:
        return base
    differing = differences(cell.fingerprint, base.fingerprint)
    if not differing:
        return base
    listed = f"{', '.join(differing)} {'differs' if len(differing) == 1 else 'differ'}"
    reason = f"cannot be compared under seed {base.seed}: {listed}, not only the kernel"
    return replace(base, status=Status.ERROR, figures={}, reasons=(reason,))


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

    def of(self, operand: Operand) -> Cells:
        """The cells of the kernel that a figure is of."""
        return (self.baseline or {}) if operand.kind == BASELINE else self.cells


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
    of_base = operand.kind == BASELINE
    if of_base and evidence.baseline is None:
        raise Unavailable(Status.SKIP, "no BASE kernel given")
    cell, arm = evidence.of(operand).get((operand.arm, seed)), f"{'on the BASE kernel ' * of_base}arm {operand.arm}"
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
