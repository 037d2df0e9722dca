# SPDX-License-Identifier: GPL-2.0-only
"""Which mutants are tried, and what became of each: kept by file, so that an interrupted campaign goes on."""

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from harness.base.files import read_json, write_json
from harness.base.plain import from_plain, to_plain
from harness.record.store import Store
from harness.run.lanes import Lanes
from harness.studies.mutation.places import Mutant
from harness.studies.mutation.trial import Fate, MutantBench, ReferenceArm, Trial, try_mutant
from lab.base.digest import digest_bytes

TRIALS, WORK = "trials", "work"
Tried = Callable[[int, Trial], None]
"""Hears the number of a mutant and its fate."""


@dataclass(frozen=True)
class MutantCampaign:
    """``root`` is the folder of one kernel's trials; ``most`` arms are tried for each mutant."""

    root: Path
    numbers: Mapping[int, Mutant]
    arms: tuple[ReferenceArm, ...]
    most: int

    @property
    def reached(self) -> frozenset[int]:
        """The mutants whose places the loads execute."""
        return frozenset[int]().union(*(one.reached for one in self.arms)) & self.numbers.keys()

    def sample(self, count: int) -> tuple[int, ...]:
        """``count`` of them, the same each time, in turn of every file and operator."""
        return sample({number: self.numbers[number] for number in self.reached}, count)

    def trial(self, number: int) -> Trial | None:
        plain = read_json(self._file(number))
        return None if plain is None else from_plain(Trial, plain)

    def lacks(self, trial: Trial | None) -> bool:
        """Whether more arms or other claims may detect the mutant. No claim can tell an equivalent one."""
        if trial is None or trial.detected:
            return trial is None
        now = {one.scenario.name: one.scenario.digest for one in self.arms}
        reworked = trial.fate is Fate.SURVIVED and any(
            trial.judged.get(name) != now.get(name) for name in {arm.partition(".")[0] for arm in trial.arms}
        )
        return reworked or trial.most < self.most

    def measure(self, bench: MutantBench, number: int) -> Trial:
        """The fate of a mutant, stored. Its boots are deleted then."""
        place = self.numbers[number].place
        work = self.root / WORK / digest_bytes(place.encode())[:16]
        trial = try_mutant(bench, Store(work), number, place, self.arms, most=self.most)
        write_json(self._file(number), to_plain(trial))
        shutil.rmtree(work, ignore_errors=True)
        return trial

    def _file(self, number: int) -> Path:
        return self.root / TRIALS / f"{digest_bytes(self.numbers[number].place.encode())[:16]}.json"


def sample(numbers: Mapping[int, Mutant], count: int) -> tuple[int, ...]:
    """``count`` mutants: one of each file and operator in turn, chosen and ordered by digests of the places."""
    ordered = sorted(numbers, key=lambda one: digest_bytes(numbers[one].place.encode()))
    seen = Counter[tuple[str, str]]()
    turns: dict[int, int] = {}
    for number in ordered:
        group = (numbers[number].file, numbers[number].operator)
        turns[number] = seen[group]
        seen[group] += 1
    return tuple(sorted(ordered, key=lambda one: turns[one])[:count])


def measure_all(
    campaign: MutantCampaign, bench: MutantBench, wanted: Sequence[int], tried: Tried, lanes: Lanes
) -> None:
    """Try those that ``lacks`` names, as many at a time as the lanes admit."""
    (campaign.root / TRIALS).mkdir(parents=True, exist_ok=True)
    waiting = [number for number in wanted if campaign.lacks(campaign.trial(number))]
    with ThreadPoolExecutor(lanes.at_once, thread_name_prefix="mutant") as pool:
        futures = {pool.submit(campaign.measure, bench, number): number for number in waiting}
        try:
            for future in as_completed(futures):
                tried(futures[future], future.result())
        except BaseException:
            lanes.stop()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def trials(campaign: MutantCampaign, wanted: Sequence[int]) -> Iterator[tuple[Mutant, Trial]]:
    """Those that were tried."""
    for number in wanted:
        if (trial := campaign.trial(number)) is not None:
            yield campaign.numbers[number], trial
