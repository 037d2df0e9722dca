# SPDX-License-Identifier: GPL-2.0-only
"""Rows measured and written: claims, regressions, device models, clocks, field reports."""

import sys
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

from harness.base.checkout import PAGES, SCENARIOS, results_root
from harness.commands.boots import specs
from harness.commands.matrix import KERNELS
from harness.commands.options import JOBS, RESULTS, SEEDS, kernel_default, number, tell, write_page
from harness.commands.parser import Command, flag, operand, option
from harness.judge.difference import null_evidence
from harness.record.store import Store
from lab.base.cache import Cache
from lab.base.errors import Misuse
from lab.yaml.strict import names, nearest, quoted
from tools import noise
from tools.command import FOLDER, FURTHER, SOURCE, Measure, measuring, tool
from tools.evidence import pages
from tools.evidence.failures import score_claims
from tools.evidence.pages import EvidencePage, worst_code, zoo_page
from tools.evidence.rows import (
    COMMAND,
    EvidenceRow,
    Topic,
    by_scenario,
    load_out_of_scope,
    load_rows,
)
from tools.evidence.scorer import (
    RowScore,
    null_pairs,
    score,
    score_clocks,
    score_newest,
    score_zoo,
)

_KINDS = ("tree:", "source:")
_REPORTS = PAGES / "field-reports.md"
_PAGES = {Topic.REPORTS: _REPORTS, Topic.SENSITIVITY: _REPORTS, Topic.ZOO: PAGES / "zoo.md"}
"""Pages in the repository; the others are written below the results, into evidence/."""


class MeasureEvidence(Command):
    names: Sequence[str] = operand(
        nargs="*",
        metavar="NAME",
        help=f"topics ({names([*Topic])}; default: all) and rows: a regression, a scenario or a mutant",
    )
    kernels: str | None = option(
        metavar="SPECS",
        help=f"kernels (default for zoo: {KERNELS}; for what the source leaves open of controls: {FURTHER};"
        " for sensitivity: $KERNEL or distro; others show what is stored)",
    )
    source: str = SOURCE
    seeds: int | None = SEEDS
    pairs: int | None = option(
        type=number(0), metavar="N", help="most null pairs of the zoo (default: one for each row)"
    )
    stored: bool = flag("boot nothing: show what stored runs say")
    jobs: int = JOBS
    out: Path | None = option(type=Path, metavar="FILE", help="the page, of one topic")
    results: str | None = RESULTS
    epilog = (
        "Whole topics are written: reports (with sensitivity) and zoo to docs/results, others to evidence/ below the"
        " results. One topic is printed too, and rows that are named are only printed. Exit status: 1 when a ratio of"
        " a report or of both clocks deviates and its scenario does not explain why; 128 when a claim or a regression"
        " is not as declared."
    )

    def __call__(self) -> int:
        if not self.source.startswith(_KINDS):
            raise Misuse(
                f"--source {self.source}: mutants are built from source", remedy="--source source:6.12 or tree:PATH"
            )
        rows, topics = choose(load_rows(SCENARIOS), self.names)
        if self.out and len(topics) > 1:
            raise Misuse("--out names one page", remedy=f"name one topic of {names(topics)}")
        by_topic, codes = {kind: [row for row in rows if row.topic is kind] for kind in Topic}, []
        for topic in topics:
            try:
                page = _page(topic, by_topic, self)
            except Misuse as error:
                tell(f"{topic}: not written: {error}")
                codes.append(error.exit_code)
                continue
            if target := page_of(topic, self):
                write_page(target, page.text)
                tell(f"{topic}: written to {target}")
            if len(topics) == 1:
                print(page.text, end="")
            for sentence in page.wrong:
                tell(f"{topic}: {sentence}")
            codes.append(page.code)
        return worst_code(codes)


