# SPDX-License-Identifier: GPL-2.0-only
"""The cells of a matrix and their shards."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from harness.record.matrices import MatrixCell, MatrixRecord
from harness.record.store import KernelFacts
from harness.scenario.model import Clock, Scenario
from lab.base.errors import BlklabError, Misuse
from lab.kernels.model import Kernel
from lab.session import Lab


def boots_of(scenario: Scenario, seeds: int | None) -> int:
    """Boots of a scenario on one kernel if none is skipped."""
    return len(scenario.arms) * (scenario.seeds if seeds is None else seeds)


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
    kernels = [
        KernelFacts(spec, "", "", "") if isinstance(kernel, BlklabError) else KernelFacts.of(kernel)
        for spec, kernel in plan.kernels.items()
    ]
    return dealt(
        [
            MatrixCell(scenario.name, scenario.digest, kernel, scenario.clock, boots=boots_of(scenario, plan.seeds))
            for scenario in sorted(plan.scenarios, key=lambda scenario: scenario.clock is Clock.WALL)
            for kernel in kernels
        ],
        plan.shard.of,
    )


def dealt(cells: Sequence[MatrixCell], shards: int) -> tuple[MatrixCell, ...]:
    """Assign each cell to the shard with the fewest boots so far; the same one on every machine."""
    loads, spread = [0] * shards, []
    for cell in cells:
        part = loads.index(min(loads))
        loads[part] += max(1, cell.boots)
        spread.append(replace(cell, shard=part + 1))
    return tuple(spread)
