# SPDX-License-Identifier: GPL-2.0-only
"""A night and its alarms as text: for the terminal, and as mails."""

from collections.abc import Iterator
from pathlib import Path

from harness.report.format import duration, plural
from harness.track.state import Alarm, Kind, Move, Night, Track, is_commit, short

_FIGURES = 6


def night_lines(track: Track, night: Night) -> Iterator[str]:
    """What changed, then what was measured, and what was not."""
    alarms = track.of_night(night)
    words = ", ".join(
        f"{sum(alarm.trend == trend for alarm in alarms)} {trend}" for trend in {a.trend: 0 for a in alarms}
    )
    since = f" since {short(night.last)}" if night.last else ""
    yield f"night {night.number}, {night.line} at {short(night.head)}: {words or f'nothing changed{since}'}"
    took = f"{plural(night.builds, 'build')}, {plural(night.boots, 'boot')}, {duration(night.seconds)}"
    yield f"  {plural(night.commits, 'commit')}, {plural(len(night.status), 'scenario')} measured, {took}"
    if night.left:
        yield f"  left out by the budget: {', '.join(night.left)}"
    yield from (f"  {note}" for note in night.notes)
    yield from (f"  commit {sha[:12]} disappeared" for sha in night.gone)
    yield from (f"  no alarm: {line}" for line in night.calm)


def alarm_lines(alarm: Alarm) -> Iterator[str]:
    yield f"{alarm.trend.upper()}  {alarm.name}"
    if alarm.undoes:
        yield f"  it undoes what alarm {alarm.undoes} reported"
    yield from (f"  {move.title}: {move.arrow}" for move in alarm.moves[:_FIGURES])
    if rest := len(alarm.moves) - _FIGURES:
        yield from [f"  and {plural(rest, 'more figure')}"] if rest > 0 else []
    if alarm.functions:
        yield f"  functions: {', '.join(alarm.functions[:_FIGURES])}"
    yield f"  {alarm.confidence}"
    yield from (f"  caution: {note}" for note in alarm.notes)
    yield from (f"  {sha[:12]}" for sha in alarm.left)


def commands(alarm: Alarm, tree: str) -> Iterator[str]:
    """What repeats the leading move on both sides, commits of ``tree`` or packages."""
    first = alarm.moves[0]
    words = f"hunt --kept {Path(first.name).stem}" if first.kind is Kind.HUNT else f"run {first.scenario}"
    if first.scenario:
        for commit in filter(None, (alarm.parent, alarm.culprit)):
            provider = f"tree:{tree}@" if is_commit(commit) else f"{alarm.line.partition(':')[0]}:"
            yield f"blklab {words} --kernel {provider}{short(commit)}"


def mail(alarm: Alarm, tree: str) -> str:
    """A mail with the line for regzbot; of an improvement without that line."""
    worse = alarm.trend == "worse"
    tag = "REGRESSION" if worse else "CHANGE"
    first: Move = alarm.moves[0]
    scenario = first.scenario or first.name
    lines = [
        f"Subject: [{tag}] {scenario}: {alarm.name}",
        f"To: {alarm.author}" if alarm.author else "To: undisclosed",
        "Cc: linux-block@vger.kernel.org" + (", regressions@lists.linux.dev" if worse else ""),
        "",
        f"{alarm.name} makes {'this' if len(alarm.moves) == 1 else 'these'} {alarm.trend}:"
        if alarm.culprit
        else f"Since {alarm.name} this is {alarm.trend}:",
        "",
        *(f"  {move.title}\n    {move.before} before, {move.after} since" for move in alarm.moves[:_FIGURES]),
        "",
        f"{alarm.confidence[0].upper()}{alarm.confidence[1:]}.",
        *(f"Caution: {note}." for note in alarm.notes),
    ]
    if first.kind is not Kind.BUILD:
        what = "The search has the same seeds" if first.kind is Kind.HUNT else "Every figure is measured"
        lines += [f"{what} in virtual time and repeats to the last digit:", ""]
        lines += [f"    {command}" for command in commands(alarm, tree)]
    if alarm.functions:
        lines += [
            "",
            f"Functions: {', '.join(alarm.functions[:_FIGURES])}",
            *(f"    {line}".rstrip() for line in alarm.profile),
        ]
    lines += ["", f"#regzbot introduced: {alarm.culprit}"] if worse and is_commit(alarm.culprit) else []
    return "\n".join(lines) + "\n"