def choose(rows: Sequence[EvidenceRow], words: Sequence[str]) -> tuple[list[EvidenceRow], list[Topic]]:
    """The rows and the topics that ``words`` name; without topics those of the rows. Raises Misuse."""
    topics = [topic for topic in Topic if topic in words]
    wanted = [word for word in words if word not in [*Topic]]
    known = {name for row in rows for name in (row.name, row.mutant) if name}
    for word in wanted:
        if word not in known:
            raise Misuse(
                f"no topic, row, scenario or mutant is called {quoted(word)}{nearest(word, {*known, *Topic})}",
                remedy=f"topics: {names([*Topic])}; blklab list shows the scenarios",
            )
    if not wanted:
        return [*rows], topics or [*Topic]
    named = [row for row in rows if {row.name, row.mutant} & {*wanted}]
    mutants = {row.mutant for row in named if row.mutant in wanted}
    # A claim is shown with all rows of its file, or else what makes it fail would be missing.
    files = {row.name for row in named if row.topic is Topic.CONTROLS}
    siblings = [row for row in rows if row.topic is Topic.CONTROLS and row.name in files]
    own = [row for row in siblings if not (mutants and row.mutant) or row.mutant in mutants]
    chosen = [*own, *(row for row in named if row.topic is not Topic.CONTROLS)]
    return chosen, topics or [topic for topic in Topic if any(row.topic is topic for row in chosen)]


def page_of(topic: Topic, options: MeasureEvidence) -> Path | None:
    """The page to write: by default none when only some rows were chosen."""
    if options.out or any(name not in [*Topic] for name in options.names):
        return options.out
    return _PAGES.get(topic) or results_root(options.results) / "evidence" / f"{topic}.md"


_Rows = Mapping[Topic, Sequence[EvidenceRow]]


def _page(topic: Topic, rows: _Rows, options: MeasureEvidence) -> EvidencePage:
    """Raises Misuse when nothing was measured, and what boots raise."""
    if topic is Topic.NOISE:
        return EvidencePage(noise.page())
    own, store = rows[topic], Store(results_root(options.results))
    scores = _scores(topic, own, options, store)
    if not any(it.run for it in scores):
        reasons = "; ".join(dict.fromkeys(it.judgement.reason for it in scores)) or "no run is stored"
        raise Misuse(reasons, remedy=f"{COMMAND} {topic} --kernels debian:6.1 measures what is missing")
    match topic:
        case Topic.CONTROLS:
            return pages.controls_page(own, scores, options.source)
        case Topic.ZOO:
            pairs = null_pairs(scores, _measure(options, FOLDER), null_evidence())
            return zoo_page(own, scores, [*islice(pairs, options.pairs)], load_out_of_scope(SCENARIOS))
        case Topic.CLOCKS:
            wall = [row for row in rows[Topic.CONTROLS] if not row.scenario.timing.exact]
            return pages.clocks_page(scores, score_newest(wall, store, built=False))
    changed = score_newest(rows[Topic.SENSITIVITY], store)
    return pages.reports_page(score_newest(rows[Topic.REPORTS], store), changed)


def _scores(topic: Topic, rows: Sequence[EvidenceRow], options: MeasureEvidence, store: Store) -> Sequence[RowScore]:
    """Rows measured, or those of clocks and reports (with --stored: of sensitivity too) on the newest stored runs."""
    match topic:
        case Topic.CONTROLS:
            kernels = _specs(options, FURTHER)
            return score_claims(rows, options.source, kernels, _measure(options, FOLDER), options.seeds)
        case Topic.ZOO:
            return score_zoo(rows, _specs(options, KERNELS), options.source, _measure(options, FOLDER))
        case Topic.SENSITIVITY if not options.stored:
            return _on_kernels(rows, options, seeds=1)
        case _ if options.kernels and not options.stored:
            _on_kernels(rows, options, seeds=options.seeds)
    return score_clocks(rows, store) if topic is Topic.CLOCKS else score_newest(rows, store)


def _on_kernels(rows: Sequence[EvidenceRow], options: MeasureEvidence, *, seeds: int | None = None) -> list[RowScore]:
    measure, wanted = _measure(options, ""), _specs(options, kernel_default())
    return [it for spec in wanted for own in by_scenario(rows) for it in score(own, spec, measure, seeds=seeds)]


def _measure(options: MeasureEvidence, folder: str) -> Measure:
    return measuring(options.results, options.jobs, folder, boots=not options.stored)


def _specs(options: MeasureEvidence, default: str) -> tuple[str, ...]:
    return specs([options.kernels or default], Cache.default())


main = tool(
    "evidence",
    "Measure claims, published regressions, both clocks and field reports, and write their pages.",
    MeasureEvidence,
)


if __name__ == "__main__":
    sys.exit(main())
