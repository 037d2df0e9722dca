# SPDX-License-Identifier: GPL-2.0-only
"""The result of a bisection on the terminal, as SVG, and as a mail."""

from collections.abc import Iterator, Sequence
from html import escape

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from harness.bisect.finding import Finding, MeasuredCommit
from harness.bisect.state import ClaimSeen, CommitWord
from harness.report.format import figure
from harness.scenario.model import Scenario

_STYLES = {CommitWord.GOOD: "green", CommitWord.BAD: "red", CommitWord.SKIP: "yellow"}
_WIDTH, _HEIGHT, _EDGE, _HEADROOM = 720, 260, 48, 1.1
_STYLE = """\
:root { color-scheme: light dark; --ink: #1b1f24; --faint: #8c959f; --good: #1a7f37; --bad: #cf222e; --paper: #fff }
@media (prefers-color-scheme: dark) {
 :root { --ink: #e6edf3; --faint: #7d8590; --good: #3fb950; --bad: #f85149; --paper: #0d1117 } }
text { font: 12px sans-serif; fill: var(--ink) } rect { fill: var(--paper) }
.grid { stroke: var(--faint); stroke-width: .5 } .good { fill: var(--good) } .bad { fill: var(--bad) }
.culprit { stroke: var(--bad); stroke-dasharray: 3 }
"""


def print_finding(console: Console, finding: Finding, repeat: Sequence[str]) -> None:
    """``repeat`` are the commands that repeat it."""
    short = (Column(head, no_wrap=True) for head in ("commit", "", "ratio"))
    table = Table(*short, "subject", box=None, pad_edge=False)
    for step in finding.steps:
        word = step.answer.word
        about = step.answer.reason or step.commit.subject
        table.add_row(step.commit.sha[:12], Text(word, _STYLES[word]), _ratio(step, finding), Text(about))
    console.print(table)
    console.print()
    for line in conclusion(finding):
        console.print(Text(line), highlight=False, soft_wrap=True)
    console.print()
    for line in repeat:
        console.print(Text(f"  {line}", "dim"), highlight=False, soft_wrap=True)


def conclusion(finding: Finding) -> Iterator[str]:
    """The culprit, the confidence and the warnings."""
    if finding.culprit is None:
        sure = "" if finding.confidence is None else f" with a probability of {finding.confidence:.1%}"
        yield f"Not decided: it is one of {len(finding.left)}{sure}, most of which could not be tested:"
        yield from (f"  {commit.short}" for commit in finding.left)
        return
    yield f"First bad commit: {finding.culprit.short}"
    yield f"  by {finding.culprit.author}, {finding.culprit.date}"
    for what, word in finding.checks:
        yield f"  {what}: {word or 'cannot be made, for the revert does not apply'}"
    if finding.verified:
        yield f"Verified. {_certainty(finding)}"
    else:
        yield "NOT verified: do not report it before you know why."
    yield from (f"Caution: {text}." for text in finding.cautions)


def _certainty(finding: Finding) -> str:
    if finding.confidence is None:
        return "Each verdict repeats exactly, so no step was decided by noise."
    return f"It is the culprit with a probability of {finding.confidence:.1%}, after {finding.cost} measurements."


def plot(finding: Finding, order: Sequence[str]) -> str:
    """SVG of the first separating claim's ratio at every tested commit, by place in ``order`` (oldest first)."""
    points = [(order.index(step.commit.sha), claim, step) for step in finding.steps for claim in _first(step, finding)]
    top = max((value for _, claim, _ in points for value in claim.values), default=1.0) * _HEADROOM or 1.0
    body = [part for share in (0.0, 0.5, 1.0) for part in _grid(share * top / _HEADROOM, top)]
    for place, claim, step in points:
        body += [_dot(_x(place, len(order)), _y(value, top), step) for value in claim.values]
    if finding.culprit:
        body += _mark(_x(order.index(finding.culprit.sha), len(order)), finding.culprit.sha[:12])
    body += [_text(_EDGE, _HEIGHT - 8, "good"), _text(_WIDTH - 8, _HEIGHT - 8, "bad", "end")]
    name = escape(finding.question.claims[0], quote=True)
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{name}">'
    )
    return f'{opening}<style>{_STYLE}</style><rect width="100%" height="100%"/>{"".join(body)}</svg>\n'


def _grid(value: float, top: float) -> list[str]:
    y = _y(value, top)
    line = f'<line class="grid" x1="{_EDGE}" y1="{y}" x2="{_WIDTH - 8}" y2="{y}"/>'
    return [line, _text(4, y + 4, figure(value))]


def _dot(x: float, y: float, step: MeasuredCommit) -> str:
    title = escape(f"{step.commit.short}: {step.answer.word}")
    return f'<circle class="{step.answer.word}" cx="{x}" cy="{y}" r="4"><title>{title}</title></circle>'


def _mark(x: float, label: str) -> list[str]:
    line = f'<line class="culprit" x1="{x}" y1="8" x2="{x}" y2="{_HEIGHT - _EDGE}"/>'
    return [line, _text(x, _HEIGHT - _EDGE + 16, label, "end" if x > _WIDTH / 2 else "start")]


def _text(x: float, y: float, words: str, anchor: str = "start") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{escape(words)}</text>'


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


def _first(step: MeasuredCommit, finding: Finding) -> list[ClaimSeen]:
    return [claim for claim in finding.question.ratios(step.seen) if claim.that == finding.question.claims[0]]


def _ratio(step: MeasuredCommit, finding: Finding) -> str:
    return ", ".join(range_of(claim) for claim in finding.question.ratios(step.seen))


def range_of(claim: ClaimSeen) -> str:
    """The smallest and the largest ratio, or the only one."""
    low, high = figure(min(claim.values)), figure(max(claim.values))
    return low if low == high else f"{low} .. {high}"


def _x(place: int, count: int) -> float:
    return round(_EDGE + (_WIDTH - _EDGE - 16) * (place / max(1, count - 1)), 1)


def _y(value: float, top: float) -> float:
    return round((_HEIGHT - _EDGE) * (1 - value / top) + 8, 1)
