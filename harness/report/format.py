# SPDX-License-Identifier: GPL-2.0-only
"""Figures and words as people read them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.judge.cells import CellResult, Ensemble
from harness.judge.claims import XFAIL, XPASS, Judgement
from harness.scenario.model import Status

STYLES: Mapping[str, str] = {
    Status.PASS: "bold green",
    Status.FAIL: "bold red",
    Status.ERROR: "bold magenta",
    Status.MISS: "bold yellow",
    Status.DONE: "bold cyan",
    Status.SKIP: "bold blue",
    XFAIL: "bold yellow",
    XPASS: "bold red",
}
_WORST_FIRST = (Status.FAIL, XPASS, Status.ERROR, Status.MISS, Status.DONE, XFAIL, Status.PASS, Status.SKIP)
_DIGITS = 4
_SMALL = 1e-4
_MINUTE = 60


def figure(value: float) -> str:
    """Four digits that count: ``15,923``, ``329.4``, ``1.000``, ``0.006012``."""
    if value == 0:
        return "0"
    if abs(value) >= 10 ** (_DIGITS - 1):
        return f"{value:,.0f}"
    return f"{value:#.{_DIGITS}g}" if abs(value) >= _SMALL else f"{value:.2e}"


def severity(word: str) -> int:
    """Sorts words of a verdict, failures first; other words come last."""
    return _WORST_FIRST.index(word) if word in _WORST_FIRST else len(_WORST_FIRST)


def limits(ensemble: Ensemble) -> str:
    """``low .. high``, or nothing when the seeds agree to the digits shown."""
    low, high = figure(ensemble.low), figure(ensemble.high)
    return "" if low == high else f"{low} .. {high}"


def spread(ensemble: Ensemble) -> str:
    """``median [low .. high]``, or the one value when the seeds agree to the digits shown."""
    between = limits(ensemble)
    return figure(ensemble.median) + (f" [{between}]" if between else "")


def reported(value: float | None, in_words: str) -> str:
    """The report's figure, or its words in quotation marks where it has none."""
    return f'"{in_words}"' if value is None else f"{value:g}"


def value(judgement: Judgement) -> str:
    """The spread of the seeds, and on the wall clock the interval of the true ratio."""
    if judgement.ensemble is None:
        return "not measured"
    seen = judgement.interval
    if seen is None:
        return spread(judgement.ensemble)
    share = _percent(1 - 2 * seen.level)
    return (
        f"{figure(seen.centre)}, {share} within {figure(seen.low)} .. {figure(seen.high)} by {seen.rounds} boots a side"
    )


def noise(judgement: Judgement) -> str:
    """What the boots and the windows inside them scatter by, empty where that is not known."""
    seen = judgement.scatter
    return f"boots scatter by {_percent(seen.boots)}, windows by {_percent(seen.windows)}" if seen else ""


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def duration(seconds: float) -> str:
    """``8.4 s``, ``72 s`` or ``12 min 5 s``."""
    if seconds < 10:  # noqa: PLR2004
        return f"{seconds:.1f} s"
    if seconds < 2 * _MINUTE:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), _MINUTE)
    return f"{minutes} min {rest} s"


def time_words(ns: float) -> str:
    """Three significant digits: ``8.53 ms``, ``412 us``."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}" if ns < 1000 * size else f"{ns / size:,.0f} {unit}"
    return f"{ns:.0f} ns"


def percent(share: float) -> str:
    """A share in per cent with three digits, or all of those before the point."""
    return f"{100 * share:,.0f} %" if share >= 1 else f"{100 * share:.3g} %"


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def incidents(cells: Sequence[CellResult], whose: str = "") -> Iterator[dict[str, Any]]:
    """``status``, ``where`` and ``reasons`` of cells; those with the same status and the same reasons are one."""
    alike: dict[tuple[str, tuple[str, ...]], dict[str, list[int]]] = {}
    for cell in cells:
        alike.setdefault((str(cell.status), cell.reasons), {}).setdefault(cell.arm, []).append(cell.seed)
    for (status, reasons), arms in alike.items():
        of_seeds: dict[str, list[str]] = {}
        for arm, seeds in arms.items():
            of_seeds.setdefault(", ".join(map(str, seeds)), []).append(arm)
        where = "; ".join(
            f"{'arm' if len(names) == 1 else 'arms'} {', '.join(names)}, {'seeds' if ',' in seeds else 'seed'} {seeds}"
            for seeds, names in of_seeds.items()
        )
        yield {"status": status, "where": whose + where, "reasons": reasons}
