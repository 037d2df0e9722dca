# SPDX-License-Identifier: GPL-2.0-only
"""Reproduced ratios with changed parameters: values only."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.base.files import read_json, write_json
from harness.base.plain import from_plain, to_plain
from harness.judge.operands import arms_needed
from harness.judge.verdict import Verdict
from harness.record.judging import judge_run
from harness.record.store import Store
from harness.report.format import figure
from harness.run.events import Listener
from harness.run.plan import Request
from harness.run.runner import measured
from harness.scenario.expand import variant
from harness.scenario.model import Arm, Scenario
from lab.base.errors import Misuse
from lab.kernels.model import Kernel
from lab.session import Lab
from lab.topology.limits import refusals
from lab.topology.origins import multiplied

FACTORS = (0.8, 1.0, 1.25)


@dataclass(frozen=True)
class SensitivityRow:
    """The median of one reproduced ratio with the parameters ``of`` at ``factor`` times the fitted value.

    ``ratio`` is None if not measured.
    """

    of: str
    factor: float
    that: str
    ratio: float | None


@dataclass(frozen=True)
class Sensitivity:
    """``digest`` is that of the scenario."""

    scenario: str
    digest: str
    release: str
    rows: tuple[SensitivityRow, ...]

    def table(self) -> Iterator[tuple[str, str, list[str]]]:
        """Parameter, ratio, and the ratio's figure for each of FACTORS; ``-`` where it was not measured."""
        figures = {(row.of, row.that, row.factor): figure(row.ratio) for row in self.rows if row.ratio is not None}
        for of in dict.fromkeys(row.of for row in self.rows):
            for that in dict.fromkeys(row.that for row in self.rows):
                yield of, that, [figures.get((of, that, factor), "-") for factor in FACTORS]


_FILE = "sensitivity.json"
_FITTED = "fitted"


def fitted(scenario: Scenario) -> tuple[str, ...]:
    """The parameters of the scenario's topologies that were fitted to a figure."""
    origins = (origin for arm in scenario.arms.values() for origin in arm.topology.origins)
    return tuple(dict.fromkeys(origin.of for origin in origins if origin.kind == _FITTED))


def measure(
    lab: Lab, scenario: Scenario, kernel: Kernel, store: Store, *, listener: Listener, at_once: int
) -> Sensitivity:
    """One seed of each arm that a reproduced ratio needs, for each fitted parameter and factor.

    Raises Misuse when the scenario reproduces nothing or nothing was fitted for it, and what boots raise.
    """
    parameters = fitted(scenario)
    if not scenario.reproduces or not parameters:
        raise Misuse(
            f"{scenario.name} has no reproduced ratio with a fitted parameter",
            remedy="blklab show lists the origin of each parameter",
        )
    rows: list[SensitivityRow] = []
    for of in parameters:
        for factor in FACTORS:
            request = Request(varied(scenario, of, factor), kernel, seeds=1)
            rows += _rows(of, factor, judge_run(measured(lab, request, store, listener, at_once)))
    return Sensitivity(scenario.name, scenario.digest, kernel.release, tuple(rows))


def varied(scenario: Scenario, of: str, factor: float) -> Scenario:
    """The arms of reproduced ratios with the parameter changed, without claims."""
    needed = arms_needed(one.ratio for one in scenario.reproduces)
    arms = {name: _varied(arm, of, factor) for name, arm in scenario.arms.items() if name in needed}
    return variant(scenario, "sensitivity", arms)


def _varied(arm: Arm, of: str, factor: float) -> Arm:
    topology = multiplied(arm.topology, of, factor)
    for reason in refusals(topology):
        raise Misuse(
            f"{of} cannot be {factor:g} times as large: {reason}",
            remedy="mark the parameter as chosen, or widen a limit",
        )
    return replace(arm, topology=topology)


def _rows(of: str, factor: float, verdict: Verdict) -> Iterator[SensitivityRow]:
    for one in verdict.reproductions:
        yield SensitivityRow(of, factor, one.that, None if one.ensemble is None else one.ensemble.median)


def keep(store: Store, found: Sensitivity) -> Path:
    path = _path(store, found.scenario, found.release)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, to_plain(found))
    return path


def kept(store: Store, scenario: Scenario) -> Sequence[Sensitivity]:
    """Results for the current version of the scenario, on any kernel."""
    found = []
    for path in sorted((store.root / scenario.name).glob(f"*.{_FILE}")):
        plain = read_json(path)
        if isinstance(plain, dict) and plain.get("digest") == scenario.digest:
            found.append(from_plain(Sensitivity, plain))
    return found


def _path(store: Store, scenario: str, release: str) -> Path:
    return store.root / scenario / f"{release}.{_FILE}"
