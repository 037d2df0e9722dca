# SPDX-License-Identifier: GPL-2.0-only
"""The page of the zoo: detection of published regressions, and false alarms."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from harness.judge.cells import Ensemble
from harness.report import markdown
from harness.report.format import figure, plural
from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_LAB_BROKEN, EXIT_PASS
from tools.evidence.pages import EvidencePage, grid, scores_by_row, table_section, write
from tools.evidence.rows import EvidenceRow, RowSide, Topic
from tools.evidence.scorer import NullPair, RowScore

_NONE = "-"


def zoo_page(
    rows: Sequence[EvidenceRow],
    scores: Sequence[RowScore],
    pairs: Sequence[NullPair] = (),
    out: Sequence[tuple[str, str, str]] = (),
) -> EvidencePage:
    """Detection of published regressions, and false alarms."""
    table, mutants = scores_by_row(scores), {score.row: score for score in scores if score.mutant}
    sides = [
        ((row.name, _side(mutants.get(row)), row.expect.text if row.expect else ""), table.get(row, {})) for row in rows
    ]
    wrong = [
        f"{score.row.name} on {_where(score)}: {score.side}, expected {score.expected}"
        for score in scores
        if score.held is False
    ]
    reasons = [
        f"{score.row.name} on {_where(score)}: {score.judgement.reason}"
        for score in scores
        if score.side is RowSide.UNKNOWN
    ]
    alarms = [f"{pair.scenario} on {pair.kernel} against itself: {alarm}" for pair in pairs for alarm in pair.alarms]
    body = [
        *(f"- {line}" for line in zoo_summary(scores, pairs)),
        "",
        *grid(sides, ("regression", "mutant", "good is"), _side),
        "",
        *(_describe(row) for row in rows),
        "",
        *markdown.section("Changes between packaged kernels", _changes(table)),
        *table_section("Bad over good", _PUBLISHED, _publications(rows, table, mutants)),
        *markdown.section("Do not alarm", (f"- {row.name}: {row.decision}" for row in rows if row.decision)),
        *markdown.section("Unexpected or undecided", (f"- {line}" for line in (*reasons, *wrong, *alarms))),
        *table_section("Null pairs", _PAIRS, map(_pair, pairs)),
        *markdown.section("Out of scope", (f"- [{that}]({link}): {because}" for that, link, because in out)),
    ]
    detected = any(score.held and score.expected is RowSide.BAD for score in scores)
    code = EXIT_LAB_BROKEN if wrong or alarms else EXIT_PASS if detected else EXIT_CANNOT_JUDGE
    return EvidencePage(write(Topic.ZOO, body, scores), (*reasons, *wrong, *alarms), code)


_PUBLISHED = ("regression", "published", "measured", "on", "why they differ")
_PAIRS = ("scenario", "kernel", "seeds", "regressions", "claims that differ", "figures", "marked")


def zoo_summary(scores: Sequence[RowScore], pairs: Sequence[NullPair]) -> Iterator[str]:
    """What was detected, what was a false alarm, and what null pairs show."""
    decided = [score for score in scores if score.side is not RowSide.UNKNOWN]
    bad = [score.held for score in decided if score.expected is RowSide.BAD]
    good = [score.held for score in decided if score.expected is RowSide.GOOD]
    covered, known = {name for pair in pairs for name in pair.decided}, {score.row.name for score in scores}
    yield f"detected {sum(map(bool, bad))} of {len(bad)} where the bad side was expected"
    yield f"false alarms {good.count(False)} of {len(good)} where the good side was expected"
    count = plural(len(pairs), "pair")
    yield f"null pairs {count} of {len(covered)} of {plural(len(known), 'regression')}"
    yield f"claims {sum(bool(pair.alarms) for pair in pairs)} of {count} with one that differs"
    marked = [len(pair.marked) for pair in pairs if pair.marked]
    total = sum(pair.figures for pair in pairs)
    yield f"figures {sum(marked)} of {total:,} marked, in {plural(len(marked), 'pair')}"


def _where(score: RowScore) -> str:
    return score.mutant or score.kernel


def _side(score: RowScore | None) -> str:
    if score is None:
        return ""
    if score.side is RowSide.UNKNOWN:
        return "?"
    text = f"{figure(score.ensemble.median)} {score.side}" if score.ensemble else str(score.side)
    return text if score.held else f"**{text}, expected {score.expected}**"


def _describe(row: EvidenceRow) -> str:
    mutant = f", mutant `{row.mutant}`" if row.mutant else ""
    return f"- [{row.name}]({row.link}): {row.that}. `{row.scenario.name}`{mutant}, {row.ratio.text}"


def _changes(table: Mapping[EvidenceRow, Mapping[str, RowScore]]) -> Iterator[str]:
    """Kernels next to each other on different sides, as expected."""
    for row, known in table.items():
        decided = [score for score in known.values() if score.side is not RowSide.UNKNOWN]
        for before, after in pairwise(decided):
            if before.side is not after.side and before.held and after.held:
                yield f"- {row.name}: {before.side} on {before.kernel}, {after.side} on {after.kernel}"


def _publications(
    rows: Sequence[EvidenceRow],
    table: Mapping[EvidenceRow, Mapping[str, RowScore]],
    mutants: Mapping[EvidenceRow, RowScore],
) -> Iterator[tuple[str, ...]]:
    for row in rows:
        score = mutants.get(row)
        if row.published is None or not (score or row in table):
            continue
        value, where = _quotient(score) if score else _of_kernels(row, [*table[row].values()])
        yield row.name, figure(row.published), "?" if value is None else figure(value), where, row.because


def _quotient(score: RowScore) -> tuple[float | None, str]:
    """The figure on the mutant and without it, bad over good."""
    sides = (score.figure, score.other) if score.expected is RowSide.BAD else (score.other, score.figure)
    return _divide(*sides), f"mutant {score.mutant}"


def _of_kernels(row: EvidenceRow, scores: Sequence[RowScore]) -> tuple[float | None, str]:
    """By the latest two kernels next to each other on different sides; a declined report by the latest kernel."""
    if row.decision:
        latest = scores[-1]
        return latest.figure.median if latest.figure else None, latest.kernel
    for before, after in reversed([*pairwise(scores)]):
        if before.expected is not after.expected:
            bad, good = (before, after) if before.expected is RowSide.BAD else (after, before)
            return _divide(bad.figure, good.figure), f"{bad.kernel} / {good.kernel}"
    return None, ""


def _divide(bad: Ensemble | None, good: Ensemble | None) -> float | None:
    return bad.median / good.median if bad and good and good.median else None


def _pair(pair: NullPair) -> tuple[str, ...]:
    lists = (", ".join(pair.decided), "; ".join(pair.alarms), str(pair.figures), ", ".join(pair.marked))
    return pair.scenario, pair.kernel, " + ".join(map(str, pair.seeds)), *(words or _NONE for words in lists)
