# SPDX-License-Identifier: GPL-2.0-only
"""docs/results/mutants.md: the score by file and operator, and each mutant that no claim detects."""

import difflib
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.report import markdown
from harness.report.format import plural
from harness.studies.mutation.places import FoundMutants, Mutant
from harness.studies.mutation.trial import Fate, ReferenceArm, Trial

UNEXPLAINED = "not explained"
_PREFACE = """\
Each mutant is one small change to the C code of a built kernel: a relation, an arithmetic operator, a constant, an
inverted condition or a removed statement. It is tried in the arms whose loads execute its place, the cheapest scenarios
first, with the arms that their claims compare, one seed, until one detects it.

- **killed**: a claim fails
- **died**: a boot ends in an oops, a hang, an error of fio or a warning of the kernel, or leaves no readable figures
- **survived**: results differ from those without a mutant, and no claim fails
- **equivalent**: all results are the same bytes as without a mutant: nothing measurable changed

The score is (killed + died) / (killed + died + survived).
"""
_GROUPS = (
    (0.05, "5 % or more, within the bounds of every claim"),
    (0.001, "0.1 % to 5 %"),
    (0, "less than 0.1 %: single requests are earlier or later"),
)
_FATES = (Fate.KILLED, Fate.DIED, Fate.SURVIVED, Fate.EQUIVALENT)
Tried = Sequence[tuple[Mutant, Trial]]


@dataclass(frozen=True)
class MutantScore:
    """What a campaign has found. ``reached`` are the mutants whose places loads execute, and in how many arms."""

    found: FoundMutants
    reached: Mapping[Mutant, int]
    tried: Tried
    arms: Sequence[ReferenceArm]


def score(tried: Tried) -> float | None:
    """None where every mutant is equivalent."""
    fates = Counter(trial.fate for _, trial in tried)
    detected = fates[Fate.KILLED] + fates[Fate.DIED]
    decided = detected + fates[Fate.SURVIVED]
    return detected / decided if decided else None


def summary(outcome: MutantScore) -> Iterator[str]:
    tried = outcome.tried
    fates = Counter(trial.fate for _, trial in tried)
    yield (
        f"{len(outcome.found.mutants)} mutants, {len(outcome.reached)} of them in places that loads execute, "
        f"{len(tried)} tried: {', '.join(f'{fates[fate]} {fate}' for fate in _FATES)}"
    )
    yield f"score {_percent(score(tried))}"
    boots = sum(len(trial.arms) for _, trial in tried)
    yield f"{plural(boots, 'boot')}, {sum(trial.seconds for _, trial in tried) / 60:.0f} minutes"


def mutants_page(
    outcome: MutantScore, texts: Mapping[str, bytes], explained: Mapping[str, str], made_of: str, command: str
) -> str:
    """The page in Markdown; ``command`` generates it. ``explained`` has the reason of a survivor by its place."""
    survivors = [(mutant, trial) for mutant, trial in outcome.tried if trial.fate is Fate.SURVIVED]
    reasons = Counter(_reason(trial) for _, trial in outcome.tried if trial.fate in (Fate.KILLED, Fate.DIED))
    lines = [
        *markdown.head("Mutation score", f"Generated from results by: {command}"),
        _PREFACE,
        *(f"- {line}" for line in summary(outcome)),
        "",
        *markdown.section("By file", _by(outcome, lambda mutant: mutant.file)),
        *markdown.section("By operator", _by(outcome, lambda mutant: str(mutant.operator))),
        *markdown.section("By number of arms", _by_arms(outcome.tried)),
        *markdown.section(
            "What detects them", _counted(("scenario and claim, or end of the boot", "mutants"), reasons)
        ),
        *markdown.section("Places without a mutant", _counted(("what they are in", "places"), outcome.found.skipped)),
        *markdown.section("Claims that count for no mutant", _failing(outcome.arms)),
        *markdown.section("Survivors", _survivors(survivors, texts, explained, outcome.reached)),
        made_of,
    ]
    return "\n".join(lines) + "\n"


