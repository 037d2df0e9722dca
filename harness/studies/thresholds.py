# SPDX-License-Identifier: GPL-2.0-only
"""Null pairs: the same code with another command line or another link, figure by figure.

Whatever differs there is layout, or the seed. The largest difference of each kind of figure is its threshold.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from statistics import median

from harness.judge.cells import CellResult, ensemble_of
from harness.judge.comparison import LARGE, SINGLE, Change, Difference, changes
from harness.judge.thresholds import NullEvidence, kind
from harness.record.judging import Altered, is_built, results_of
from harness.record.store import load_run
from harness.report import markdown
from harness.report.format import plural
from harness.run.plan import Request
from harness.run.runner import measured
from harness.scenario.expand import variant
from harness.scenario.metric_names import METRICS
from harness.scenario.model import Scenario, Status
from harness.studies.zoo.regressions import BAD, Regression
from harness.studies.zoo.score import Visit, arms_of
from lab.base.errors import CannotJudge, Misuse

SEEDS = 2
SAMPLE: Mapping[str, tuple[str, ...]] = {
    "io-cost": ("null-blk-none", "null-blk-mq-deadline"),
    "null-shared-tags": ("none",),
    "shared-queue": ("one-queue-mq-deadline",),
    "page-cache-writes": ("small",),
}
"""Arms with figures of every kind, each a boot of seconds."""
WORD = "printk.time=Y"
"""The value that the parameter has anyway."""
RELINKED = ("throttle-once", "throttle-slices-in-vain")
"""Mutants of blk-throttle, which no arm of ``SAMPLE`` uses: the linker moves what is behind it."""


@dataclass(frozen=True)
class NullFigure:
    """A figure of one arm on the source itself and on its variants, each by seed; ``name`` is ARM.LOAD.ROLE.METRIC."""

    kind: str
    name: str
    base: Mapping[int, float]
    variants: Mapping[str, Mapping[int, float]]


@dataclass(frozen=True)
class ZooDifference:
    """How many figures of a regression's arms differ on both seeds, and how many either threshold marks.

    ``missed`` are marked by the thresholds by kind alone; ``layout`` counts those that only the old one marks.
    ``reason`` says why nothing was counted.
    """

    regression: str
    differ: int = 0
    old: int = 0
    new: int = 0
    missed: tuple[str, ...] = ()
    layout: int = 0
    reason: str = ""


def null_figures(visit: Visit, scenarios: Iterable[Scenario]) -> Iterator[NullFigure]:
    """Measure what is missing of ``scenarios``, whose names are in ``SAMPLE``. Raises what boots raise."""
    source, relinked = visit.resolve(""), {name: visit.resolve(name) for name in RELINKED}
    for scenario in scenarios:
        arms = SAMPLE[scenario.name]
        runs = {"": Request(scenario, source, SEEDS, arms), WORD: Request(_with_word(scenario), source, SEEDS, arms)}
        runs |= {name: Request(scenario, kernel, SEEDS, arms) for name, kernel in relinked.items()}
        cells = {
            name: results_of(measured(visit.lab, request, visit.store, visit.listener, visit.at_once))
            for name, request in runs.items()
        }
        yield from figures_of_null(scenario.name, cells.pop(""), cells)


def _with_word(scenario: Scenario) -> Scenario:
    arms = {}
    for name, arm in scenario.arms.items():
        words = (*arm.topology.kernel_words, WORD)
        arms[name] = replace(arm, topology=replace(arm.topology, kernel_words=words))
    return variant(scenario, "word", arms)


def figures_of_null(
    scenario: str, base: Sequence[CellResult], others: Mapping[str, Sequence[CellResult]]
) -> Iterator[NullFigure]:
    """The figures of ``base`` that have a kind and are not zero."""
    examples = {cell.arm: cell.figures for cell in reversed(base) if cell.figures}
    for arm, key in ((arm, key) for arm, figures in examples.items() for key in figures):
        own, what = ensemble_of(base, arm, key), kind(key, examples[arm])
        if own and what and own.low > 0:
            found = {name: ensemble_of(cells, arm, key) for name, cells in others.items()}
            variants = {name: dict(one.values) for name, one in found.items() if one is not None}
            yield NullFigure(what, ".".join((scenario, arm, *key)), dict(own.values), variants)


def evidence_of(figures: Iterable[NullFigure]) -> dict[str, NullEvidence]:
    """By kind of figure, sorted."""
    kinds: dict[str, NullEvidence] = {}
    for one in figures:
        known = kinds.get(one.kind, NullEvidence(0.0, 0.0, 0, ""))
        changes_of_median = {
            name: abs(median(values.values()) / median(one.base.values()) - 1) for name, values in _paired(one)
        }
        singles = [value for values in (one.base, *one.variants.values()) for value in values.values()]
        single = max(singles) / min(singles) - 1 if min(singles) > 0 else float("inf")
        shares = ((share, f"{one.name} ({name})") for name, share in changes_of_median.items())
        layout, where = max(shares, default=(0.0, ""))
        kinds[one.kind] = NullEvidence(
            max(known.layout, layout),
            max(known.single, single),
            known.pairs + len(changes_of_median),
            where if layout > known.layout else known.where,
        )
    return dict(sorted(kinds.items()))


def _paired(one: NullFigure) -> Iterator[tuple[str, Mapping[int, float]]]:
    for name, values in one.variants.items():
        if values.keys() == one.base.keys():
            yield name, values


def document(kinds: Mapping[str, NullEvidence], kernel: str) -> dict[str, object]:
    """What ``harness.judge.thresholds`` reads."""
    return {"kernel": kernel, "seeds": SEEDS, "kinds": {name: asdict(one) for name, one in kinds.items()}}


def zoo_differences(
    visit: Visit, regressions: Sequence[Regression], known: Mapping[str, NullEvidence]
) -> Iterator[ZooDifference]:
    """From stored runs of the source and its mutants; nothing boots."""
    for one in (regression for regression in regressions if regression.mutant):
        try:
            sides = [_stored(visit, one, name) for name in ("", one.mutant)]
        except CannotJudge as error:
            yield ZooDifference(one.name, reason=error.message)
            continue
        good, bad = sides if one.mutant_is == BAD else reversed(sides)
        old = {_name(each): each for each in changes(good, bad, tuple(METRICS), exact=True)}
        new = {_name(each): each for each in changes(good, bad, tuple(METRICS), exact=True, known=known)}
        judged = [name for name, each in new.items() if each.evidence]
        apart = [name for name in judged if new[name].apart]
        marked = [[name for name in apart if table[name].difference() is Difference.MARKED] for table in (old, new)]
        missed = tuple(name for name in marked[1] if name not in marked[0])
        layout = sum(name not in marked[1] for name in marked[0])
        yield ZooDifference(one.name, len(apart), len(marked[0]), len(marked[1]), missed, layout)


def _name(change: Change) -> str:
    return f"{change.arm}.{change.load}.{change.role}.{change.metric}"


def _stored(visit: Visit, regression: Regression, mutant: str) -> list[CellResult]:
    """The stored run with most seeds of these arms on a build with ``mutant``. Raises CannotJudge without one."""
    scenario, arms = regression.scenario, set(arms_of(regression.scenario, [regression]))
    found: list[list[CellResult]] = []
    for path in visit.store.runs(scenario.name):
        with suppress(Misuse, Altered):
            run = load_run(path)
            facts = run.facts
            built = is_built(facts.kernel.spec) and facts.kernel.mutant == mutant
            if built and facts.scenario_digest == scenario.digest and arms <= {cell.arm for cell in facts.cells}:
                found.append([cell for cell in results_of(run) if cell.arm in arms])
    if not found:
        raise CannotJudge(f"{scenario.name} is not stored on {mutant or 'the source'}")
    return max(found, key=lambda cells: sum(cell.status is Status.PASS for cell in cells))


_PREFACE = f"""\
A null pair is one kernel against the same code with another layout: with `{WORD}`, the default, on the kernel
command line, or linked with {" or ".join(f"`{name}`" for name in RELINKED)}, which change
blk-throttle, and nothing is limited. What differs is layout. `blklab compare` marks a difference between builds of one
configuration where the ranges are apart and the medians differ by more than the largest such difference of that kind of
figure; with one seed a side, by more than any two boots of a null pair. Between kernels of different configuration it
marks from {100 * LARGE.share:g} % on ({SINGLE:g} times with one seed a side).
"""


def threshold_page(
    kinds: Mapping[str, NullEvidence], zoo: Sequence[ZooDifference], kernel: str, qemu: str, command: str
) -> str:
    """docs/results/thresholds.md; ``command`` generates it."""
    rows = (
        (name, str(one.pairs), _percent(one.layout), _percent(one.single), one.where or "-")
        for name, one in kinds.items()
    )
    counted = [one for one in zoo if not one.reason]
    differ, old, new = (sum(getattr(one, name) for one in counted) for name in ("differ", "old", "new"))
    missed, layout = sum(len(one.missed) for one in counted), sum(one.layout for one in counted)
    arms = "; ".join(f"{name} ({', '.join(chosen)})" for name, chosen in SAMPLE.items())
    lines = [
        *markdown.head("What layout alone moves", f"Generated from results by: {command}"),
        _PREFACE,
        *markdown.table(("kind of figure", "null pairs", "medians", "single boots", "largest at"), rows),
        "",
        *markdown.section("True differences of the zoo", _zoo_lines(zoo)),
        f"{differ} figures have ranges that are apart between a regression's two sides. {100 * LARGE.share:g} % marks"
        f" {old} of them, and the thresholds above {new}:",
        "",
        f"- {missed} are marked by these alone: the old threshold missed them;",
        f"- {layout} are marked by the old one alone: layout by itself moves such a figure as far.",
        "",
        f"Arms: {arms}; {plural(SEEDS, 'seed')} each. Kernel: {kernel}. {qemu}. `{command}` measures what is missing.",
    ]
    return "\n".join(lines) + "\n"


def _percent(share: float) -> str:
    return "any" if share == float("inf") else f"{100 * share:.3g} %"


def _zoo_lines(zoo: Sequence[ZooDifference]) -> Iterator[str]:
    rows = [
        (one.regression, str(one.differ), str(one.old), str(one.new), one.missed[0] if one.missed else "-")
        for one in zoo
        if not one.reason
    ]
    yield from markdown.table(
        ("regression", "figures apart", f"by {100 * LARGE.share:g} %", "by kind", "the first that only these mark"),
        rows,
    )
    yield from (f"\n{one.regression}: not counted: {one.reason}" for one in zoo if one.reason)
