# SPDX-License-Identifier: GPL-2.0-only
"""Which mutants are tried, and what became of each: kept by file, so that an interrupted campaign goes on."""

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from harness.base.files import read_json, write_json
from harness.base.plain import from_plain, to_plain
from harness.record.store import Store
from harness.run.lanes import Lanes
from harness.studies.mutation.places import Mutant
from harness.studies.mutation.trial import Fate, MutantBench, ReferenceArm, Trial, in_turn, try_mutant
from lab.base.digest import digest_bytes

TRIALS, WORK = "trials", "work"
Tried = Callable[[int, Trial], None]
"""Hears the number of a mutant and its fate."""


@dataclass(frozen=True)
class MutantCampaign:
    """``root`` is the folder of one kernel's trials; ``most`` arms are tried for each mutant.

    ``claims`` (SCENARIO: WORDS) were made for mutants, by their places: their arms are tried first.
    """

    root: Path
    numbers: Mapping[int, Mutant]
    arms: tuple[ReferenceArm, ...]
    most: int
    claims: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def reached(self) -> Mapping[int, int]:
        """The mutants whose places the loads execute, and in how many arms."""
        return Counter(number for one in self.arms for number in one.reached & self.numbers.keys())

    def sample(self, count: int) -> tuple[int, ...]:
        """``count`` of them, the same each time, in turn of every file and operator."""
        return sample({number: self.numbers[number] for number in self.reached}, count)

    def wanted(self, count: int) -> tuple[int, ...]:
        """Those that were tried before, and as many of the sample as ``count`` lacks: it is another with more arms."""
        stored = [number for number in sorted(self.reached) if self._file(number).exists()]
        return tuple(dict.fromkeys((*stored, *self.sample(count))))[: max(count, len(stored))]

    def part(self, wanted: Sequence[int], number: int, of: int) -> tuple[int, ...]:
        """Part ``number`` (from 1) of ``of``: each mutant is in one of them, whatever else is wanted."""
        digests = ((one, digest_bytes(self.numbers[one].place.encode())) for one in wanted)
        return tuple(one for one, digest in digests if int(digest[-8:], 16) % of == number - 1)

    @cached_property
    def _compared(self) -> Mapping[str, str]:
        return {one.name: one.compared for one in self.arms}

    def trial(self, number: int) -> Trial | None:
        """None also for one that was compared with other results than those of now, judged by other claims, or stored
        by a version with other fields.
        """
        try:
            trial = from_plain(Trial, read_json(self._file(number)))
        except ValueError:
            return None
        parts = 1 if trial.fate in (Fate.EQUIVALENT, Fate.DIED) else 2
        pairs = ((compared, self._compared.get(name, compared)) for name, compared in trial.arms.items())
        return trial if all(then.split()[:parts] == now.split()[:parts] for then, now in pairs) else None

    def lacks(self, number: int) -> bool:
        """Whether the mutant was not tried, or further arms may detect it."""
        trial = self.trial(number)
        if trial is None or trial.detected:
            return trial is None
        return trial.lacks_figures or any(
            one.name not in trial.arms for one in in_turn(number, self.arms, self.claim(number))[: self.most]
        )

    def measure(self, bench: MutantBench, number: int) -> Trial:
        """The fate of a mutant, stored. Its boots are deleted then. A trial in fewer arms is continued."""
        place = self.numbers[number].place
        work = self.root / WORK / digest_bytes(place.encode())[:16]
        before = self.trial(number)
        begun = before if before and not before.lacks_figures else Trial(place, Fate.EQUIVALENT, self.most)
        trial = try_mutant(
            bench, Store(work), number, replace(begun, most=self.most), self.arms, claim=self.claim(number)
        )
        write_json(self._file(number), to_plain(trial))
        shutil.rmtree(work, ignore_errors=True)
        return trial

    def claim(self, number: int) -> str:
        return self.claims.get(self.numbers[number].place, "")

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
    """Try those that ``lacks`` names, as many at a time as the lanes admit. Those without a trial come first,
    then those that a claim was made for.
    """
    (campaign.root / TRIALS).mkdir(parents=True, exist_ok=True)
    lacking = (number for number in wanted if campaign.lacks(number))
    waiting = sorted(lacking, key=lambda number: (campaign.trial(number) is not None, not campaign.claim(number)))
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