def _by(outcome: MutantScore, key: Callable[[Mutant], str]) -> Iterator[str]:
    every = Counter(map(key, outcome.found.mutants))
    reached = Counter(map(key, outcome.reached))
    rows = []
    for name in every:
        tried = [(mutant, trial) for mutant, trial in outcome.tried if key(mutant) == name]
        fates = Counter(trial.fate for _, trial in tried)
        counts = (every[name], reached[name], len(tried), *(fates[fate] for fate in _FATES))
        rows.append((name, *map(str, counts), _percent(score(tried))))
    yield from markdown.table(("", "mutants", "executed", "tried", *map(str, _FATES), "score"), rows, numbers=8)


def _by_arms(tried: Tried) -> Iterator[str]:
    """In how many arms those were tried that became this."""
    fates = Counter((len(trial.arms), trial.fate) for _, trial in tried)
    counts = sorted({arms for arms, _ in fates})
    rows = [(str(arms), *(str(fates[arms, fate]) for fate in _FATES)) for arms in counts]
    yield from markdown.table(("tried in arms", *map(str, _FATES)), rows, numbers=4)


def _counted(columns: Sequence[str], counted: Counter[str]) -> Iterator[str]:
    if rows := [(what, str(count)) for what, count in counted.most_common() if count]:
        yield from markdown.table(columns, rows, numbers=1)


def _failing(arms: Sequence[ReferenceArm]) -> Iterator[str]:
    """Those that fail without a mutant."""
    found = dict.fromkeys((one.scenario.name, claim) for one in arms for claim in one.failing)
    if found:
        yield "They fail on this kernel without a mutant, whose schemata cost instructions:"
        yield ""
    yield from (f"- {scenario}: {claim}" for scenario, claim in found)


def _reason(trial: Trial) -> str:
    """The claim, or how the boot ended without what is particular to it."""
    return trial.reason if trial.fate is Fate.KILLED else trial.reason.partition(": ")[2].partition(":")[0]


def _survivors(
    survivors: Tried, texts: Mapping[str, bytes], explained: Mapping[str, str], reached: Mapping[Mutant, int]
) -> Iterator[str]:
    unknown = sum(mutant.place not in explained for mutant, _ in survivors)
    if survivors:
        yield f"{len(survivors) - unknown} of {len(survivors)} explained. By the largest change of a mean or a count:"
        yield ""
    above = math.inf
    for least, says in _GROUPS:
        group = [one for one in survivors if least <= one[1].change < above]
        above = least
        if group:
            yield f"### {says}: {len(group)}"
            yield ""
        for mutant, trial in sorted(group, key=lambda one: -one[1].change):
            yield f"**{mutant.file}:{mutant.line} {mutant.function}()**: {explained.get(mutant.place, UNEXPLAINED)}."
            yield f"Tried in {plural(len(trial.arms), 'arm')}; arms that execute it: {reached[mutant]}."
            yield f"Differs in {', '.join(trial.differs)}; {_moved(trial)}."
            yield ""
            yield from ("```diff", *diff_lines(texts[mutant.file], mutant), "```", "")


def _moved(trial: Trial) -> str:
    if not trial.moved:
        return "no mean and no count changes"
    return f"the largest change of a mean or a count is {100 * trial.change:.2g} % ({trial.moved})"


def diff_lines(source: bytes, mutant: Mutant) -> Iterator[str]:
    """The changed lines."""
    changed = source[: mutant.start] + mutant.after.encode() + source[mutant.end :]
    before, after = (text.decode(errors="replace").splitlines() for text in (source, changed))
    for line in difflib.unified_diff(before, after, n=0, lineterm=""):
        if line[0] in "+-" and not line.startswith(("+++", "---")):
            yield line


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f} %"
