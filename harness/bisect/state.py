# SPDX-License-Identifier: GPL-2.0-only
"""The state of a bisection on disk: no measurement is lost when it is killed."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from harness.base.files import read_json, write_json
from harness.base.plain import from_plain, to_plain
from lab.base.errors import LabBroken

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
