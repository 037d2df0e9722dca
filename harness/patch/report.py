# SPDX-License-Identifier: GPL-2.0-only
"""The result of a series, or of ``blklab run --base --mail``, as text: for the terminal, as a mail, and in the words of
programs that check patches.

b4 reads a JSON array from a check of ``b4 review``, but from one of ``b4 prep --check`` and ``b4 am --check`` lines as
checkpatch prints them: nothing for a pass, each line is a warning, or a failure where it has "ERROR:" or is on standard
error (b4 0.16: review/checks.py, LoreMessage.run_local_check). NIPA reads the exit status, of which 250 is a warning,
and a text from the descriptor $DESC_FD (core/test.py).
"""

import json
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap

from harness.grid.lines import Kind, Trend
from harness.judge.cells import Ensemble
from harness.patch.series import Patch
from harness.patch.study import MeasuredSeries, SeriesKernel, outcomes, profiled
from harness.profile.model import Differential
from harness.profile.report import differential_lines
from harness.record.store import RunFolder
from harness.report.format import LEGEND, MARKS, figure, listed, plural
from lab.base.digest import canonical, digest_bytes
from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_FAIL, EXIT_INTERRUPTED, EXIT_PASS, Misuse
from lab.base.units import Tell, printable
from lab.kernels.kconfig import drift
from lab.kernels.model import Kernel
from lab.session import Lab

WIDTH, LINES = 76, 40
NOT_SEEN = "not visible with one CPU"
_UNSEEN = "no difference visible with one CPU"
_FINDINGS, _CHANGES, _PROFILE = 3, 4, 6
_FUNCTION_COLUMN = "calls  function"


def exit_code(compared: Sequence[MeasuredSeries]) -> int:
    trends = {result.trend for result in compared}
    if Trend.WORSE in trends:
        return EXIT_FAIL
    return EXIT_CANNOT_JUDGE if Trend.OPEN in trends or not trends else EXIT_PASS


def verdict_line(result: MeasuredSeries) -> str:
    """``WORSE  1 claim of shared-queue``: the verdict and what it rests on."""
    trend = result.trend
    names = dict.fromkeys(move.scenario for move in result.moves if move.trend is trend)
    judged = sum(outcome.judged for outcome in result.outcomes)
    about = f"{plural(judged, 'claim')} of {plural(len(result.outcomes), 'scenario')} judged on both"
    return f"{(trend or (_UNSEEN if result.unseen else 'same')).upper()}  {', '.join([*names, about])}"


def summary(result: MeasuredSeries) -> Iterator[str]:
    """The verdict, then what became worse, better or undecided."""
    yield f"{verdict_line(result)}, {result.minutes:.1f} min"
    for move in result.moves:
        lost = move.kind is Kind.BOOT and move.trend is Trend.WORSE
        yield f"  {f'{result.series.place}: ' if lost else ''}{move.scenario}: {move}"
    yield from (f"  {line}" for line in _hidden(result))


def _hidden(result: MeasuredSeries) -> Iterator[str]:
    """What no verdict of a scenario contains."""
    if result.unseen:
        yield f"{NOT_SEEN}: {result.unseen}"
    yield from (f"not visible in {it.scenario}: {it.unseen}" for it in result.outcomes if it.unseen)


def reply(patches: Sequence[Patch], result: MeasuredSeries, profile: Differential | None, command: str) -> str:
    head = patches[-1] if len(patches) == 1 else patches[0]
    lines = [f"Subject: Re: {head.subject}", *([f"In-Reply-To: {head.message_id}"] if head.message_id else []), ""]
    lines += [
        f"Measured {result.base.title} without and with this series,",
        "built with one configuration, in virtual time, where figures repeat exactly:",
        "",
        verdict_line(result),
    ]
    return letter(lines, result, profile, command)


def commit_lines(result: MeasuredSeries, command: str) -> str:
    """Eight lines for a commit message: what the verdict rests on, on which kernel, and how to repeat it."""
    name, before, after, share = _leading(result)
    kernel = result.series.kernel
    rows = {
        "Verdict": verdict_line(result),
        "Figure": name,
        "Before": before,
        "After": after,
        "Change": "-" if share is None else f"{share:+.1%}",
        "Kernel": f"{kernel.release}, in QEMU, virtual time, where figures repeat exactly",
        "Config": f"{plural(len(kernel.config), 'option')}, sha256 {digest_bytes(canonical(kernel.config))[:12]}",
        "Repeat": command,
    }
    return "".join(f"{name + ':':9}{text}\n" for name, text in rows.items())


def _leading(result: MeasuredSeries) -> tuple[str, str, str, float | None]:
    """The first move of the verdict's trend, else the figure that differs most: its name, both sides, the change."""
    for move in result.moves:
        if move.trend is result.trend:
            return move.title, move.before, move.after, move.share
    moved = [(outcome.scenario, change) for outcome in result.outcomes for change in outcome.differing]
    if not moved:
        return "none of both kernels differs", "-", "-", None
    scenario, change = min(moved, key=lambda row: not row[1].marked)
    return f"{scenario} {'.'.join(change.figure)}", _median(change.before), _median(change.after), change.share


