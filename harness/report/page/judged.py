# SPDX-License-Identifier: GPL-2.0-only
"""Claims, negative controls and ratios of the field report as a page shows them: word, sentence, strip."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from harness.judge.claims import NOT_RUN, ControlVerdict, Judgement
from harness.judge.verdict import Verdict
from harness.report.export.parts import AS_IT_MUST, HELD
from harness.report.format import reported, severity, spread, value
from harness.report.page.strip import Strip, StripEntry, strip
from harness.report.terminal.conclusion import held_instead
from harness.scenario.model import Control, Scenario, Status

_NOT_MEASURED = "not measured"
MUST_BE = "must be"


@dataclass(frozen=True)
class Judged:
    """``word`` is a status, XFAIL, XPASS or ``not run``; empty for a ratio that is shown without a bound."""

    word: str
    that: str
    value: str
    expect: str
    ratio: str
    sentence: str
    strip: Strip | None
    wish: str = "expected"


def claims(scenario: Scenario, verdict: Verdict) -> Iterator[Judged]:
    for claim, judged in zip(scenario.claims, verdict.claims, strict=True):
        drawn = strip(claim.that, [_row(judged.judgement)], claim.expect)
        yield Judged(
            judged.word, judged.text, value(judged.judgement), judged.expect, judged.ratio, judged.sentence, drawn
        )


def controls(scenario: Scenario, verdict: Verdict) -> Iterator[Judged]:
    for control, judged in zip(scenario.controls, verdict.controls, strict=True):
        yield _control(control, judged)


def _control(control: Control, judged: ControlVerdict) -> Judged:
    judgement = judged.judgement
    if judgement is None:
        return Judged(NOT_RUN, judged.that, _NOT_MEASURED, judged.expect, judged.ratio, judged.sentence, None, MUST_BE)
    drawn = strip(control.that, [_row(judgement)], control.expect, wish=MUST_BE)
    sentence = AS_IT_MUST if judgement.status is Status.PASS else HELD if held_instead(judged) else judgement.reason
    word = str(judgement.status)
    return Judged(word, judged.that, value(judgement), judged.expect, judged.ratio, sentence, drawn, MUST_BE)


def worst_first(judged: Iterable[Judged]) -> list[Judged]:
    return sorted(judged, key=lambda one: severity(one.word))


def reproductions(verdict: Verdict) -> Iterator[Judged]:
    for one in verdict.reproductions:
        seen = _NOT_MEASURED if one.ensemble is None else spread(one.ensemble)
        drawn = strip(one.that, [StripEntry("", one.ensemble)], reported=one.reported)
        off = "" if one.off is None else f"{100 * one.off:+.1f} % from the report's {reported(one)}. "
        said = f"Report: {reported(one)}. " if one.reported is None else ""
        yield Judged("", one.that, seen, "", one.ratio, said + off + (one.because or one.reason), drawn)


def _row(judgement: Judgement) -> StripEntry:
    return StripEntry("", judgement.ensemble, judgement.interval)
