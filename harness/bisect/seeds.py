# SPDX-License-Identifier: GPL-2.0-only
"""A kept find as the question of a bisection: a kernel is bad where its search finds a fault of the same kind."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.bisect.notebook import Answer, ClaimSeen, CommitWord, Observation
from harness.grid.lines import GridRow
from harness.hunt.kept import KeptFind, Tried, odds
from harness.report.format import plural
from harness.scenario.model import Status
from lab.base.errors import CannotJudge
from lab.base.units import Tell

RATIO = "finds per seed"


@dataclass(frozen=True)
class SeedOracle:
    """Searches kernels, which are known by their commits or specs.

    ``attempt`` searches one, ``moved`` in another layout of the same code; it raises CannotJudge for a kernel that
    cannot be built or searched. ``build`` builds one in advance.
    """

    kept: KeptFind
    setting: str
    attempt: Callable[[str, bool], Tried]
    build: Callable[[str], object]
    tell: Tell

    def measure(self, commit: str, *, once: bool = False, moved: bool = False) -> Observation:
        try:
            tried = self.attempt(commit, moved)
        except CannotJudge as error:
            return Observation(commit, self.setting, untestable=error.message)
        for fault in (*filter(None, [tried.fault]), *tried.others):
            self.tell(f"{commit[:12]}: {plural(tried.seeds, 'seed')}: {fault}")
        if tried.others and not tried.fault:
            return Observation(commit, self.setting, untestable=f"another fault: {tried.others[0]}")
        that = f"{plural(self.kept.seeds, 'seed')} of {self.kept.strategy} have no fault of kind {self.kept.kind}"
        status, rate = (Status.FAIL, 1 / tried.seeds) if tried.fault else (Status.PASS, 0.0)
        ratio = f"{RATIO}, in other functions" if tried.elsewhere else RATIO
        return Observation(commit, self.setting, (ClaimSeen(that, ratio, str(status), (rate,)),))

    def prepare(self, commit: str) -> None:
        self.build(commit)

    def observed(self, row: GridRow, place: int) -> tuple[GridRow, Observation]:
        """One of several packaged kernels."""
        return row, self.measure(row.cells[place].kernel.spec)


def summary(kept: KeptFind, answers: Sequence[tuple[Observation, Answer]]) -> str:
    """How many seeds a good side passed, and how probable it is that they miss the fault of the bad end, the first."""
    bad = next(seen for seen, answer in answers if answer.word is CommitWord.BAD)
    after, good = round(1 / bad.claims[0].values[0]), [seen for seen, each in answers if each.word is CommitWord.GOOD]
    elsewhere = any(claim.ratio != RATIO for seen in good for claim in seen.claims)
    passed = f"The bad end fails after {plural(after, 'seed')}; each good side passed {kept.seeds}"
    return f"{passed}: {odds(after, kept.seeds, elsewhere=elsewhere)}."
