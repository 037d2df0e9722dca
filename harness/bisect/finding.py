# SPDX-License-Identifier: GPL-2.0-only
"""The result of a bisection with its evidence, on the terminal and as a mail."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from harness.bisect.notebook import RATIO, Answer, CommitWord, Observation, Question
from harness.bisect.repository import Commit, Repository
from harness.hunt.finds import KeptFind, odds
from harness.report.format import figure, plural
from harness.scenario.model import Bound, Scenario

PARENT, ITSELF, REVERT = "the parent", "the commit", "the bad end with the commit reverted"
MOVED = "in another layout"


@dataclass(frozen=True)
class MeasuredCommit:
    """A measured commit, in the order of the search."""

    commit: Commit
    seen: Observation
    answer: Answer


def checks(
    repository: Repository, culprit: Commit, bad: str, word: Callable[[str, str], CommitWord]
) -> Iterator[tuple[str, CommitWord | None]]:
    """Each check with the ``word`` of its commit; a revert that does not apply has none."""
    reverted = repository.reverted(culprit.sha, bad)
    for what, sha in ((PARENT, culprit.parents[0]), (ITSELF, culprit.sha), (REVERT, reverted)):
        yield what, word(sha, what) if sha else None


@dataclass(frozen=True)
class Shift:
    """The median ``ratio`` of a claim on one commit, and the one in another layout of the same code."""

    that: str
    ratio: float
    moved: float


def shifts(question: Question, plain: Observation, moved: Observation) -> Iterator[Shift]:
    """A shift for each ratio that both have."""
    elsewhere = {claim.that: median(claim.values) for claim in question.ratios(moved)}
    for claim in question.ratios(plain):
        if claim.that in elsewhere:
            yield Shift(claim.that, median(claim.values), elsewhere[claim.that])


@dataclass(frozen=True)
class Finding:
    """``culprit`` is None if it is one of those ``left``. ``checks`` are the results of the verification.

    ``confidence`` is the posterior probability of the culprit, or of those left, None where figures do not scatter;
    ``cost`` counts measurements besides the ends. ``layout`` has the ratios of the culprit and its parent in another
    layout of the same code; empty where none was measured. ``odds``: how probable it is that a search missed a fault,
    where kernels were searched.
    """

    question: Question
    steps: tuple[MeasuredCommit, ...]
    culprit: Commit | None
    left: tuple[Commit, ...] = ()
    checks: tuple[tuple[str, CommitWord | None], ...] = ()
    confidence: float | None = None
    cost: int = 0
    layout: tuple[Shift, ...] = ()
    odds: str = ""

    @property
    def cautions(self) -> tuple[str, ...]:
        return tuple(warnings_of(self.culprit)) if self.culprit else ()

    @property
    def verified(self) -> bool:
        """The parent is good and the commit bad, in another layout too; a revert that applies is good."""
        words = dict(self.checks)
        return (
            self.culprit is not None
            and words.get(PARENT) is CommitWord.GOOD
            and words.get(ITSELF) is CommitWord.BAD
            and words.get(REVERT) in (None, CommitWord.GOOD)
            and words.get(f"{PARENT} {MOVED}") in (None, CommitWord.GOOD)
            and words.get(f"{ITSELF} {MOVED}") in (None, CommitWord.BAD)
        )


_MODELS = {
    "drivers/block/null_blk": "null_blk",
    "drivers/target/": "LIO, the target of the lab's SCSI disks",
    "drivers/scsi/scsi_debug.c": "scsi_debug",
    "drivers/nvme/target/": "the NVMe target",
}
_NO_CODE = ("Documentation/", "MAINTAINERS", "CREDITS", ".mailmap", "LICENSES/")


def warnings_of(commit: Commit) -> Iterator[str]:
    if len(commit.parents) > 1:
        yield "it is a merge: its parents pass, so the merge itself is wrong, or one side was skipped"
    if commit.files and all(name.startswith(_NO_CODE) or name.endswith((".rst", ".txt")) for name in commit.files):
        yield "it touches documentation only and cannot be the cause: check the skipped commits and the ends"
    elif commit.files and all(name.startswith("arch/") and not name.startswith("arch/x86/") for name in commit.files):
        yield "it touches only architectures that were not tested and cannot be the cause"
    models = [what for path, what in _MODELS.items() if any(name.startswith(path) for name in commit.files)]
    if models:
        yield (
            f"it changes {', '.join(models)}, which the lab's own devices use: calibrate both sides"
            " (blklab check calibration) before calling it a regression of the block layer"
        )


_STYLES = {CommitWord.GOOD: "green", CommitWord.BAD: "red", CommitWord.SKIP: "yellow"}


def print_finding(console: Console, finding: Finding, scenario: Scenario, repeat: Sequence[str]) -> None:
    short = (Column(head, no_wrap=True) for head in ("commit", "", "ratio"))
    table = Table(*short, "subject", box=None, pad_edge=False)
    for step in finding.steps:
        word = step.answer.word
        about = step.answer.reason or step.commit.subject
        ratios = ", ".join(claim.range for claim in finding.question.ratios(step.seen))
        table.add_row(step.commit.sha[:12], Text(word, _STYLES[word]), ratios, Text(about))
    console.print(table)
    console.print()
    for line in conclusion(finding, scenario):
        console.print(Text(line), soft_wrap=True)
    console.print()
    for line in repeat:
        console.print(Text(f"  {line}", "dim"), soft_wrap=True)


def conclusion(finding: Finding, scenario: Scenario) -> Iterator[str]:
    if finding.culprit is None:
        sure = "" if finding.confidence is None else f" with a probability of {finding.confidence:.1%}"
        yield f"Not decided: it is one of {len(finding.left)}{sure}, most of which could not be tested:"
        yield from (f"  {commit.short}" for commit in finding.left)
        return
    yield f"First bad commit: {finding.culprit.short}"
    yield f"  by {finding.culprit.author}, {finding.culprit.date}"
    for what, word in finding.checks:
        yield f"  {what}: {word or 'cannot be made, for the revert does not apply'}"
    yield from margins(finding, scenario)
    if finding.verified:
        yield f"Verified. {_certainty(finding)}"
    else:
        yield "NOT verified: do not report it before you know why."
    yield from (f"Caution: {text}." for text in finding.cautions)


def margins(finding: Finding, scenario: Scenario) -> Iterator[str]:
    """How far each ratio of the parent and of the culprit is from its bound, in units of what another layout moves."""
    rows = []
    for that, bound in ((claim.that, claim.expect) for claim in scenario.claims):
        sides = [_in_layouts(shift, bound) for shift in finding.layout if shift.that == that]
        rows += [f"  {', '.join(sides)}: {that} ({bound.text})"] if sides else []
    if rows:
        yield "Distance from the bound, in units of what another layout moves the ratio, before and since:"
        yield from rows


def _in_layouts(shift: Shift, bound: Bound) -> str:
    away = min(abs(shift.ratio - end) for end in (bound.low, bound.high) if end is not None)
    moved = abs(shift.moved - shift.ratio)
    return figure(away / moved) if moved else "not moved"


def _certainty(finding: Finding) -> str:
    if finding.odds:
        return finding.odds
    if finding.confidence is None:
        return "Each verdict repeats exactly."
    return f"It is the culprit with a probability of {finding.confidence:.1%}, after {finding.cost} measurements."


_CHANGED, _FAULT = "changes a throughput ratio", "lets a schedule of several CPUs find a fault"


def mail(finding: Finding, scenario: Scenario, repeat: Sequence[str], profile: Sequence[str] = ()) -> str:
    """A mail with the line for regzbot; empty without a culprit.

    ``profile`` are the functions whose instruction counts changed with the culprit, a line each.
    """
    culprit = finding.culprit
    if culprit is None:
        return ""
    return "\n".join(
        (
            f"Subject: [REGRESSION] {scenario.name}: bisected to {culprit.short}",
            f"To: {culprit.author}",
            "Cc: linux-block@vger.kernel.org, regressions@lists.linux.dev",
            "",
            f"{scenario.title}.",
            "",
            f"Commit {culprit.short} {_FAULT if finding.odds else _CHANGED} of the block layer:",
            "",
            *_change(finding),
            "",
            *(f"- {what}: {word or 'the revert does not apply'}" for what, word in finding.checks),
            *(f"- caution: {text}" for text in finding.cautions),
            *margins(finding, scenario),
            "",
            *([finding.odds, ""] if finding.odds else []),
            "It was found by a bisection" + _method(finding),
            "",
            *(f"    {line}" for line in repeat),
            "",
            *_quoted(profile),
            f"#regzbot introduced: {culprit.sha}",
            "",
        )
    )


def _quoted(profile: Sequence[str]) -> Iterator[str]:
    if profile:
        yield "What it changes in instructions per I/O, counted in virtual time:"
        yield ""
        yield from (f"    {line}".rstrip() for line in profile)
        yield ""


def _method(finding: Finding) -> str:
    if finding.odds:
        return " by searches of schedules, each of which repeats exactly:"
    if finding.confidence is None:
        return " in virtual time, where every figure repeats to the last digit:"
    return f" by {finding.cost} measurements of figures that scatter, at a probability of {finding.confidence:.1%}:"


def _change(finding: Finding) -> Iterator[str]:
    good = next(step for step in finding.steps if step.answer.word is CommitWord.GOOD)
    bad = next(step for step in finding.steps if step.answer.word is CommitWord.BAD)
    for before, since in zip(finding.question.ratios(good.seen), finding.question.ratios(bad.seen), strict=True):
        yield f"  {before.that}"
        yield f"    {before.ratio}"
        yield f"    {before.range} before, {since.range} since"


def odds_of(kept: KeptFind, question: Question, observations: Collection[Observation]) -> str:
    """How many seeds a good side passed, and how probable it is that they miss the fault of the bad end, the first."""
    bad = next(seen for seen in observations if question.answer(seen).word is CommitWord.BAD)
    good = [seen for seen in observations if question.answer(seen).word is CommitWord.GOOD]
    after = round(1 / bad.claims[0].values[0])
    elsewhere = any(claim.ratio != RATIO for seen in good for claim in seen.claims)
    passed = f"The bad end fails after {plural(after, 'seed')}; each good side passed {kept.seeds}"
    return f"{passed}: {odds(after, kept.seeds, elsewhere=elsewhere)}."
