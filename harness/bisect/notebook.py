# SPDX-License-Identifier: GPL-2.0-only
"""The measurements of a bisection, on disk before the next commit is chosen, and the claims that tell good from bad.

A commit is measured by building its kernel and running the scenario on it, or the search of a kept find: then a kernel
is bad where that finds a fault of the same kind.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache, cached_property
from pathlib import Path
from typing import Protocol

from harness.base.files import read_json, write_json
from harness.base.plain import from_plain, to_plain
from harness.bisect.repository import Repository
from harness.grid.lines import GridRow
from harness.hunt.finds import KeptFind, try_find
from harness.judge.claims import ClaimVerdict
from harness.report.format import figure, plural
from harness.run.bench import Bench
from harness.run.plan import Request
from harness.scenario.load import in_another_layout
from harness.scenario.model import Scenario, Status
from lab.base.digest import canonical, digest_bytes, digest_folder
from lab.base.errors import CannotJudge, LabBroken
from lab.base.units import Tell
from lab.kernels import build, kconfig, tree
from lab.kernels.model import Kernel
from lab.session import Lab

SCHEMA = 1
STATE = "bisect.json"


class CommitWord(StrEnum):
    """The answer for a commit, in git bisect's words."""

    GOOD = "good"
    BAD = "bad"
    SKIP = "skip"


@dataclass(frozen=True)
class ClaimSeen:
    """A claim on one commit: its status and the ratio under each seed (empty without one)."""

    that: str
    ratio: str
    status: Status
    values: tuple[float, ...] = ()

    @property
    def range(self) -> str:
        """The smallest and the largest ratio, or the only one."""
        if not self.values:
            return "(not measured)"
        low, high = figure(min(self.values)), figure(max(self.values))
        return low if low == high else f"{low} .. {high}"


@dataclass(frozen=True)
class Observation:
    """The measurements of a commit. ``untestable``: why there are none (does not build, does not boot).

    ``setting`` digests everything but the kernel that the figures depend on; ``run`` names the run folder.
    """

    commit: str
    setting: str
    claims: tuple[ClaimSeen, ...] = ()
    untestable: str = ""
    run: str = ""


@dataclass(frozen=True)
class State:
    """``observations`` by commit. ``good`` and ``bad`` are commits, ``tree`` the user's repository."""

    scenario: str
    tree: str
    good: str
    bad: str
    observations: Mapping[str, Observation] = field(default_factory=dict)
    schema: int = SCHEMA


def load_state(folder: Path, wanted: State) -> State:
    """The state in ``folder`` if it belongs to the same bisection, else ``wanted``. Raises LabBroken if damaged."""
    plain = read_json(folder / STATE)
    if plain is None:
        return wanted
    try:
        stored = from_plain(State, plain)
    except ValueError as error:
        raise LabBroken(f"{folder / STATE} is damaged: {error}", remedy="remove the folder and start again") from error
    return stored if replace(stored, observations={}) == wanted else wanted


class Oracle(Protocol):
    """Measures commits."""

    @property
    def setting(self) -> str:
        """The digest of everything but the kernel that the figures depend on."""

    def measure(self, commit: str, *, once: bool = False, moved: bool = False) -> Observation:
        """Measure all claims, or ``once`` a single ratio. ``moved``: in another layout of the same code.

        Raises LabBroken if no commit can be measured.
        """

    def kernel(self, commit: str) -> object:
        """Build the commit, possibly in another thread. Raises CannotJudge if it does not build."""


class Notebook:
    """The observations of one bisection, kept in ``folder``. Those of another setting are ignored."""

    def __init__(self, folder: Path, wanted: State, oracle: Oracle, tell: Tell) -> None:
        self._folder, self._oracle, self._tell = folder, oracle, tell
        self._state = load_state(folder, wanted)

    def known(self, commit: str) -> Observation | None:
        seen = self._state.observations.get(commit)
        return seen if seen is not None and seen.setting == self._oracle.setting else None

    def observe(self, commit: str, why: str, *, moved: bool = False) -> Observation:
        """The stored observation, else a new one; one that is ``moved`` is stored as ``COMMIT moved``."""
        key = f"{commit} moved" if moved else commit
        seen = self.known(key)
        if seen is not None:
            self._tell(f"{commit[:12]}: as measured before ({why})")
            return seen
        self._tell(f"{commit[:12]}: measuring ({why})")
        return self._keep(replace(self._oracle.measure(commit, moved=moved), commit=key))

    def once_more(self, commit: str) -> Observation:
        """The observation with one more ratio; unchanged if the commit cannot be measured any more."""
        seen, before = self._oracle.measure(commit, once=True), self.known(commit)
        if before is None:
            return self._keep(seen)
        return before if seen.untestable else self._keep(_pooled(before, seen))

    def _keep(self, seen: Observation) -> Observation:
        self._state = replace(self._state, observations={**self._state.observations, seen.commit: seen})
        write_json(self._folder / STATE, to_plain(self._state))
        return seen


