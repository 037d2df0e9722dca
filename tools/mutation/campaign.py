# SPDX-License-Identifier: GPL-2.0-only
"""Which mutants are tried, and what became of each: a file for each trial, so that an interrupted campaign goes on."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from harness.base.files import read_json, write_json
from harness.base.plain import from_plain, to_plain
from harness.record.store import Store
from harness.scenario.model import Scenario
from lab.base.digest import digest_bytes
from tools.mutation.places import Mutant
from tools.mutation.trial import MutantBench, ReferenceArm, Trial, cheapest_arms, try_mutant

SEED = 402
"""Of the held-out sample. Claims are never written for a mutant of it: the score says what claims and comparisons
detect that nobody looked at. The first seed whose sample has none of the mutants that were tried before it was drawn,
and that scenarios were written for."""
_MOST_SECONDS, _MOST_MEMORY = 280, 1 << 30
_TRIALS, _WORK = "trials", "work"


def cheap(scenario: Scenario) -> bool:
    """Whether mutants are tried in it: all its arms together load for so few seconds of virtual time."""
    seconds = sum(load.runtime + load.ramp + scenario.pause for load in scenario.loads.values()) / 10**9
    memory = max(arm.topology.memory for arm in scenario.arms.values())
    return len(scenario.arms) * seconds <= _MOST_SECONDS and memory <= _MOST_MEMORY


@dataclass(frozen=True)
class MutantCampaign:
    """``root`` is the folder of one kernel's trials; ``most`` arms are tried for each mutant."""

    root: Path
    numbers: Mapping[int, Mutant]
    arms: tuple[ReferenceArm, ...]
    most: int
    seed: int = SEED

    @cached_property
    def reached(self) -> frozenset[int]:
        """The mutants whose places the loads execute."""
        return frozenset[int]().union(*(arm.reached for arm in self.arms)) & self.numbers.keys()

    def sample(self, count: int) -> tuple[int, ...]:
        """``count`` of the reached ones, by the digests of seed and place: a place keeps its rank as arms are added."""
        places = {number: self.numbers[number].place for number in self.reached}
        return tuple(sorted(places, key=lambda number: digest_bytes(f"{self.seed} {places[number]}".encode()))[:count])

    def trial(self, number: int) -> Trial | None:
        """The stored one; None where its arms had other results or claims than now, or its version other fields."""
        try:
            trial = from_plain(Trial, read_json(self._file(number)))
        except ValueError:
            return None
        current = {arm.name: arm.compared for arm in self.arms}
        return trial if trial.arms.items() <= current.items() else None

    def lacks(self, number: int) -> bool:
        """Whether the mutant was not tried, or not in all arms that it is to be tried in."""
        trial = self.trial(number)
        chosen = cheapest_arms(number, self.arms)[: self.most]
        return trial is None or not (trial.ended or all(arm.name in trial.arms for arm in chosen))

    def measure(self, bench: MutantBench, number: int) -> Trial:
        """Continue the trial of a mutant and store it. Its boots are deleted then."""
        place = self.numbers[number].place
        work = self.root / _WORK / digest_bytes(place.encode())[:16]
        trial = try_mutant(
            replace(bench, bench=replace(bench.bench, store=Store(work))),
            number,
            self.trial(number) or Trial(place),
            self.arms,
            self.most,
        )
        write_json(self._file(number), to_plain(trial))
        shutil.rmtree(work, ignore_errors=True)
        return trial

    def measure_all(self, bench: MutantBench, wanted: Sequence[int], tell: Callable[[Trial], None]) -> None:
        """Try those that ``lacks`` names, as many at a time as the lanes admit."""
        (self.root / _TRIALS).mkdir(parents=True, exist_ok=True)
        lanes = (bench.bench.cluster or bench.bench.turns).lanes
        with ThreadPoolExecutor(lanes.at_once, thread_name_prefix="mutant") as pool:
            futures = [pool.submit(self.measure, bench, number) for number in wanted if self.lacks(number)]
            try:
                for future in as_completed(futures):
                    tell(future.result())
            except BaseException:
                bench.bench.stop()
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _file(self, number: int) -> Path:
        return self.root / _TRIALS / f"{digest_bytes(self.numbers[number].place.encode())[:16]}.json"
