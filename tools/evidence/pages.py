# SPDX-License-Identifier: GPL-2.0-only
"""Pages in Markdown: rows of one topic and their scores."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from harness.judge.cells import Ensemble
from harness.judge.claims import FAR_OFF, Judgement
from harness.noise import ERROR, Interval, interval
from harness.record.store import RunFacts
from harness.report.format import figure, markdown_head, markdown_section, markdown_table, plural, reported, spread
from harness.scenario.model import Claim, Scenario
from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_FAIL, EXIT_LAB_BROKEN, EXIT_PASS
from lab.kernels.model import by_release, short_releases
from tools.evidence.failures import control_cells, prove_claims, shortfalls
from tools.evidence.rows import COMMAND, FACTORS, EvidenceRow, RowSide, Topic
from tools.evidence.scorer import NullPair, RowScore

ROUNDING = 0.005
"""Tolerance of half a per cent where both clocks are compared, because intervals of counts have no width."""
_NONE = "-"
PREFACES: Mapping[Topic, tuple[str, str]] = {
    Topic.CONTROLS: (
        "Claims and what makes them fail",
        """\
Each claim of each scenario, its figure on the kernel without a mutant, and what makes it fail: a mutant, another arm,
load or role, or kernels, with the figure there, in the unit of the claim. Arms, loads and roles are measured in the run
of the claim itself. A kernel is named where it is not the source's own build: claims for other kernels are measured
there. Where no figure is measured, an entry of the file declares what makes the claim fail. A claim that nothing makes
fail is unproven. Scenarios on the wall clock need a host of their own: [clocks.md](clocks.md) has some figures.
""",
    ),
    Topic.ZOO: (
        "Detection of published regressions",
        """\
Each row is a published regression of the block layer: the ratio of the scenario that shows it, and whether it is good
or bad, on distribution kernels and on a build of one source with the mutant. Bold: not the side that was expected. `?`:
not measured, or the seeds disagree; the reason is below. A null pair is a kernel compared with itself under other
seeds: any difference is a false alarm. Its figures are judged by the rule of `blklab compare` for one configuration:
other seeds read other offsets, so a figure is marked where it differs by more than any two boots of one code
([thresholds.md](thresholds.md), measured on another kernel). A report that was declined ("Do not alarm") is good on
every kernel.
""",
    ),
    Topic.CLOCKS: (
        "The same ratios on both clocks",
        """\
Under the virtual clock devices are in the guest, figures repeat exactly, and the range is over seeds. On the wall
clock real drivers run on QEMU's controllers, figures scatter, and the interval over boots has at least 95 %. Both
agree where range and interval overlap, to half a per cent; otherwise the scenario gives the reason.
""",
    ),
    Topic.REPORTS: (
        "Field reports reproduced",
        """\
