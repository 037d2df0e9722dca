# SPDX-License-Identifier: GPL-2.0-only
"""A matrix as jobs for hosted runners, each a smaller matrix on one kernel. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.scenario.model import Scenario
from lab.base.errors import Misuse

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
    return {
        "include": [
            {
                "name": job.name,
                "kernel": job.kernel,
                "scenarios": " ".join(job.scenarios),
                "boots": job.boots,
                "command": " ".join(job.command),
            }
            for job in jobs
        ]
    }


def boots_of(scenario: Scenario, seeds: int | None) -> int:
    """Boots of a scenario on one kernel if none is skipped."""
    return len(scenario.arms) * (scenario.seeds if seeds is None else seeds)


def _groups(scenarios: Sequence[Scenario], seeds: int | None, count: int) -> list[list[Scenario]]:
    """Groups filled largest first, each into the one with the fewest boots."""
    groups: list[list[Scenario]] = [[] for _ in range(count)]
    boots = [0] * count
    for scenario in sorted(scenarios, key=lambda one: (-boots_of(one, seeds), one.name)):
        least = boots.index(min(boots))
        groups[least].append(scenario)
        boots[least] += boots_of(scenario, seeds)
    return groups


def _job(kernel: str, number: int, group: Sequence[Scenario], seeds: int | None) -> HostedJob:
    names = tuple(sorted(scenario.name for scenario in group))
    command = ("blklab", "matrix", *names, "--kernels", kernel)
    if seeds is not None:
        command = (*command, "--seeds", str(seeds))
    name = "".join(letter if letter.isalnum() or letter in ".-" else "-" for letter in kernel)
    return HostedJob(f"{name}-{number}", kernel, names, sum(boots_of(one, seeds) for one in group), command)
