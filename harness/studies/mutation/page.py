# SPDX-License-Identifier: GPL-2.0-only
"""docs/results/mutants.md: the score by file and operator, and each mutant that no claim detects."""

import difflib
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from harness.judge.thresholds import LARGE, NullEvidence, kind
from harness.report import markdown
from harness.report.format import plural
from harness.studies.mutation.places import FoundMutants, Mutant
from harness.studies.mutation.trial import Fate, MovedFigure, ReferenceArm, Trial

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

A survivor is explained by figures where each figure that it changes moves by no more than those of its kind move
between two boots of one kernel with another layout or seed (thresholds.md, two boots; 5 % for what is no kind there).
Others need a claim, or a sentence that says why no claim bounds what they change.
"""
_BY_FIGURES, _BY_SENTENCE = "no figure moves further than between boots of a null pair", "the sentence says why"
_GROUPS = (UNEXPLAINED, _BY_SENTENCE, _BY_FIGURES)
_FATES = (Fate.KILLED, Fate.DIED, Fate.SURVIVED, Fate.EQUIVALENT)
Tried = Sequence[tuple[Mutant, Trial]]


@dataclass(frozen=True)
class SurvivorNotes:
    """scenarios/mutants/survivors.json, by places: why no claim bounds what a survivor changes, and the claim
    (SCENARIO: WORDS) that was made for a mutant which survived without it."""

    sentences: Mapping[str, str] = field(default_factory=dict)
    claims: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class MutantScore:
    """What a campaign has found. ``reached`` are the mutants whose places loads execute, and in how many arms.

    ``limits`` are the shares by which figures (SCENARIO.ARM.LOAD.ROLE.METRIC) differ between boots of null pairs.
    """

    found: FoundMutants
    reached: Mapping[Mutant, int]
    tried: Tried
    arms: Sequence[ReferenceArm]
    limits: Mapping[str, float] = field(default_factory=dict)
    notes: SurvivorNotes = SurvivorNotes()

    @property
    def survivors(self) -> Tried:
        return [one for one in self.tried if one[1].fate is Fate.SURVIVED]

    def limit(self, figure: MovedFigure) -> float:
        return self.limits.get(figure.name, LARGE.share)


def limits_of(arms: Sequence[ReferenceArm], known: Mapping[str, NullEvidence]) -> dict[str, float]:
    """Of each figure of the reference whose kind null pairs have."""
    return {
        ".".join((one.name, *key)): known[what].single
        for one in arms
        for key in one.figures
        if (what := kind(key, one.figures)) in known
    }


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
    groups = Counter(group_of(outcome, *one) for one in outcome.survivors)
    yield (
        f"survivors: {groups[_BY_FIGURES]} explained by figures, {groups[_BY_SENTENCE]} by a sentence, "
        f"{groups[UNEXPLAINED]} {UNEXPLAINED}; further killed by a claim made for them: "
        f"{sum(1 for _ in _claimed(outcome))}"
    )


def group_of(outcome: MutantScore, mutant: Mutant, trial: Trial) -> str:
    """What explains a survivor; a trial without its figures is not explained by them."""
    if trial.changed is not None and all(one.share <= outcome.limit(one) for one in trial.changed):
        return _BY_FIGURES
    return _BY_SENTENCE if mutant.place in outcome.notes.sentences else UNEXPLAINED


def mutants_page(outcome: MutantScore, texts: Mapping[str, bytes], made_of: str, command: str) -> str:
    """The page in Markdown; ``command`` generates it."""
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
        *markdown.section("Survivors that were given a claim", _claims(outcome, texts)),
        *markdown.section("Survivors", _survivors(outcome, texts)),
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


def _claimed(outcome: MutantScore) -> Iterator[tuple[Mutant, Trial]]:
    """Mutants that fail the claim which was made for them."""
    for mutant, trial in outcome.tried:
        if trial.fate is Fate.KILLED and outcome.notes.claims.get(mutant.place) == trial.reason:
            yield mutant, trial


def _claims(outcome: MutantScore, texts: Mapping[str, bytes]) -> Iterator[str]:
    for mutant, trial in _claimed(outcome):
        yield from _entry(mutant, texts, f'fails "{trial.reason}".')


def _survivors(outcome: MutantScore, texts: Mapping[str, bytes]) -> Iterator[str]:
    for name in _GROUPS:
        group = [one for one in outcome.survivors if group_of(outcome, *one) == name]
        if group:
            yield f"### {name[0].upper()}{name[1:]}: {len(group)}"
            yield ""
        for mutant, trial in group:
            says = _furthest(trial, outcome)
            if name == _BY_SENTENCE:
                says = f"{outcome.notes.sentences[mutant.place]}\n{says}"
            tried = f"Tried in {plural(len(trial.arms), 'arm')}; arms that execute it: {outcome.reached[mutant]}."
            yield from _entry(mutant, texts, f"{says}\n{tried}\nDiffers in {', '.join(trial.differs)}.")


def _entry(mutant: Mutant, texts: Mapping[str, bytes], says: str) -> Iterator[str]:
    yield f"**{mutant.file}:{mutant.line} {mutant.function}()**: {says}"
    yield ""
    yield from ("```diff", *diff_lines(texts[mutant.file], mutant), "```", "")


def _furthest(trial: Trial, outcome: MutantScore) -> str:
    """The figure that moves most in relation to its limit."""
    if not trial.changed:
        return "No figure changes."
    one = max(trial.changed, key=lambda one: one.share / limit if (limit := outcome.limit(one)) else math.inf)
    by = f"{100 * one.share:.2g} %" if one.before and one.after else f"from {one.before:.4g} to {one.after:.4g}"
    return f"Moves most in relation to its limit: {one.name}, {by} (limit {100 * outcome.limit(one):.2g} %)."


def diff_lines(source: bytes, mutant: Mutant) -> Iterator[str]:
    """The changed lines."""
    changed = source[: mutant.start] + mutant.after.encode() + source[mutant.end :]
    before, after = (text.decode(errors="replace").splitlines() for text in (source, changed))
    for line in difflib.unified_diff(before, after, n=0, lineterm=""):
        if line[0] in "+-" and not line.startswith(("+++", "---")):
            yield line


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f} %"
