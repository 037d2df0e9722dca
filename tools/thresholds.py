# SPDX-License-Identifier: GPL-2.0-only
"""Null pairs: the same code with another command line or another link, figure by figure.

Whatever differs there is layout, or the seed. The largest difference of each kind of figure is its threshold.
"""

import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness import fitted
from harness.base.checkout import PAGES, SCENARIOS
from harness.base.files import write_json
from harness.commands.boots import kernel_of
from harness.commands.options import JOBS, RESULTS, SOME_SCENARIOS, tell, write_page
from harness.commands.parser import Command
from harness.judge.cells import CellResult, Ensemble, Evidence, arms_needed, ensemble_of
from harness.judge.claims import layout_by_kind, margin_of
from harness.judge.difference import DATA, LARGE, SHORT_WINDOWS, NullEvidence, kind
from harness.limits.entries import load_scenario
from harness.record.judging import results_of
from harness.report.format import markdown_head, markdown_table, percent, plural
from harness.scenario.load import LAYOUT_WORD, in_another_layout
from harness.scenario.model import Claim, Scenario
from lab.base.errors import EXIT_PASS, CannotJudge, Misuse
from lab.qemu.probe import find_qemu
from lab.yaml.strict import names, nearest
from tools.command import FOLDER, FURTHER, SOURCE, Measure, command, measuring, tool
from tools.evidence.rows import EvidenceRow, arms_of, load_zoo, shipped_scenarios
from tools.evidence.scorer import evidence_from, ratio_figure

COMMAND = command("thresholds")
Json = Mapping[str, Any]
SEEDS = 2
"""Of the source. Its variants have the first of them."""
SEVERAL, SEVERAL_SEEDS, TWICE = ("debian:6.1", "debian:6.12"), 3, f"{LAYOUT_WORD} twice"
"""Samples on several CPUs: their kernels, whose layouts are those of command lines, and the seeds of each layout."""
MUCH = 0.1
"""Kinds that layout moves by this share and more, and those of short windows, have a name in one line and no row."""
MORE: Mapping[str, tuple[str, ...]] = {
    "io-cost": ("null-blk-none", "null-blk-mq-deadline"),
    "shared-queue": ("one-queue-mq-deadline",),
    "null-lines": ("queues", "one-queue", "no-wbt"),
    "scsi-lines": ("plain",),
    "device-lines": ("null-blk", "scsi-debug", "nvmet-tcp", "dm-stripe", "md-raid1"),
    "md-locks": ("raid10", "raid1", "bitmap"),
}
"""Arms beside those of the zoo: a busy CPU, a victim of one I/O a second, and all that are on several CPUs."""
RELINKED = ("nr-requests-ignored", "raid1-one-copy", "throttle-slices-in-vain")
"""Mutants after whose code the linker moves the rest: of 3,090 pages of text, they shift 946 (from blk-mq.c on), 494
(from raid1.c on) and 102 (from blk-throttle.c on). A change that fits into a function's alignment shifts none. Null
pairs of an arm are the first two of which it executes nothing."""


@dataclass(frozen=True)
class NullSample:
    """Arms of a scenario that null pairs measure."""

    scenario: Scenario
    arms: tuple[str, ...]

    @property
    def several(self) -> bool:
        return all(self.scenario.arms[name].topology.processors.several for name in self.arms)

    @property
    def relinked(self) -> tuple[str, ...]:
        """Mutants of code that the arms do not execute."""
        arms = [self.scenario.arms[name] for name in self.arms]
        settings = {key for arm in arms for key in arm.queue}
        levels = {stack.level for arm in arms for stack in arm.topology.stacks.values()}
        executed = ("nr_requests" in settings, "raid1" in levels, any(key.startswith("throttle/") for key in settings))
        return tuple(name for name, here in zip(RELINKED, executed, strict=True) if not here)[:2]