Each row compares a ratio of a field report with the same ratio under the virtual clock: median over the seeds, and
the range where they differ. Absolute rates are scaled down and not comparable. `-`: not measured, see below the
table. Bold: more than a fifth off.
""",
    ),
}
"""Title and first paragraphs of each page."""


@dataclass(frozen=True)
class EvidencePage:
    """``wrong`` are sentences, one for each score that is not as expected; ``code`` is the exit status."""

    text: str
    wrong: tuple[str, ...] = ()
    code: int = EXIT_PASS


def write(topic: Topic, body: Iterable[str], scores: Iterable[RowScore] = ()) -> str:
    """A page: its title, its preface, ``body``, and the kernels and QEMUs of the scores."""
    title, preface = PREFACES[topic]
    command = f"{COMMAND} {topic}"
    lines = [*markdown_head(title, f"Generated from results by: {command}"), preface, *body]
    return "\n".join((*lines, *_footer(scores, command))).rstrip("\n") + "\n"


def _footer(scores: Iterable[RowScore], command: str) -> Iterator[str]:
    """The kernels, and the command that repeats them: with ``--seeds`` where a run had fewer than its scenario."""
    runs: dict[str, list[RunFacts]] = {}
    fewer: set[int] = set()
    for score in scores:
        if score.run and not score.mutant:
            runs.setdefault(score.kernel, []).append(score.run.facts)
            if len(score.run.facts.seeds) < score.row.scenario.seeds:
                fewer.add(len(score.run.facts.seeds))
    if runs:
        kernels = ", ".join(
            f"{release} ({_seeds(runs[release])}{_origin(runs[release][0].kernel.spec)})"
            for release in sorted(runs, key=by_release)
        )
        qemu = "; ".join(dict.fromkeys(facts.qemu for many in runs.values() for facts in many if facts.qemu))
        words = f"{command} --seeds {min(fewer)}" if fewer else command
        yield f"Kernels: {kernels}. {qemu}. `{words}` measures what is missing."


def _seeds(runs: Iterable[RunFacts]) -> str:
    fewest, *_, most = sorted(2 * [len(facts.seeds) for facts in runs])
    return plural(most, "seed") if fewest == most else f"{fewest} to {most} seeds"


def _origin(spec: str) -> str:
    kind, _, wanted = spec.partition(":")
    # Paths of the host that measured stay out of the page.
    built = {"tree": ", built from a tree", "source": ", built from source"}
    return f", ubuntu:{wanted}" if kind == "ubuntu" else built.get(kind, "")


def grid(
    rows: Sequence[tuple[Sequence[str], Mapping[str, RowScore]]], first: Sequence[str], cell: Callable[[RowScore], str]
) -> Iterator[str]:
    """A table with the kernels as columns; each row has its first cells, and what it has by release."""
    releases = sorted({release for _, by_kernel in rows for release in by_kernel}, key=by_release)
    lines = [(*words, *(cell(known[at]) if at in known else _NONE for at in releases)) for words, known in rows]
    yield from markdown_table((*first, *short_releases(releases)), lines)


def scores_by_row(scores: Iterable[RowScore]) -> dict[EvidenceRow, dict[str, RowScore]]:
    """For each row its scores by release; those of mutants are left out."""
    table: dict[EvidenceRow, dict[str, RowScore]] = {}
    for score in scores:
        if not score.mutant:
            table.setdefault(score.row, {})[score.kernel] = score
    return table


def controls_page(rows: Sequence[EvidenceRow], scores: Sequence[RowScore], source: str) -> EvidencePage:
    """Each claim and what makes it fail."""
    proofs = list(prove_claims(rows, scores, source))
    proven, unproven = sum(proof.proven for proof in proofs), [proof for proof in proofs if proof.unproven]
    against_kernel = sum(proof.against_kernel for proof in proofs)
    files: dict[str, list[tuple[str, ...]]] = {}
    for proof in proofs:
        files.setdefault(proof.row.scenario.name, []).append(proof.cells)
    body = [
        f"{plural(len(proofs), 'claim')}: {proven} fail by a measured figure, {len(unproven)} are unproven, and"
        f" {len(proofs) - proven - len(unproven)} are declared to fail, not measured here. Source: {source}.",
        f"{against_kernel} of the {proven} fail on a mutant or another kernel. {proven - against_kernel} fail only in"
        " another arm, load or role of their file: there the figure differs, and no fault of a kernel was seen.",
        "",
        *markdown_section("Unproven", (f"- `{proof.row.name}`: {proof.row.that}" for proof in unproven)),
        *table_section(
            "Controls on mutants",
            ("mutant", "scenario", "figure", "must be", "without the mutant"),
            control_cells(scores, source),
        ),
    ]
    for name, cells in files.items():
        body += table_section(name, ("claim", "bound", "figure", "fails by"), cells)
    wrong = tuple(shortfalls(rows, scores, source))
    unmeasured = any(score.mutant and not score.run for score in scores)
    code = (EXIT_CANNOT_JUDGE if unmeasured else EXIT_LAB_BROKEN) if wrong else EXIT_PASS
    return EvidencePage(write(Topic.CONTROLS, body, scores), wrong, code)


def table_section(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    lines = list(rows)
    yield from markdown_section(title, markdown_table(head, lines) if lines else ())


def reports_page(scores: Sequence[RowScore], changed: Sequence[RowScore] = ()) -> EvidencePage:
    """Ratios of field reports, kernel by kernel, and how far they move with fitted parameters (``changed``)."""
    files = {score.row.scenario.name: score.row.scenario for score in scores}
    reports = {name: scenario.source.report if scenario.source else "" for name, scenario in files.items()}
    body: list[str] = []
    # Scenarios of one report come together.
    for name in sorted(files, key=lambda name: (reports[name], name)):
        own = [score for score in scores if score.row.scenario.name == name]
        body += [*_report(files[name], own), *sensitivity_lines([it for it in changed if it.row.name == name])]
    wrong = tuple(
        f"deviates by more than a fifth, unexplained: {name} on {score.kernel}: {score.row.that}:"
        f" reported {reported(score.row.published, score.row.in_words)}, measured {spread(score.ensemble)}"
        for score in scores
        if (name := score.row.name) and score.ensemble and is_far(score) and not score.row.because
    )
    return EvidencePage(write(Topic.REPORTS, body, scores), wrong, EXIT_FAIL if wrong else EXIT_PASS)


def is_far(score: RowScore) -> bool:
    """Whether the median is off the report's figure by more than FAR_OFF; False without either."""
    if score.ensemble is None or score.row.published is None:
        return False
    return abs(score.ensemble.median / score.row.published - 1) > FAR_OFF


def _report(scenario: Scenario, scores: Sequence[RowScore]) -> Iterator[str]:
    yield from (f"## {scenario.name}: {scenario.title}", "")
    if source := scenario.source:
        kernel = f", Linux {source.kernel}" if source.kernel else ""
        yield from (f"From {', '.join(filter(None, (source.report, source.by, source.on)))}{kernel}.", "")
    rows = [((row.that, reported(row.published, row.in_words)), known) for row, known in scores_by_row(scores).items()]
    yield from (*grid(rows, ("ratio", "reported"), _reproduction_text), "")
    notes = [f"- {row.that}: {row.because}" for row in dict.fromkeys(it.row for it in scores) if row.because]
    lacking: dict[str, list[str]] = {}
    for score in scores:
        if score.ensemble is None:
            reason = score.judgement.reason.replace(score.kernel, "the kernel")
            lacking.setdefault(f"- {score.row.that}: not measured: {reason}", []).append(score.kernel)
    notes += [f"{text} ({', '.join(kernels)})" for text, kernels in lacking.items()]
    origins = dict.fromkeys(origin for arm in scenario.arms.values() for origin in arm.topology.origins)
    notes += [f"- fitted: `{origin.of}` on {origin.text}" for origin in origins if origin.kind == "fitted"]
    yield from (*notes, "") if notes else ()


