# SPDX-License-Identifier: GPL-2.0-only
"""One scenario on several kernels, or over several runs: each ratio as a strip with a row for each of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.analysis.claims import ClaimVerdict, ControlVerdict
from harness.analysis.ensemble import Ensemble
from harness.analysis.verdict import SHOWN_METRIC
from harness.report.format import figure, limits, spread
from harness.report.page.collection import Judged
from harness.report.page.figures import against, measured
from harness.report.page.strip import Strip, strip
from harness.scenario.model import Bound, Scenario

Row = tuple[str, Judged | None]
"""What a row is called, and the run behind it."""


@dataclass(frozen=True)
class Across:
    """``words`` has a status and a value for each row's label."""

    that: str
    ratio: str
    expect: str
    words: tuple[tuple[str, str, str], ...]
    strip: Strip | None


@dataclass(frozen=True)
class Compared:
    """A figure of one role: for each row the median, the range, and the change against the first row that has one."""

    arm: str
    load: str
    role: str
    cells: tuple[tuple[str, str, str], ...]


def claims(rows: Sequence[Row]) -> Iterator[Across]:
    """Claims of the last run that there is, on all rows that make the same."""
    for place, claim in enumerate(_newest(rows).claims):
        judged = [(label, _claim(one, claim.ratio.text, claim.that)) for label, one in rows]
        yield _across(claim.that, claim.ratio.text, claim.expect, judged, optional=_newest(rows).claims[place].optional)


def controls(rows: Sequence[Row]) -> Iterator[Across]:
    for control in _newest(rows).controls:
        judged = [(label, _control(one, control.ratio.text, control.that)) for label, one in rows]
        if any(found is not None for _, found in judged):
            yield _across(control.that, control.ratio.text, control.expect, judged)


def reproductions(rows: Sequence[Row]) -> Iterator[Across]:
    for wanted in _newest(rows).reproduces:
        named: list[tuple[str, Ensemble | None]] = []
        for label, one in rows:
            found = [each for each in one.verdict.reproductions if each.ratio == wanted.ratio.text] if one else []
            named.append((label, found[0].ensemble if found else None))
        drawn = strip(wanted.that, named, reported=wanted.reported)
        words = tuple((label, "", spread(ensemble) if ensemble else "-") for label, ensemble in named)
        yield Across(wanted.that, wanted.ratio.text, "", words, drawn)


def compared(rows: Sequence[Row], metric: str = SHOWN_METRIC) -> Iterator[Compared]:
    names = dict.fromkeys(
        (row.arm, row.load, row.role) for _, one in rows if one is not None for row in one.verdict.measured
    )
    for name in names:
        ensembles = [measured(one.verdict, name, metric) if one else None for _, one in rows]
        first = next((ensemble for ensemble in ensembles if ensemble is not None), None)
        if first is None:
            continue
        cells = []
        for ensemble in ensembles:
            change = "" if ensemble is None or ensemble is first else against(ensemble, first)
            cells.append(("-", "", "") if ensemble is None else (figure(ensemble.median), limits(ensemble), change))
        yield Compared(*name, tuple(cells))


def _across(
    that: str,
    ratio: str,
    expect: Bound,
    judged: Sequence[tuple[str, tuple[str, Ensemble | None] | None]],
    *,
    optional: bool = False,
) -> Across:
    named = [(label, found[1] if found else None) for label, found in judged]
    words = tuple(
        (label, found[0] if found else "not run", spread(found[1]) if found and found[1] else "-")
        for label, found in judged
    )
    return Across(f"{that} (optional)" if optional else that, ratio, expect.text, words, strip(that, named, expect))


def _newest(rows: Sequence[Row]) -> Scenario:
    runs = [one.run for _, one in rows if one is not None]
    return max(runs, key=lambda run: run.facts.run_id).scenario


def _claim(one: Judged | None, ratio: str, that: str) -> tuple[str, Ensemble | None] | None:
    found: list[ClaimVerdict] = (
        [each for each in one.verdict.claims if each.ratio == ratio and each.that == that] if one else []
    )
    return (found[0].word, found[0].judgement.ensemble) if found else None


def _control(one: Judged | None, ratio: str, that: str) -> tuple[str, Ensemble | None] | None:
    found: list[ControlVerdict] = (
        [each for each in one.verdict.controls if each.ratio == ratio and each.that == that] if one else []
    )
    if not found or found[0].judgement is None:
        return None
    judgement = found[0].judgement
    return ("red" if judgement.status == "PASS" else str(judgement.status), judgement.ensemble)
