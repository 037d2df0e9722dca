# SPDX-License-Identifier: GPL-2.0-only
"""One scenario on an ordered list of kernels, measured kernel by kernel as they are asked for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from harness.judge.verdict import Verdict
from harness.record.store import KernelFacts
from harness.run.bench import Bench
from harness.run.plan import Request, run_command
from harness.scenario.model import Scenario
from lab.base.errors import BlklabError, LabBroken, Misuse
from lab.kernels.model import Kernel

Resolve = Callable[[str], Kernel]
_OWN = "debian:"


@dataclass(frozen=True)
class KernelPoint:
    """A kernel that was measured. ``made`` counts boots made for it now, ``boots`` those that the verdict rests on.

    ``seconds`` is the host time of the latter, one after another. ``config`` is its configuration, as
    ``lab.kernels.model`` has it.
    """

    spec: str
    kernel: KernelFacts
    verdict: Verdict
    run: str
    boots: int
    made: int
    seconds: float
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Sweep:
    """``points`` and ``missing`` (why) are by the kernel's place in ``specs``. The rest was not asked for."""

    scenario: Scenario
    specs: tuple[str, ...]
    points: Mapping[int, KernelPoint] = field(default_factory=dict)
    missing: Mapping[int, str] = field(default_factory=dict)

    @property
    def exact(self) -> bool:
        """Whether it is measured under the virtual clock."""
        return self.scenario.timing.exact

    @property
    def skipped(self) -> tuple[int, ...]:
        """Places that were not measured although nothing is known to be missing."""
        return tuple(place for place in range(len(self.specs)) if place not in {*self.points, *self.missing})

    @property
    def measured(self) -> tuple[KernelPoint, ...]:
        """In the order of the kernels."""
        return tuple(self.points[place] for place in sorted(self.points))


class Extends(Protocol):
    """What measures one more kernel of a sweep."""

    def extended(self, sweep: Sweep, place: int) -> Sweep: ...


@dataclass(frozen=True)
class Sweeper:
    """What measures a kernel. ``resolve`` raises BlklabError for one that cannot be had."""

    bench: Bench
    resolve: Resolve
    seeds: int | None = None
    arms: tuple[str, ...] = ()

    def extended(self, sweep: Sweep, place: int) -> Sweep:
        """The sweep with the kernel at ``place`` measured, or missing with the reason.

        Raises LabBroken when the results cannot be kept, and Misuse: no other kernel could be measured either.
        """
        spec = sweep.specs[place]
        try:
            point = self._point(sweep.scenario, spec)
        except Misuse:
            raise
        except BlklabError as error:
            if isinstance(error, LabBroken):
                self.bench.store.check()
            return replace(sweep, missing={**sweep.missing, place: error.message})
        if point.verdict.measured:
            return replace(sweep, points={**sweep.points, place: point})
        reasons = dict.fromkeys(reason for cell in point.verdict.incidents for reason in cell.reasons)
        return replace(sweep, missing={**sweep.missing, place: "; ".join(reasons) or "nothing was measured"})

    def _point(self, scenario: Scenario, spec: str) -> KernelPoint:
        kernel = self.resolve(spec)
        command = run_command(scenario.name, spec, self.seeds, self.arms)
        run = self.bench.measure(Request(scenario, kernel, self.seeds, self.arms, command=command))
        folder, boots = run.folder, sum(cell.outcome is not None for cell in run.verdict.cells)
        made = 0 if run.earlier else boots - run.resumed
        seconds = sum(sum(record.wall.values()) for _, record in folder.boots())
        path = f"{folder.path.parent.name}/{folder.path.name}"
        return KernelPoint(spec, folder.facts.kernel, run.verdict, path, boots, made, seconds, kernel.config)


def label(spec: str) -> str:
    """``6.12`` for debian:6.12, the revision of a tree, the last folder of a path."""
    return spec.removeprefix(_OWN).rpartition("@")[2].rpartition("/")[2]


def sweep(scenario: Scenario, specs: Sequence[str]) -> Sweep:
    """Raises Misuse for fewer than two kernels."""
    if len(specs) < 2:  # noqa: PLR2004
        raise Misuse("one kernel has no neighbour", remedy='two or more: --kernels "debian:6.1 .. debian:7.3"')
    return Sweep(scenario, tuple(specs))
