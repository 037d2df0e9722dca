# SPDX-License-Identifier: GPL-2.0-only
"""The cells of a matrix and their shards."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from harness.record.matrices import MatrixCell, MatrixRecord
from harness.record.store import KernelFacts
from harness.scenario.model import Clock, Scenario
from lab.base.errors import BlklabError, Misuse
from lab.kernels.model import Kernel
from lab.session import Lab

MOST_JOBS = 256
"""The limit of a matrix of GitHub Actions."""


@dataclass(frozen=True)
class HostedJob:
    """``boots`` is their number; ``name`` is valid as a file name."""

    name: str
    kernel: str
    scenarios: tuple[str, ...]
    boots: int
    command: tuple[str, ...]


def hosted_jobs(
    scenarios: Sequence[Scenario], kernels: Sequence[str], seeds: int | None, per_kernel: int
) -> tuple[HostedJob, ...]:
    """At most ``per_kernel`` jobs with about equal boots for each kernel. Raises Misuse for too many."""
    groups = [group for group in _groups(scenarios, seeds, per_kernel) if group]
    if len(groups) * len(kernels) > MOST_JOBS:
        raise Misuse(f"{len(groups) * len(kernels)} jobs are more than {MOST_JOBS}", remedy="--emit-jobs with fewer")
    return tuple(
        _job(kernel, number, group, seeds) for kernel in kernels for number, group in enumerate(groups, start=1)
    )


def document(jobs: Sequence[HostedJob]) -> dict[str, list[dict[str, str | int]]]:
    """The value of ``strategy.matrix`` in a workflow."""
    words = [{"scenarios": " ".join(job.scenarios), "command": " ".join(job.command)} for job in jobs]
    return {"include": [asdict(job) | text for job, text in zip(jobs, words, strict=True)]}


def boots_of(scenario: Scenario, seeds: int | None) -> int:
    """Boots of a scenario on one kernel if none is skipped."""
    return len(scenario.arms) * (scenario.seeds if seeds is None else seeds)


def _groups(scenarios: Sequence[Scenario], seeds: int | None, count: int) -> list[list[Scenario]]:
    """Groups filled largest first, each into the one with the fewest boots."""
    ordered = sorted(scenarios, key=lambda scenario: (-boots_of(scenario, seeds), scenario.name))
    groups: list[list[Scenario]] = [[] for _ in range(count)]
    boots = [boots_of(scenario, seeds) for scenario in ordered]
    for scenario, part in zip(ordered, _spread(boots, count), strict=True):
        groups[part].append(scenario)
    return groups


def _spread(boots: Sequence[int], parts: int) -> list[int]:
    """The part of each, from 0: the one with the fewest boots so far; deterministic on every machine."""
    loads, chosen = [0] * parts, []
    for count in boots:
        chosen.append(loads.index(min(loads)))
        loads[chosen[-1]] += count
    return chosen


def _job(kernel: str, number: int, group: Sequence[Scenario], seeds: int | None) -> HostedJob:
    names = tuple(sorted(scenario.name for scenario in group))
    command = ("blklab", "matrix", *names, "--kernels", kernel)
    if seeds is not None:
        command = (*command, "--seeds", str(seeds))
    name = "".join(letter if letter.isalnum() or letter in ".-" else "-" for letter in kernel)
    return HostedJob(f"{name}-{number}", kernel, names, sum(boots_of(scenario, seeds) for scenario in group), command)


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
    """Assign each cell to the shard with the fewest boots."""
    spread = _spread([max(1, cell.boots) for cell in cells], shards)
    return tuple(replace(cell, shard=part + 1) for cell, part in zip(cells, spread, strict=True))
