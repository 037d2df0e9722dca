# SPDX-License-Identifier: GPL-2.0-only
"""The result of a series as text: for the terminal, and for a reply by mail."""

from collections.abc import Iterator, Sequence
from textwrap import wrap

from harness.judge.comparison import Change, Difference
from harness.judge.ensemble import Ensemble
from harness.patch.judgement import Effect, Outcomes, SeriesFinding
from harness.patch.series import Patch
from harness.patch.study import MeasuredSeries
from harness.profile.differential import Differential
from harness.profile.mail import differential_lines
from harness.report.format import figure, plural
from harness.report.words import LEGEND, MARKS
from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_FAIL, EXIT_PASS

WIDTH, LINES = 76, 40
_FINDINGS, _CHANGES, _PROFILE = 3, 4, 6
_FUNCTION_COLUMN = "calls  function"
_WORDS = {
    Effect.WORSE: "WORSE",
    Effect.BETTER: "BETTER",
    Effect.OPEN: "CANNOT JUDGE",
    None: "SAME",
}


def exit_code(compared: Sequence[MeasuredSeries]) -> int:
    effects = {one.effect for one in compared}
    if Effect.WORSE in effects:
        return EXIT_FAIL
    return EXIT_CANNOT_JUDGE if Effect.OPEN in effects or not effects else EXIT_PASS


def verdict_line(one: MeasuredSeries) -> str:
    """``WORSE  1 claim of shared-queue``: the verdict and what it rests on."""
    effect = one.effect
    names = [found.scenario for found in one.outcomes if found.effect is effect] if effect else []
    judged = sum(found.judged for found in one.outcomes)
    about = f"{plural(judged, 'claim')} of {plural(len(one.outcomes), 'scenario')} judged on both"
    return f"{_WORDS[effect]}  {', '.join([*names, about])}"


def summary(one: MeasuredSeries) -> Iterator[str]:
    """The verdict, then what became worse, better or undecided."""
    yield f"{verdict_line(one)}, {one.minutes:.1f} min"
    for found in one.outcomes:
        for finding in found.findings:
            where = f"{one.series.place}: " if finding.boot_lost else ""
            yield f"  {where}{found.scenario}: {_finding(finding)}"


def _finding(one: SeriesFinding) -> str:
    return f"{one.effect}: {one.what}: {one.before} -> {one.after}"


def reply(patches: Sequence[Patch], one: MeasuredSeries, profile: Differential | None, command: str) -> str:
    """A mail of at most ``LINES`` lines."""
    head = patches[-1] if len(patches) == 1 else patches[0]
    lines = [f"Subject: Re: {head.subject}", *([f"In-Reply-To: {head.message_id}"] if head.message_id else []), ""]
    lines += [
        f"Measured {one.base.title} without and with this series,",
        "built with one configuration, in virtual time, where figures repeat exactly:",
        "",
        verdict_line(one),
        "",
    ]
    findings = [(found, finding) for found in one.outcomes for finding in found.findings]
    lines += [line for found, finding in findings[:_FINDINGS] for line in _mail_finding(found, finding)]
    if len(findings) > _FINDINGS:
        lines.append(f"  and {plural(len(findings) - _FINDINGS, 'further finding')}")
    lines += ["", *_table(one)]
    foot = ["", "To repeat:", f"  {command}"]
    room = LINES - len(lines) - len(foot) - 1
    lines += ["", *(line.rstrip()[:WIDTH] for line in _functions(profile)[:room])] if profile else []
    return "\n".join([*lines, *foot, ""])


def _functions(profile: Differential) -> list[str]:
    """The head of the differential, and the functions that differ most."""
    lines = differential_lines(profile)
    first = next(number for number, line in enumerate(lines) if line.endswith(_FUNCTION_COLUMN))
    return [*lines[:2], "", *lines[first : first + 1 + _PROFILE]]


def _mail_finding(found: Outcomes, one: SeriesFinding) -> Iterator[str]:
    yield f"  {one.effect}: {found.scenario}: {one.what}"[:WIDTH]
    yield f"    {one.before} -> {one.after}"[:WIDTH]


def _table(one: MeasuredSeries) -> Iterator[str]:
    """The figures that moved, then those that differ most, as ``blklab compare`` marks them."""
    rows = [(found, change) for found in one.outcomes for change in found.moved]
    rows.sort(key=lambda row: row[1].difference() is not Difference.MARKED)
    if not rows:
        yield "No figure of both differs."
        return
    yield f"{'base':>10} {'change':>8}   {'series':>10}  figure"
    for found, change in rows[:_CHANGES]:
        mark = MARKS[change.difference()] or " "
        figures = f"{_median(change.before):>10} {_share(change):>8} {mark} {_median(change.after):>10}"
        yield f"{figures}  {_name(found, change)}"[:WIDTH]
    if len(rows) > _CHANGES:
        yield f"{'':>10} {'':>8}   {'':>10}  and {plural(len(rows) - _CHANGES, 'further figure')}"
    yield from wrap(LEGEND, WIDTH)


def _median(side: Ensemble | None) -> str:
    return "-" if side is None else figure(side.median)


def _share(change: Change) -> str:
    return "-" if change.share is None else f"{change.share:+.1%}"


def _name(found: Outcomes, change: Change) -> str:
    return f"{found.scenario} {change.figure}"
