# SPDX-License-Identifier: GPL-2.0-only
"""One scenario on an ordered list of kernels, measured kernel by kernel as they are asked for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from harness.judge.verdict import Verdict
from harness.record.judging import judge_run
from harness.record.store import KernelFacts, Store
from harness.run.boots import Turns
from harness.run.events import Listener, nobody
from harness.run.plan import Request, plan_run
from harness.run.runner import carry_out, lanes_of_host, measured_before
from harness.scenario.model import Scenario
from lab.base.errors import BlklabError, LabBroken, Misuse
from lab.kernels.model import Kernel
from lab.session import Lab

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

    @property
    def label(self) -> str:
        return label(self.spec)


@dataclass(frozen=True)
class Sweep:
    """``points`` and ``missing`` (why) are by the kernel's place in ``specs``. The rest was not asked for."""

    scenario: Scenario
    specs: tuple[str, ...]
    points: Mapping[int, KernelPoint] = field(default_factory=dict)
    missing: Mapping[int, str] = field(default_factory=dict)

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

    lab: Lab
    store: Store
    resolve: Resolve
    seeds: int | None = None
    arms: tuple[str, ...] = ()
    at_once: int = 0
    listener: Listener = nobody

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
                self.store.check()
            return replace(sweep, missing={**sweep.missing, place: error.message})
        if point.verdict.measured:
            return replace(sweep, points={**sweep.points, place: point})
        reasons = dict.fromkeys(reason for cell in point.verdict.incidents for reason in cell.reasons)
        return replace(sweep, missing={**sweep.missing, place: "; ".join(reasons) or "nothing was measured"})

    def _point(self, scenario: Scenario, spec: str) -> KernelPoint:
        kernel = self.resolve(spec)
        seeds = ("--seeds", str(self.seeds)) if self.seeds is not None else ()
        arms = (word for arm in self.arms for word in ("--arm", arm))
        command = ("blklab", "run", scenario.name, "--kernel", spec, *seeds, *arms)
        request = Request(scenario, kernel, self.seeds, self.arms, command=command)
        plan = plan_run(self.lab, request)
        earlier, made = measured_before(plan, self.store), 0
        if earlier is None:
            turns = Turns(lanes_of_host(self.at_once), adopt=True)
            run = carry_out(self.lab, plan, self.store, self.listener, turns)
            earlier = run.folder
            made = _boots(run.verdict) - run.resumed
        records = filter(None, map(earlier.boot, earlier.facts.cells))
        seconds = sum(sum(record.wall.values()) for record in records)
        # An earlier run may have other words for the same claims.
        verdict = judge_run(replace(earlier, scenario=scenario))
        path = f"{earlier.path.parent.name}/{earlier.path.name}"
        return KernelPoint(spec, earlier.facts.kernel, verdict, path, _boots(verdict), made, seconds, kernel.config)


def label(spec: str) -> str:
    """``6.12`` for debian:6.12, the revision of a tree, the last folder of a path."""
    return spec.removeprefix(_OWN).rpartition("@")[2].rpartition("/")[2]


def _boots(verdict: Verdict) -> int:
    return sum(cell.outcome is not None for cell in verdict.cells)


def sweep(scenario: Scenario, specs: Sequence[str]) -> Sweep:
    """Raises Misuse for fewer than two kernels."""
    if len(specs) < 2:  # noqa: PLR2004
        raise Misuse("one kernel has no neighbour", remedy='two or more: --kernels "debian:6.1 .. debian:7.3"')
    return Sweep(scenario, tuple(specs))
