# SPDX-License-Identifier: GPL-2.0-only
"""The measurements of a bisection, on disk before the next commit is chosen: none is lost when it is killed."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from harness.base.files import read_json, write_json
from harness.base.plain import from_plain, to_plain
from harness.scenario.model import Status
from lab.base.errors import LabBroken
from lab.base.units import Tell

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
    status: str
    values: tuple[float, ...] = ()


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

    def with_observation(self, seen: Observation) -> "State":
        return replace(self, observations={**self.observations, seen.commit: seen})


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


def save_state(folder: Path, state: State) -> None:
    write_json(folder / STATE, to_plain(state))


class Oracle(Protocol):
    """Measures commits. ``setting`` is the digest of everything but the kernel that the figures depend on."""

    setting: str

    def measure(self, commit: str, *, once: bool = False) -> Observation:
        """Measure all claims, or ``once`` a single ratio. Raises LabBroken if no commit can be measured."""

    def prepare(self, commit: str) -> None:
        """Build the commit, possibly in another thread. ``measure`` reports errors."""


class Notebook:
    """The observations of one bisection, kept in ``folder``. Those of another setting are ignored."""

    def __init__(self, folder: Path, wanted: State, oracle: Oracle, tell: Tell) -> None:
        self._folder, self._oracle, self._tell = folder, oracle, tell
        self._state = load_state(folder, wanted)

    def known(self, commit: str) -> Observation | None:
        seen = self._state.observations.get(commit)
        return seen if seen is not None and seen.setting == self._oracle.setting else None

    def measured(self, commit: str, why: str) -> Observation:
        """The stored observation, else a new one."""
        seen = self.known(commit)
        if seen is not None:
            self._tell(f"{commit[:12]}: as measured before ({why})")
            return seen
        self._tell(f"{commit[:12]}: measuring ({why})")
        return self._keep(self._oracle.measure(commit))

    def once_more(self, commit: str) -> Observation:
        """The observation with one more ratio; unchanged if the commit cannot be measured any more."""
        seen, before = self._oracle.measure(commit, once=True), self.known(commit)
        if before is None:
            return self._keep(seen)
        return before if seen.untestable else self._keep(_pooled(before, seen))

    def _keep(self, seen: Observation) -> Observation:
        self._state = self._state.with_observation(seen)
        save_state(self._folder, self._state)
        return seen


def _pooled(before: Observation, since: Observation) -> Observation:
    earlier = {claim.that: claim for claim in before.claims}
    claims = tuple(_joined(earlier.get(claim.that), claim) for claim in since.claims)
    return replace(since, claims=claims)


def _joined(before: ClaimSeen | None, since: ClaimSeen) -> ClaimSeen:
    if before is None:
        return since
    status = since.status if since.status == before.status else str(Status.DONE)
    return replace(since, status=status, values=(*before.values, *since.values))