def samples(regressions: Sequence[EvidenceRow], search: Path) -> tuple[NullSample, ...]:
    """The arms of the zoo's ratios on one CPU, in which true differences are counted, and ``MORE``."""
    own = {sample.scenario.name: sample.scenario for sample in regressions}
    zoo = (
        NullSample(sample, arms_of([row for row in regressions if row.scenario is sample])) for sample in own.values()
    )
    alone = (sample for sample in zoo if not sample.several)
    return (*alone, *(NullSample(load_scenario(name, search=search), arms) for name, arms in MORE.items()))


@dataclass(frozen=True)
class NullFigure:
    """A figure of one arm on the source itself and on its variants, each by seed; ``name`` is ARM.LOAD.ROLE.METRIC."""

    kind: str
    name: str
    base: Mapping[int, float]
    variants: Mapping[str, Mapping[int, float]]

    @property
    def arm(self) -> str:
        return ".".join(self.name.split(".")[:2])

    @property
    def seeds(self) -> float:
        """The largest difference between two boots of one layout."""
        return max(spread(values.values()) for values in (self.base, *self.variants.values()))

    @property
    def single(self) -> float:
        """The largest difference between any two boots."""
        return spread([value for values in (self.base, *self.variants.values()) for value in values.values()])

    def moved(self) -> Iterator[tuple[str, float]]:
        """Each variant and how far it is from the base, for each common seed. Medians of more seeds scatter less."""
        for name, values in self.variants.items():
            for seed in sorted(self.base.keys() & values.keys()):
                yield name, spread((self.base[seed], values[seed]))


def spread(values: Iterable[float]) -> float:
    """By how much the largest value is above the smallest, relative to that."""
    ordered = sorted(values)
    return ordered[-1] / ordered[0] - 1


def null_figures(measure: Measure, source: str, chosen: Iterable[NullSample]) -> Iterator[NullFigure]:
    """Measure what is missing. Raises what boots raise."""
    for sample in chosen:
        for spec in SEVERAL if sample.several else (source,):
            runs = _runs(sample, spec)
            cells = {
                name: results_of(measure(scenario, kernel, sample.arms, seeds))
                for name, (scenario, kernel, seeds) in runs.items()
            }
            yield from figures_of_null(sample.scenario.name, cells.pop(""), cells)


def _runs(sample: NullSample, spec: str) -> dict[str, tuple[Scenario, str, int]]:
    """Scenario, kernel and seeds of the kernel itself, which has no name, and of each other layout."""
    own, word = sample.scenario, in_another_layout(sample.scenario)
    if sample.several:
        layouts = {"": own, LAYOUT_WORD: word, TWICE: in_another_layout(word)}
        return {name: (scenario, spec, SEVERAL_SEEDS) for name, scenario in layouts.items()}
    relinked = {name: (own, f"{spec}+{name}", 1) for name in sample.relinked}
    return {"": (own, spec, SEEDS), LAYOUT_WORD: (word, spec, 1), **relinked}


def figures_of_null(
    scenario: str, base: Sequence[CellResult], others: Mapping[str, Sequence[CellResult]]
) -> Iterator[NullFigure]:
    """The figures of ``base`` that have a kind and are zero in no boot: nothing is relative to zero."""
    examples = {cell.arm: cell.figures for cell in reversed(base) if cell.figures}
    for arm, key in ((arm, key) for arm, figures in examples.items() for key in figures):
        own, what = ensemble_of(base, arm, key), kind(key, examples[arm])
        if own and what:
            ensembles = {name: ensemble_of(cells, arm, key) for name, cells in others.items()}
            variants = {name: dict(ensemble.values) for name, ensemble in ensembles.items() if ensemble is not None}
            if all(min(values.values()) > 0 for values in (own.values, *variants.values())):
                yield NullFigure(what, ".".join((scenario, arm, *key)), dict(own.values), variants)


def evidence_of(figures: Iterable[NullFigure]) -> dict[str, NullEvidence]:
    """By kind of figure, sorted."""
    kinds: dict[str, list[NullFigure]] = {}
    for figure in figures:
        kinds.setdefault(figure.kind, []).append(figure)
    return {name: _evidence(group) for name, group in sorted(kinds.items())}


