# SPDX-License-Identifier: GPL-2.0-only
"""The result of a bisection on the terminal and as a mail."""

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from harness.bisect.finding import Finding, MeasuredCommit, Shift
from harness.bisect.notebook import ClaimSeen, CommitWord
from harness.report.format import figure
from harness.scenario.model import Bound, Scenario

_STYLES = {CommitWord.GOOD: "green", CommitWord.BAD: "red", CommitWord.SKIP: "yellow"}


def print_finding(console: Console, finding: Finding, scenario: Scenario, repeat: Sequence[str]) -> None:
    short = (Column(head, no_wrap=True) for head in ("commit", "", "ratio"))
    table = Table(*short, "subject", box=None, pad_edge=False)
    for step in finding.steps:
        word = step.answer.word
        about = step.answer.reason or step.commit.subject
        table.add_row(step.commit.sha[:12], Text(word, _STYLES[word]), _ratio(step, finding), Text(about))
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
    if not finding.layout:
        return
    yield "Distance from the bound, in units of what another layout moves the ratio, before and since:"
    for that, bound in ((claim.that, claim.expect) for claim in scenario.claims):
        sides = [_in_layouts(shift, bound) for shift in finding.layout if shift.that == that]
        if sides:
            yield f"  {', '.join(sides)}: {that} ({bound.text})"


def _in_layouts(shift: Shift, bound: Bound) -> str:
    away = min(abs(shift.ratio - end) for end in (bound.low, bound.high) if end is not None)
    moved = abs(shift.moved - shift.ratio)
    return figure(away / moved) if moved else "not moved"


def _certainty(finding: Finding) -> str:
    if finding.confidence is None:
        return "Each verdict repeats exactly."
    return f"It is the culprit with a probability of {finding.confidence:.1%}, after {finding.cost} measurements."


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
            f"Commit {culprit.short} changes a throughput ratio of the block layer:",
            "",
            *_change(finding),
            "",
            *(f"- {what}: {word or 'the revert does not apply'}" for what, word in finding.checks),
            *(f"- caution: {text}" for text in finding.cautions),
            *margins(finding, scenario),
            "",
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
    if finding.confidence is None:
        return " in virtual time, where every figure repeats to the last digit:"
    return f" by {finding.cost} measurements of figures that scatter, at a probability of {finding.confidence:.1%}:"


def _change(finding: Finding) -> Iterator[str]:
    good = next(step for step in finding.steps if step.answer.word is CommitWord.GOOD)
    bad = next(step for step in finding.steps if step.answer.word is CommitWord.BAD)
    for before, since in zip(finding.question.ratios(good.seen), finding.question.ratios(bad.seen), strict=True):
        yield f"  {before.that}"
        yield f"    {before.ratio}"
        yield f"    {range_of(before)} before, {range_of(since)} since"


def _ratio(step: MeasuredCommit, finding: Finding) -> str:
    return ", ".join(range_of(claim) for claim in finding.question.ratios(step.seen))


def range_of(claim: ClaimSeen) -> str:
    """The smallest and the largest ratio, or the only one."""
    low, high = figure(min(claim.values)), figure(max(claim.values))
    return low if low == high else f"{low} .. {high}"
