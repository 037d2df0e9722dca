# SPDX-License-Identifier: GPL-2.0-only
"""A small scenario for each pair of features.

``pairs`` maps each pair of features to the scenario that has both, or to the mistakes for which the loader refuses all
that were tried. ``rows`` merges accepted pairs into few scenarios, which together have every accepted pair.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.run.plan import guest_job
from harness.scenario.load import read_scenario
from harness.scenario.model import Arm, Scenario
from lab.base.errors import InputErrors
from lab.session import Job
from lab.topology.model import Driver
from tests.features import DEVICE, STACK, Feature, draft_of, features, first_member, load_of, members_of, role_of


def scenario_of(chosen: Iterable[Feature], folder: Path) -> Scenario:
    """Load the scenario with these features. Raises InputErrors."""
    having = {feature.axis: feature for feature in chosen}
    draft = draft_of(having["driver"].name, having["stack"].name if "stack" in having else "crypt")
    for feature in features():
        if feature in having.values():
            feature.apply(draft)
    stacks = draft["topology"]["stacks"]
    device = next((name for name in ("image", "f", STACK) if name in stacks), first_member(members_of(draft)))
    if not stacks:
        del draft["topology"]["stacks"]
    if "cpus" in draft["topology"].get("machine", {}):
        for role in (role_of(draft), *load_of(draft).get("prepare", ()), *load_of(draft).get("warm", ())):
            role["cpus"] = 0
    (folder / "pairs.yaml").write_text(json.dumps(draft).replace(f'"{DEVICE}"', f'"{device}"'))
    return read_scenario("pairs", search=folder)


@dataclass(frozen=True)
class Pair:
    """``chosen``: the features, and those that they need. ``refusal``: the loader's of the first that it tried."""

    chosen: tuple[Feature, ...]
    scenario: Scenario | None
    refusal: str = ""

    @property
    def arm(self) -> Arm:
        assert self.scenario is not None
        (arm,) = self.scenario.arms.values()
        return arm

    @property
    def job(self) -> Job:
        assert self.scenario is not None
        return guest_job(self.scenario, self.arm, 1)

    def __str__(self) -> str:
        return ", ".join(map(str, self.chosen))


_USUAL_DRIVERS = (Driver.NULL_BLK, Driver.TCMU, Driver.TCM_LOOP, Driver.NVMET_TCP, Driver.NVME, Driver.VIRTIO_SCSI)


def _completions(pair: tuple[Feature, ...]) -> Iterator[tuple[Feature, ...]]:
    """The pair with a driver and what its features need, likeliest first."""
    by_name = {(feature.axis, feature.name): feature for feature in features()}
    axes = {feature.axis for feature in pair}
    drivers = [] if "driver" in axes else [by_name["driver", name] for name in _USUAL_DRIVERS]
    alternatives: list[list[Feature]] = [drivers] if drivers else []
    for axis in ("stack", "filesystem"):
        needs = [name for feature in pair for name in feature.needs if (axis, name) in by_name]
        if needs and axis not in axes:
            alternatives.append([by_name[axis, name] for name in dict.fromkeys(needs)])
    for more in product(*reversed(alternatives)):
        yield (*pair, *more)


@cache
def pairs(axis: str) -> Mapping[tuple[Feature, Feature], Pair]:
    """Every pair of a feature of this axis and one of a later axis; those of all axes are every pair."""
    made = {}
    with TemporaryDirectory(prefix="blklab-pairs-") as folder:
        for pair in combinations(features(), 2):
            if pair[0].axis == axis != pair[1].axis:
                made[pair] = _complete(pair, Path(folder))
    return made


def _complete(pair: tuple[Feature, ...], folder: Path) -> Pair:
    refusal = ""
    for chosen in _completions(pair):
        try:
            return Pair(chosen, scenario_of(chosen, folder))
        except InputErrors as error:
            refusal = refusal or str(error)
    return Pair(pair, None, refusal)


def rows(lacking: Callable[[Pair], bool]) -> Iterator[Pair]:
    """Few scenarios that have every accepted pair of the features that are not ``lacking`` alone.

    Each begins with a pair that no row had, and takes every further feature with which the loader accepts it.
    """
    every = [item for axis in dict.fromkeys(feature.axis for feature in features()) for item in pairs(axis).items()]
    accepted = {frozenset(pair): made for pair, made in every if made.scenario is not None}
    with TemporaryDirectory(prefix="blklab-pairs-") as name:
        folder = Path(name)
        alone = (_complete((feature,), folder) for feature in features())
        missing = {made.chosen[0] for made in alone if made.scenario is None or lacking(made)}
        waiting = {pair for pair in accepted if not pair & missing}
        for pair in [pair for pair in accepted if pair in waiting]:
            if pair in waiting:
                row = _grown(accepted[pair], waiting, folder)
                waiting -= set(map(frozenset, combinations(row.chosen, 2)))
                yield row


def _grown(row: Pair, waiting: Collection[frozenset[Feature]], folder: Path) -> Pair:
    for feature in features():
        if feature.needs and not {other.name for other in row.chosen} & {*feature.needs}:
            continue
        new = {frozenset((feature, other)) for other in row.chosen}
        if feature.axis not in {other.axis for other in row.chosen} and not new.isdisjoint(waiting):
            with suppress(InputErrors):
                chosen = (*row.chosen, feature)
                row = Pair(chosen, scenario_of(chosen, folder))
    return row