def _evidence(figures: Sequence[NullFigure]) -> NullEvidence:
    pairs = [(share, f"{figure.name} ({name})") for figure in figures for name, share in figure.moved()]
    layout, where = max(pairs, default=(0.0, ""))
    return NullEvidence(
        layout,
        max(figure.seeds for figure in figures),
        max(figure.single for figure in figures),
        len(pairs),
        len({figure.arm for figure in figures if figure.single}),
        where if layout else "",
    )


def claim_moves(measure: Measure, specs: Sequence[str], scenarios: Iterable[Scenario]) -> Iterator[tuple[str, Json]]:
    """The scenarios that were measured: what layout may move their claims, on the first kernel that has a figure.

    A scenario with a claim that the kinds of its figures leave within layout is measured in another layout too.
    """
    for scenario in scenarios:
        own: dict[str, tuple[float, float]] = {}
        for spec in specs:
            if all(claim.ratio.text in own for claim in scenario.claims):
                break
            with suppress(CannotJudge):
                own |= {ratio: pair for ratio, pair in _moved(measure, spec, scenario) if ratio not in own}
        if own:
            yield scenario.name, {"measured": scenario.measurement_digest, "ratios": own}


def _moved(measure: Measure, spec: str, scenario: Scenario) -> Iterator[tuple[str, tuple[float, float]]]:
    base = _single(measure, spec, scenario, ())
    figures = {claim: values for claim in scenario.claims if (values := _value(claim, base))}
    layouts = {claim: layout_by_kind(claim.ratio, base) for claim in figures}
    near = [claim for claim, values in figures.items() if margin_of(values, claim.expect) < layouts[claim]]
    if near:
        arms = arms_needed(claim.ratio for claim in near)
        chosen = tuple(arm for arm in scenario.arms if arm in arms)
        twin = _single(measure, spec, in_another_layout(scenario), chosen)
        for claim in near:
            moved = _value(claim, twin)
            pair = figures[claim].median, moved.median if moved else 0.0
            layouts[claim] = fitted.TWINS * spread(pair) if min(pair) > 0 else math.inf
    for claim, values in figures.items():
        yield claim.ratio.text, (values.median, layouts[claim])


def _single(measure: Measure, spec: str, scenario: Scenario, arms: Sequence[str]) -> Evidence:
    return evidence_from(scenario, results_of(measure(scenario, spec, arms, 1)))


def _value(claim: Claim, evidence: Evidence) -> Ensemble | None:
    """The claim's figure under the first seed; None where it was not measured."""
    return ratio_figure(claim.ratio, evidence, (1,))


_STORED = ("layout", "seeds", "single", "pairs", "arms", "where")


def document(kinds: Mapping[str, NullEvidence], claims: Mapping[str, Json], kernel: str) -> dict[str, object]:
    """What ``harness.judge.difference`` reads."""
    return {
        "kernel": kernel,
        "seeds": SEEDS,
        "kinds": {name: {key: asdict(kind)[key] for key in _STORED} for name, kind in kinds.items()},
        "claims": dict(claims),
    }


_PREFACE = f"""\
A null pair is one kernel against the same code. Another layout, under the same seed, is that of one more word on
the kernel command line (`{LAYOUT_WORD}`, the default), or of a kernel linked with a mutant of code that the arm does
not execute: the first two such of {", ".join(f"`{name}`" for name in RELINKED)}. Arms on several CPUs
are of {" and ".join(SEVERAL)}, each under {SEVERAL_SEEDS} seeds, with that word once and twice.
Other seeds are boots of one layout under different seeds, which read other offsets. Two boots are any two of an arm.
Each column has the largest difference of that kind of figure; figures that are zero in a boot have none. Lines of
shared tags are of arms in which the CPUs share those of a host: which of them use one request's lines is chance.

`blklab compare` and `blklab patch` mark a difference between builds of one configuration where the ranges are apart
and the medians, over the same seeds, differ by more than another layout moves them; with one seed a side, or other
seeds (null pairs of the zoo), by more than any two boots. A kind whose figures differ in fewer than {fitted.LEAST_ARMS}
arms has too little evidence for a small threshold (percentiles are equal while they fall into one bin of fio's): there
it is at least the one between kernels of different configuration, {100 * LARGE:g} %, and {fitted.SINGLE:g} times
with one seed a side.
A claim whose bound is nearer than its figures' kinds are moved is marked "within layout". The ratio of a shipped one
is measured in another layout then, and {fitted.TWINS} times what moved it decides (`thresholds.json`, claims).
"""


