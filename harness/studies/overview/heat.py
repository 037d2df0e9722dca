# SPDX-License-Identifier: GPL-2.0-only
"""The heat map: scenario x kernel, each cell a status, how many claims held, and the smallest margin."""

from collections.abc import Iterator
from dataclasses import dataclass

from harness.judge.claims import ClaimVerdict
from harness.scenario.model import Bound, Claim, Status
from harness.studies.overview.collection import NOT_DECIDED, Collection, CollectionCell, Column

NEAR = 0.05
"""Claims with a smaller margin are marked: the next kernel may fail them."""


@dataclass(frozen=True)
class HeatCell:
    """``near``: the margin of a claim is below NEAR. ``detail`` is the tooltip."""

    kernel: str
    word: str
    claims: str
    margin: str
    detail: str
    near: bool
    linked: bool


@dataclass(frozen=True)
class HeatRow:
    scenario: str
    title: str
    cells: tuple[HeatCell, ...]


def heat_rows(collection: Collection) -> Iterator[HeatRow]:
    for scenario in collection.scenarios:
        row = collection.row(scenario)
        titles = [entry.judged.run.scenario.title for _, entry in row if entry and entry.judged]
        yield HeatRow(scenario, titles[0] if titles else "", tuple(_cell(column, entry) for column, entry in row))


def _cell(column: Column, entry: CollectionCell | None) -> HeatCell:
    if entry is None or entry.judged is None:
        word = NOT_DECIDED if entry is None else entry.status
        return HeatCell(column.label, word, "", "", entry.reason if entry else "", near=False, linked=False)
    verdict, scenario = entry.judged.verdict, entry.judged.run.scenario
    counted = [claim for claim in verdict.claims if not claim.optional]
    held = sum(claim.counts_as is Status.PASS for claim in counted)
    nearest = min(_margins(scenario.claims, verdict.claims), default=None)
    least, that = nearest if nearest else (None, "")
    return HeatCell(
        kernel=column.label,
        word=entry.status,
        claims=f"{held} of {len(counted)} claims" if counted else "",
        margin="" if least is None else _margin_words(least),
        detail=f"tightest claim: {that}" if that else "",
        near=least is not None and abs(least) < NEAR,
        linked=True,
    )


def _margin_words(least: float) -> str:
    return f"margin {100 * least:.0f} %" if least >= 0 else f"off by {-100 * least:.0f} %"


def _margins(claims: tuple[Claim, ...], verdicts: tuple[ClaimVerdict, ...]) -> Iterator[tuple[float, str]]:
    """The margin of every seed of each claim that counts and is not known to fail."""
    for claim, judged in zip(claims, verdicts, strict=True):
        ensemble = judged.judgement.ensemble
        if ensemble is None or judged.optional or judged.known is not None:
            continue
        yield from ((margin(value, claim.expect), claim.that) for value in ensemble.values.values())


def margin(value: float, expect: Bound) -> float:
    """The distance to the limit as a share of it (of half the width of a two-sided bound); negative outside."""
    low, high = expect.low, expect.high
    if low is not None and high is not None and high > low:
        return min(value - low, high - value) / ((high - low) / 2)
    end = low if low is not None else high or 0.0
    distance = value - end if low is not None else end - value
    return distance / (abs(end) or 1.0)
