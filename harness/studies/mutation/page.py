# SPDX-License-Identifier: GPL-2.0-only
"""The mutation score: how many generated mutants ``compare`` and the claims detect, and the table of all."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from harness.report import markdown
from harness.report.format import plural
from harness.studies.mutation.places import Mutant
from harness.studies.mutation.trial import Trial

_PREFACE = """\
Each mutant is one small change to the C code of a built kernel: a relation, an arithmetic operator, a constant, an
inverted condition or a removed statement. It is tried in at most {most} of the arms whose loads execute its place, the
cheapest first, one seed. An arm whose results differ is measured with the arms that its claims compare.

- **compare**: `blklab compare` marks a figure, as one that moves further than between any two boots of a null pair
  ([thresholds.md](thresholds.md))
- **claim**: a claim of a scenario fails
- **survived**: results differ, and neither detects it
- **died**: a boot ends in an oops, a hang, an error of fio or a warning of the kernel; no detection of either kind
- **equivalent**: all results are the same bytes as without a mutant

A score is the detected share of those that are neither equivalent nor died. The sample is held out: it is drawn from
all mutants that loads execute by a fixed seed ({seed}), and no scenario or claim is written for a mutant of it.
"""
_COLUMNS = ("mutants", "executed", "tried", "compare", "claim", "survived", "died", "equivalent")


class Fate(StrEnum):
    DETECTED = "detected"
    SURVIVED = "survived"
    DIED = "died"
    EQUIVALENT = "equivalent"


def fate(trial: Trial) -> Fate:
    if trial.died:
        return Fate.DIED
    if trial.marked or trial.claim:
        return Fate.DETECTED
    return Fate.SURVIVED if trial.differs else Fate.EQUIVALENT


@dataclass(frozen=True)
class MutantScore:
    """``reached`` are the mutants whose places loads execute. ``scenarios`` is how many loads are of."""

    mutants: Sequence[Mutant]
    reached: Sequence[Mutant]
    tried: Sequence[tuple[Mutant, Trial]]
    seed: int
    most: int

    def lines(self) -> Iterator[str]:
        """The score and what it was made of."""
        trials = [trial for _, trial in self.tried]
        fates = Counter(map(fate, trials))
        alive = [trial for trial in trials if fate(trial) in (Fate.DETECTED, Fate.SURVIVED)]
        marked, claimed = (sum(bool(getattr(trial, name)) for trial in alive) for name in ("marked", "claim"))
        yield (
            f"{len(self.mutants)} mutants, {len(self.reached)} of them in places that loads execute, {len(trials)} of"
            f" these tried: {fates[Fate.DIED]} died, {fates[Fate.EQUIVALENT]} equivalent, {len(alive)} others"
        )
        yield f"compare marks {_share(marked, len(alive))}, claims detect {_share(claimed, len(alive))}"
        boots = sum(len(trial.arms) for trial in trials)
        yield f"{plural(boots, 'boot')}, {sum(trial.seconds for trial in trials) / 60:.0f} minutes"


def mutants_page(score: MutantScore, made_of: str, command: str) -> str:
    """The page in Markdown; ``command`` generates it."""
    files = Counter(mutant.file for mutant in score.mutants)
    reached = Counter(mutant.file for mutant in score.reached)
    rows = []
    for file, count in files.items():
        trials = [trial for mutant, trial in score.tried if mutant.file == file]
        fates = Counter(map(fate, trials))
        alive = [trial for trial in trials if not trial.died]
        detected = (sum(bool(trial.marked) for trial in alive), sum(bool(trial.claim) for trial in alive))
        others = (fates[Fate.SURVIVED], fates[Fate.DIED], fates[Fate.EQUIVALENT])
        rows.append((file, *map(str, (count, reached[file], len(trials), *detected, *others))))
    lines = [
        *markdown.head("Mutation score", f"Generated from results by: {command}"),
        _PREFACE.format(seed=score.seed, most=score.most),
        *(f"- {line}" for line in score.lines()),
        "",
        *markdown.section("By file", markdown.table(("", *_COLUMNS), rows, numbers=len(_COLUMNS))),
        made_of,
    ]
    return "\n".join(lines) + "\n"


def trials_table(tried: Sequence[tuple[Mutant, Trial]]) -> str:
    """Each trial in Markdown, for the results folder."""
    return "\n".join([*markdown.table(("mutant", "change", "fate", "why", "arms"), map(_row, tried)), ""])


def _row(pair: tuple[Mutant, Trial]) -> tuple[str, ...]:
    mutant, trial = pair
    figures = [f"{figure.name} {figure.before:.4g} -> {figure.after:.4g}" for figure in trial.marked]
    why = "; ".join(filter(None, (trial.died, trial.claim, *figures[:3])))
    change = f"{_one_line(mutant.before)} -> {_one_line(mutant.after)}"
    place = f"{mutant.file}:{mutant.line} {mutant.function}()"
    return place, change, fate(trial), _one_line(why), " ".join(trial.arms)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _share(count: int, of: int) -> str:
    return f"{count} of {of} ({100 * count / of:.0f} %)" if of else "none of 0"