def _pooled(before: Observation, since: Observation) -> Observation:
    earlier = {claim.that: claim for claim in before.claims}
    claims = tuple(_joined(earlier.get(claim.that), claim) for claim in since.claims)
    return replace(since, claims=claims)


def _joined(before: ClaimSeen | None, since: ClaimSeen) -> ClaimSeen:
    if before is None:
        return since
    status = since.status if since.status == before.status else Status.DONE
    return replace(since, status=status, values=(*before.values, *since.values))


@dataclass(frozen=True)
class Answer:
    """``reason``: why a commit is skipped."""

    word: CommitWord
    reason: str = ""


@dataclass(frozen=True)
class Question:
    """The claims that separate the good end from the bad end."""

    claims: tuple[str, ...]

    @classmethod
    def between(cls, good: Observation, bad: Observation) -> "Question":
        """The claims that hold on the good end and fail on the bad one, with ranges that do not overlap.

        Raises CannotJudge, saying what is wrong with the ends.
        """
        told, before, since = _told(good, bad), _by_name(good), _by_name(bad)
        apart = tuple(that for that in told if _apart(before[that], since[that]))
        if not apart:
            raise CannotJudge(
                f"the ranges of the ends overlap: {_shown(told[0], good, bad)}", remedy="use more seeds: SEEDS=8"
            )
        return cls(apart)

    @classmethod
    def scattered(cls, good: Observation, bad: Observation) -> "Question":
        """Of the claims that hold on the good end and fail on the bad one, the one with the largest distance.

        Raises CannotJudge, saying what is wrong with the ends.
        """
        before, since = _by_name(good), _by_name(bad)
        told = max(_told(good, bad), key=lambda that: _distance(before[that].values, since[that].values))
        return cls((told,))

    def answer(self, seen: Observation) -> Answer:
        if seen.untestable:
            return Answer(CommitWord.SKIP, seen.untestable)
        claims = [claim for claim in seen.claims if claim.that in self.claims]
        without = [claim for claim in claims if not claim.values]
        if without:
            # A crash is not the regression that is searched.
            return Answer(CommitWord.SKIP, f"{without[0].status}: not measured: {without[0].that}")
        statuses = {claim.status for claim in claims}
        if statuses == {Status.PASS}:
            return Answer(CommitWord.GOOD)
        if statuses == {Status.FAIL}:
            return Answer(CommitWord.BAD)
        listing = "; ".join(f"{claim.status} {claim.that}" for claim in claims)
        return Answer(CommitWord.SKIP, f"some claims are good and some bad: {listing}")

    def ratios(self, seen: Observation) -> list[ClaimSeen]:
        return [claim for claim in seen.claims if claim.that in self.claims and claim.values]


def _told(good: Observation, bad: Observation) -> tuple[str, ...]:
    """Claims that hold on the good end and fail on the bad one. Raises CannotJudge when there is none."""
    for name, end in (("good", good), ("bad", bad)):
        if end.untestable:
            raise CannotJudge(f"the {name} end {end.commit[:12]} cannot be tested: {end.untestable}")
    before, since = _by_name(good), _by_name(bad)
    told = tuple(that for that in before if (before[that].status, since[that].status) == (Status.PASS, Status.FAIL))
    if told:
        return told
    turned = [that for that in before if (before[that].status, since[that].status) == (Status.FAIL, Status.PASS)]
    if turned:
        raise CannotJudge(
            f"the good end fails and the bad one passes: {_shown(turned[0], good, bad)}",
            remedy="exchange GOOD and BAD to find the commit that fixed it",
        )
    listing = "; ".join(_shown(that, good, bad) for that in before)
    raise CannotJudge(f"no claim holds on the good end and fails on the bad one: {listing}")


def _distance(first: Sequence[float], second: Sequence[float]) -> float:
    """Distance of the means in standard deviations; -1 without values."""
    if not first or not second:
        return -1
    means = statistics.fmean(first), statistics.fmean(second)
    deviation = math.hypot(statistics.pstdev(first), statistics.pstdev(second))
    return abs(means[0] - means[1]) / deviation if deviation else math.inf


def _by_name(seen: Observation) -> dict[str, ClaimSeen]:
    return {claim.that: claim for claim in seen.claims}


def _apart(first: ClaimSeen, second: ClaimSeen) -> bool:
    if not first.values or not second.values:
        return False
    return max(first.values) < min(second.values) or max(second.values) < min(first.values)


def _shown(that: str, good: Observation, bad: Observation) -> str:
    before, since = _by_name(good)[that], _by_name(bad)[that]
    return f'"{that}": good {before.status} {before.range}, bad {since.status} {since.range}'


_MAKES_BOOTS = Path(build.__file__).parents[1]
"""The package whose files may change what a guest does."""