def _reproduction_text(score: RowScore) -> str:
    text = spread(score.ensemble) if score.ensemble else _NONE
    return f"**{text}**" if is_far(score) else text


def sensitivity_lines(scores: Sequence[RowScore]) -> Iterator[str]:
    """A table for each kernel: parameter, ratio, and its median at each of FACTORS."""
    for release in dict.fromkeys(score.kernel for score in scores):
        medians = {
            (score.row.parameter, score.row.that, score.row.factor): figure(score.ensemble.median)
            for score in scores
            if score.kernel == release and score.ensemble
        }
        keys = dict.fromkeys(key[:2] for key in medians)
        rows = [(f"`{of}`", that, *(medians.get((of, that, at), _NONE) for at in FACTORS)) for of, that in keys]
        if rows:
            yield from (f"Ratios with fitted parameters changed (kernel {release}, one seed):", "")
            yield from markdown_table(("parameter", "ratio", *(f"x {factor:g}" for factor in FACTORS)), rows)
            yield ""


def clocks_page(scores: Sequence[RowScore], claims: Sequence[RowScore] = ()) -> EvidencePage:
    """Ratios on both clocks, and the claims on the wall clock."""
    rows = [
        (
            ", ".join(dict.fromkeys((score.row.name, score.row.twin.name if score.row.twin else ""))),
            score.row.that,
            score.kernel,
            spread(score.other) if score.other else _NONE,
            _wall(score.judgement),
            {True: "yes", False: "**no**", None: _NONE}[agree(score)],
        )
        for score in scores
    ]
    apart = {(it.row.name, it.row.that): it.row.because for it in scores if agree(it) is False}
    shown = [
        (score.row.name, score.row.that, score.kernel, _wall(score.judgement), score.row.expect.text)
        for score in claims
        if score.ensemble and score.row.expect and isinstance(score.row.entry, Claim)
    ]
    head = ("scenario", "ratio", "kernel", "virtual clock", "wall clock", "agree")
    body = [
        *markdown_table(head, rows),
        "",
        *(f"- {name}: {that}: {because or 'not explained'}" for (name, that), because in apart.items()),
        "",
        *table_section("Claims on the wall clock", ("scenario", "claim", "kernel", "measured", "expected"), shown),
    ]
    wrong = tuple(
        f"the clocks differ and {score.row.name} does not explain why: {score.row.that} on {score.kernel}"
        for score in scores
        if agree(score) is False and not score.row.because
    )
    return EvidencePage(write(Topic.CLOCKS, body, scores), wrong, EXIT_FAIL if wrong else EXIT_PASS)


def agree(score: RowScore) -> bool | None:
    """Whether the range over seeds and the interval over boots overlap; None without either."""
    seen = interval_of(score.judgement)
    if seen is None or score.other is None:
        return None
    near = ROUNDING * abs(score.other.median)
    return seen.low - near <= score.other.high and score.other.low <= seen.high + near


def interval_of(judgement: Judgement) -> Interval | None:
    """The interval of the true ratio, at 95 %; None with too few boots."""
    values = judgement.ensemble.values if judgement.ensemble else {}
    return interval([value for _, value in sorted(values.items())], ERROR)


def _wall(judgement: Judgement) -> str:
    if judgement.ensemble is None:
        return _NONE
    seen, boots = interval_of(judgement), plural(len(judgement.ensemble.values), "boot")
    if seen is None:
        return f"{figure(judgement.ensemble.median)}, {boots}: too few"
    return f"{figure(seen.centre)} [{figure(seen.low)} .. {figure(seen.high)}], {boots}"


def worst_code(codes: Iterable[int]) -> int:
    """The exit status of several runs: a broken lab, then a failed kernel, then a run that could not be judged."""
    return max(codes, key=lambda code: (code >= EXIT_LAB_BROKEN, code == EXIT_FAIL, code), default=EXIT_PASS)


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
        *markdown_section("Changes between packaged kernels", _changes(table)),
        *table_section("Bad over good", _PUBLISHED, _publications(rows, table, mutants)),
        *markdown_section("Do not alarm", (f"- {row.name}: {row.decision}" for row in rows if row.decision)),
        *markdown_section("Unexpected or undecided", (f"- {line}" for line in (*reasons, *wrong, *alarms))),
        *table_section("Null pairs", _PAIRS, map(_pair, pairs)),
        *markdown_section("Out of scope", (f"- [{that}]({link}): {because}" for that, link, because in out)),
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
