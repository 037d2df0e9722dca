# SPDX-License-Identifier: GPL-2.0-only
"""``blklab patch --dry-run``: what a series touches, what would be measured, and how long that takes."""

import argparse
from collections.abc import Sequence

from harness.base.checkout import results_root
from harness.commands.common.boots import chosen_by, every_scenario, store_of
from harness.commands.common.dry_run import Estimate, print_estimates
from harness.judge.visible import unseen_change
from harness.limits.load import load_scenario
from harness.patch.choice import choice_lines
from harness.patch.report import NOT_SEEN
from harness.patch.series import Branch, Patch, branch_folder
from harness.patch.sources import PatchText, Sources
from harness.report.format import duration, plural
from harness.run.plan import expand
from harness.scenario.model import Scenario
from lab.base.cache import Cache
from lab.base.errors import EXIT_PASS, Misuse
from lab.kernels import packaged, tree
from lab.kernels.tree import KernelSource


def dry_run(options: argparse.Namespace, spec: str, series: Sequence[Patch], cache: Cache, folder: str) -> int:
    """Fetches and builds nothing. Raises CannotJudge for a series that does not apply to a source that is there."""
    source = packaged.kept_source(spec, cache)
    if source is None and not spec.startswith(("source:", "mutant:")):
        raise no_source(spec)
    scenarios = _scenarios(options, source, series, folder)
    if hidden := unseen_change("\n".join(patch.diff for patch in series), scenarios):
        print(f"{NOT_SEEN}: {hidden}")
    sides = len(series) + 1 if options.each else 2
    builds = _builds(source, cache, sides)
    print(f"fetch  {'nothing' if source else f'{spec}, of unknown size and time'}")
    print(f"build  {plural(sides, 'kernel')}, unless they are in the cache: {', '.join(map(_shown, builds))}")
    patched = range(1, sides) if options.each else (len(series),)
    estimates = [
        Estimate(scenario, kernel, len(expand(scenario, options.seeds, arms or None)), arms)
        for scenario in scenarios
        for arms in [tuple(arm for arm in options.arm if arm in scenario.arms)]
        for kernel in (spec, *(f"{spec}, patches: {number}" for number in patched))
    ]
    if estimates:
        print_estimates(estimates, results_root(options.results))
    else:
        print("boots  unknown: no scenario is chosen yet")
    return EXIT_PASS


def no_source(spec: str) -> Misuse:
    return Misuse(f"--base {spec} is not a source", remedy="source:6.12, or DIR@REV of a git tree")


def _scenarios(
    options: argparse.Namespace, source: KernelSource | None, series: Sequence[Patch], folder: str
) -> list[Scenario]:
    change: Sources | PatchText = PatchText(tuple(patch.text for patch in series))
    if source is not None:
        branch = Branch(source, branch_folder(store_of(options, folder).root, source))
        change = Sources(branch.folder, branch.base, branch.with_all(series)[-1])
    every = every_scenario()
    choice = chosen_by(change, every)
    print("\n".join(choice_lines(choice, len(every) if options.all else options.most)))
    if source is None:
        print("by the text of the series alone: what uses its data and headers is known once the source is here")
    elif not choice.touched.certain:
        print("by the text of the source: what really differs is known once both sides are built")
    if options.scenario:
        return [load_scenario(name) for name in options.scenario]
    return every if options.all else [one.scenario for one in choice.candidates[: options.most]]


def _builds(source: KernelSource | None, cache: Cache, sides: int) -> list[float | None]:
    """Seconds of each build, as earlier ones in this cache took; None where there is no record."""
    known = tree.builds(cache)
    first = known.further if source is not None and tree.has_objects(source, cache) else known.first
    return [first or None, *[known.further or None] * (sides - 1)]


def _shown(seconds: float | None) -> str:
    return "unknown" if seconds is None else f"about {duration(seconds)}"