def setting_of(lab: Lab, scenario: Scenario, seeds: int | None, arms: Sequence[str] = ()) -> str:
    """The digest of everything but the kernel that the figures of a scenario depend on."""
    qemus = [lab.qemu.version_text, lab.qemu.package, lab.qemu.digest, lab.steady.digest]
    own = [scenario.digest, seeds, list(arms), kconfig.own_configuration()]
    return digest_bytes(canonical([own, qemus, _made_by(), lab.payload.digest, build.toolchain().identity]))


@cache
def _made_by() -> tuple[str, list[str]]:
    return digest_folder(_MAKES_BOOTS), [path.read_text() for path in kconfig.fragments()]


@dataclass
class KernelOracle:
    """Measures commits of the ``repository``. No ``arms``: all; ``seeds`` None: those of the scenario."""

    bench: Bench
    repository: Repository
    scenario: Scenario
    tell: Tell
    seeds: int | None = None
    arms: tuple[str, ...] = ()
    # A finished build does not wait for speculative ones.
    _built: dict[str, Kernel | CannotJudge] = field(default_factory=dict)

    @cached_property
    def setting(self) -> str:
        return setting_of(self.bench.lab, self.scenario, self.seeds, self.arms)

    def kernel(self, commit: str) -> Kernel:
        """Raises CannotJudge if the commit does not build."""
        kernel = self._built.get(commit)
        if kernel is None:
            kernel = self._built[commit] = self._build(commit)
        if isinstance(kernel, CannotJudge):
            raise kernel
        return kernel

    def _build(self, commit: str) -> Kernel | CannotJudge:
        try:
            return tree.built(self.repository.kernel_source(commit), self.bench.lab.cache, tell=self.tell)
        except CannotJudge as error:
            return error

    def measure(self, commit: str, *, once: bool = False, moved: bool = False) -> Observation:
        try:
            kernel = self.kernel(commit)
        except CannotJudge as error:
            said = error.message.removeprefix(f"{self.repository.kernel_source(commit).title} ")
            return Observation(commit, self.setting, untestable=said)
        scenario = in_another_layout(self.scenario) if moved else self.scenario
        run = self.bench.run(Request(scenario, kernel, 1 if once else self.seeds, self.arms))
        run.demand_lab()
        claims = tuple(claim_seen(claim) for claim in run.verdict.claims)
        reasons = {reason for cell in run.verdict.cells if cell.status is not Status.PASS for reason in cell.reasons}
        untestable = "" if any(claim.values for claim in claims) else "; ".join(sorted(reasons))
        return Observation(commit, self.setting, claims, untestable, run.path)

    def drift(self, good: str, bad: str) -> str:
        """The differing options of two commits, in words."""
        first, second = self.kernel(good), self.kernel(bad)
        return kconfig.describe_drift(kconfig.drift(first.config, second.config), good[:12], bad[:12]).rstrip()


def claim_seen(claim: ClaimVerdict) -> ClaimSeen:
    """The part of a claim's verdict that a bisection keeps."""
    ensemble = claim.judgement.ensemble
    values = () if ensemble is None else tuple(value for _, value in sorted(ensemble.values.items()))
    return ClaimSeen(claim.that, claim.ratio, claim.judgement.status, values)


RATIO = "finds per seed"


@dataclass(frozen=True)
class SeedOracle:
    """Searches kernels, which are known by their commits or specs, for the fault of ``kept``.

    ``kernel`` raises CannotJudge for one that cannot be built.
    """

    kept: KeptFind
    setting: str
    bench: Bench
    kernel: Callable[[str], Kernel]
    tell: Tell

    def measure(self, commit: str, *, once: bool = False, moved: bool = False) -> Observation:
        scenario = in_another_layout(self.kept.planned) if moved else self.kept.planned
        try:
            tried = try_find(self.bench, self.kernel(commit), self.kept, scenario, self.tell)
        except CannotJudge as error:
            return Observation(commit, self.setting, untestable=error.message)
        for fault in (*filter(None, [tried.fault]), *tried.others):
            self.tell(f"{commit[:12]}: {plural(tried.seeds, 'seed')}: {fault}")
        if tried.others and not tried.fault:
            return Observation(commit, self.setting, untestable=f"another fault: {tried.others[0]}")
        that = f"{plural(self.kept.seeds, 'seed')} of {self.kept.strategy} have no fault of kind {self.kept.kind}"
        status, rate = (Status.FAIL, 1 / tried.seeds) if tried.fault else (Status.PASS, 0.0)
        ratio = f"{RATIO}, in other functions" if tried.elsewhere else RATIO
        return Observation(commit, self.setting, (ClaimSeen(that, ratio, status, (rate,)),))

    def observed(self, row: GridRow, place: int) -> tuple[GridRow, Observation]:
        """One of several packaged kernels."""
        return row, self.measure(row.cells[place].kernel.spec)