def threshold_page(
    kinds: Mapping[str, NullEvidence], chosen: Sequence[NullSample], measured_on: str, command: str
) -> str:
    """docs/results/thresholds.md; ``command`` generates it."""
    arms = "; ".join(f"{sample.scenario.name} ({', '.join(sample.arms)})" for sample in chosen)
    moved = {name: evidence.usable().layout for name, evidence in kinds.items()}
    rows = {name: each for name, each in kinds.items() if moved[name] < MUCH and not name.endswith(SHORT_WINDOWS)}
    lines = [
        *markdown_head("What layout alone moves", f"Generated from results by: {command}"),
        _PREFACE,
        *markdown_table(_COLUMNS, (_row(name, evidence) for name, evidence in rows.items())),
        "",
        f"Moved by {percent(MUCH)} or more, or rates and latencies of windows below {fitted.SHORT // 1_000_000} ms"
        " (rows: `thresholds.json`): "
        + "; ".join(f"{name} ({percent(share)})" for name, share in moved.items() if name not in rows),
        "",
        f"Arms: {arms}; {plural(SEEDS, 'seed')}, the other layouts one. {measured_on}."
        f" `{command}` measures what is missing.",
    ]
    return "\n".join(lines) + "\n"


_COLUMNS = (
    "kind of figure",
    "null pairs",
    "arms that differ",
    "another layout",
    "other seeds",
    "two boots",
    "threshold",
    "one seed a side",
    "layout moves most",
)


def _row(name: str, evidence: NullEvidence) -> tuple[str, ...]:
    used = evidence.usable()
    shares = (evidence.layout, evidence.seeds, evidence.single, used.layout, used.single)
    return (name, str(evidence.pairs), str(evidence.arms), *map(percent, shares), evidence.where or "-")


class MeasureThresholds(Command):
    scenarios: Sequence[str] = SOME_SCENARIOS.but(help="measure only these and write nothing (default: all)")
    source: str = SOURCE
    jobs: int = JOBS
    results: str | None = RESULTS

    def __call__(self) -> int:
        regressions = load_zoo(SCENARIOS)
        known = {sample.scenario.name: sample for sample in samples(regressions, SCENARIOS)}
        for name in self.scenarios:
            if name not in known:
                raise Misuse(f"thresholds do not use {name}{nearest(name, known)}", remedy=f"one of {names(known)}")
        chosen = [known[name] for name in self.scenarios or known]
        runs = measuring(self.results, self.jobs, FOLDER)
        kinds = evidence_of(null_figures(runs, self.source, chosen))
        for name, shares in kinds.items():
            print(f"{name}: {shares.pairs} null pairs, layouts {shares.layout:.3%}, any two boots {shares.single:.3%}")
        if self.scenarios:
            return EXIT_PASS
        kernel = kernel_of(self.source).release
        # Which of several CPUs share tags is chance, and two layouts do not bound chance.
        exact = (scenario for scenario in shipped_scenarios(SCENARIOS) if scenario.timing.exact)
        virtual = [model for model in exact if not any(arm.topology.processors.several for arm in model.arms.values())]
        claims = dict(claim_moves(runs, (self.source, *FURTHER.split()), virtual))
        write_json(DATA, document(kinds, claims, kernel))
        page = PAGES / "thresholds.md"
        releases = ", ".join((kernel, *(kernel_of(spec).release for spec in SEVERAL)))
        measured_on = f"Kernels: {releases}. QEMU {find_qemu().version_text}"
        text = threshold_page(kinds, chosen, measured_on, COMMAND)
        write_page(page, text)
        tell(f"thresholds of {len(kinds)} kinds of figures written to {DATA.name} and {page}")
        return EXIT_PASS


main = tool("thresholds", "Measure how far layout moves each kind of figure.", MeasureThresholds)


if __name__ == "__main__":
    sys.exit(main())