def letter(head: Sequence[str], result: MeasuredSeries, profile: Differential | None, command: str) -> str:
    """A mail of two sides below its ``head``: claims, figures, functions of the profile, and how to repeat it."""
    lines = [*head, ""]
    for move in result.moves[:_FINDINGS]:
        lines.append(f"  {move.trend}: {move.title}"[:WIDTH])
        lines.append(f"    {move.before} -> {move.after}"[:WIDTH])
    if (more := len(result.moves) - _FINDINGS) > 0:
        lines.append(f"  and {plural(more, 'further finding')}")
    lines += ["", *_table(result)]
    hidden = next((wrap(line, WIDTH) for line in _hidden(result)), [])
    foot = ["", *hidden, "To repeat:", f"  {command}"]
    room = LINES - len(lines) - len(foot) - 1
    lines += ["", *(line.rstrip()[:WIDTH] for line in _functions(profile)[:room])] if profile else []
    return "\n".join([*lines, *foot, ""])


def _functions(profile: Differential) -> list[str]:
    """The head of the differential, and the functions that differ most."""
    lines = differential_lines(profile)
    first = next(number for number, line in enumerate(lines) if line.endswith(_FUNCTION_COLUMN))
    return [*lines[:2], "", *lines[first : first + 1 + _PROFILE]]


def _table(result: MeasuredSeries) -> Iterator[str]:
    """The figures that moved, then those that differ most, as ``blklab compare`` marks them."""
    rows = [(outcome.scenario, change) for outcome in result.outcomes for change in outcome.differing]
    rows.sort(key=lambda row: not row[1].marked)
    if not rows:
        yield f"Figures: {_UNSEEN}." if result.unseen else "No figure of both differs."
        return
    yield f"{'base':>10} {'change':>8}   {'series':>10}  figure"
    for scenario, change in rows[:_CHANGES]:
        mark = MARKS[change.mark] or " "
        share = "-" if change.share is None else f"{change.share:+.1%}"
        figures = f"{_median(change.before):>10} {share:>8} {mark} {_median(change.after):>10}"
        yield f"{figures}  {scenario} {'.'.join(change.figure)}"[:WIDTH]
    if len(rows) > _CHANGES:
        yield f"{'':>10} {'':>8}   {'':>10}  and {plural(len(rows) - _CHANGES, 'further figure')}"
    yield from wrap(LEGEND, WIDTH)


def _median(side: Ensemble | None) -> str:
    return "-" if side is None else figure(side.median)


_OPTIONS = 3


def base_mail(lab: Lab, runs: tuple[RunFolder, RunFolder], kernels: tuple[Kernel, Kernel], tell: Tell) -> str:
    """The runs of one scenario on BASE and on the other kernel. Two further boots give the functions that differ."""
    base, other = (SeriesKernel("", kernel.origin, kernel) for kernel in kernels)
    result = MeasuredSeries(base, other, (outcomes(*runs),))
    command = shlex.join(runs[1].facts.command)
    return letter([*_head(runs[1], result)], result, profiled(lab, result, tell), command)


def _head(run: RunFolder, result: MeasuredSeries) -> Iterator[str]:
    scenario = run.scenario
    yield f"Subject: {scenario.name}: {result.base.kernel.release} -> {result.series.kernel.release}"
    yield ""
    yield from wrap(f"{scenario.title}.", WIDTH)
    if scenario.source is not None and scenario.source.link:
        yield f"Reported in {scenario.source.link}"
    yield ""
    for word, step in (("base", result.base), ("new", result.series)):
        yield from wrap(f"{word}: {step.kernel.release}, {step.title}", WIDTH, subsequent_indent="  ")
    yield from wrap(_configurations(result.base.kernel, result.series.kernel), WIDTH)
    yield ""
    yield verdict_line(result)


def _configurations(base: Kernel, other: Kernel) -> str:
    options = drift(base.config, other.config).options
    if not options:
        return "Both have the same configuration."
    shown = listed([f"{name} {was} -> {now}" for name, (was, now) in options.items()], _OPTIONS)
    return f"Their configurations differ in {shown}, so a difference is not the code's alone."


WARNING = 250
_DESCRIPTOR = "DESC_FD"


@dataclass(frozen=True)
class Outcome:
    """An exit status of blklab with its reason in a line; ``details``: what was printed. Where nothing executes the
    change it is not ``relevant``.
    """

    code: int
    summary: str
    details: str = ""
    relevant: bool = True

    @property
    def status(self) -> str:
        """As b4 names it. A failure is the kernel's alone: where the lab fails nobody has judged the patch."""
        return {EXIT_PASS: "pass", EXIT_FAIL: "fail"}.get(self.code, "warn")


def review(outcome: Outcome) -> int:
    row = {
        "tool": "blklab",
        "status": outcome.status,
        "summary": outcome.summary,
        "url": "",
        "details": outcome.details,
    }
    print(json.dumps([row] if outcome.relevant else []))
    return outcome.code


def prep(outcome: Outcome) -> int:
    if outcome.code != EXIT_PASS:
        print(f"{'ERROR' if outcome.code == EXIT_FAIL else 'WARNING'}: {outcome.summary}")
    return outcome.code


def nipa(outcome: Outcome) -> int:
    """Raises Misuse where $DESC_FD is no open descriptor."""
    print(outcome.details, end="")
    if number := os.environ.get(_DESCRIPTOR):
        try:
            os.write(int(number), f"{printable(outcome.summary)}\n".encode())
        except (ValueError, OSError) as error:
            raise Misuse(f"{_DESCRIPTOR}={number} is no open descriptor", remedy="NIPA sets it to one") from error
    return outcome.code if outcome.code in (EXIT_PASS, EXIT_FAIL, EXIT_INTERRUPTED) else WARNING


QUIET = "b4_prep"  # reads standard error as failures
CHECKS: Mapping[str, Callable[[Outcome], int]] = {"b4": review, QUIET: prep, "nipa": nipa}
