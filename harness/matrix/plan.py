# SPDX-License-Identifier: GPL-2.0-only
"""The cells of a matrix and their shards."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from harness.matrix.jobs import boots_of
from harness.record.matrices import MatrixCell, MatrixRecord
from harness.record.store import KernelFacts
from harness.scenario.model import Clock, Scenario
from lab.base.errors import BlklabError, Misuse
from lab.kernels.model import Kernel
from lab.session import Lab

_SHARD = re.compile(r"([1-9]\d{0,3})/([1-9]\d{0,3})")


@dataclass(frozen=True)
class Shard:
    """Part ``number`` (from 1) of ``of`` parts."""

    number: int = 1
    of: int = 1


@dataclass(frozen=True)
class MatrixPlan:
    """The request. ``kernels`` maps each spec to the kernel, or to the reason why there is none."""

    scenarios: tuple[Scenario, ...]
    kernels: Mapping[str, Kernel | BlklabError]
    seeds: int | None = None
    shard: Shard = field(default_factory=Shard)
    at_once: int = 0
    command: tuple[str, ...] = ()


def read_shard(text: str) -> Shard:
    """``2/4``. Raises Misuse."""
    match = _SHARD.fullmatch(text)
    if match is None or int(match[1]) > int(match[2]):
        raise Misuse(f"--shard {text} is no part", remedy="the part and how many parts there are, such as 2/4")
    return Shard(int(match[1]), int(match[2]))


def record_of(plan: MatrixPlan, lab: Lab) -> MatrixRecord:
    """The undecided matrix: scenario by scenario, those of the wall clock last."""
    package = f" ({lab.qemu.package})" if lab.qemu.package else ""
    return MatrixRecord(
        matrix_id="",
        cells=cells_of(plan),
        seeds=plan.seeds,
        shard=plan.shard.number,
        shards=plan.shard.of,
        qemu=f"QEMU {lab.qemu.version_text}{package}",
        command=plan.command,
    )


def cells_of(plan: MatrixPlan) -> tuple[MatrixCell, ...]:
    """The cells of all shards, in boot order."""
    kernels = [_facts(spec, kernel) for spec, kernel in plan.kernels.items()]
    return dealt(
        [
            MatrixCell(scenario.name, scenario.digest, kernel, scenario.clock, boots=boots_of(scenario, plan.seeds))
            for scenario in _in_turn(plan.scenarios)
            for kernel in kernels
        ],
        plan.shard.of,
    )


def _in_turn(scenarios: Iterable[Scenario]) -> list[Scenario]:
    """Sort key: boots of the wall clock run alone and therefore last."""
    return sorted(scenarios, key=lambda scenario: scenario.clock is Clock.WALL)


def dealt(cells: Sequence[MatrixCell], shards: int) -> tuple[MatrixCell, ...]:
    """Assign each cell to the shard with the fewest boots; deterministic on every machine."""
    loads = [0] * shards
    dealt = []
    for cell in cells:
        shard = loads.index(min(loads))
        loads[shard] += max(1, cell.boots)
        dealt.append(replace(cell, shard=shard + 1))
    return tuple(dealt)


def _facts(spec: str, kernel: Kernel | BlklabError) -> KernelFacts:
    if isinstance(kernel, BlklabError):
        return KernelFacts(spec, "", "", "")
    return KernelFacts(kernel.spec, kernel.release, kernel.origin, kernel.digest, kernel.mutant)
