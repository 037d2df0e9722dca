# SPDX-License-Identifier: GPL-2.0-only
"""``blklab bisect --good debian:6.12 --bad debian:7.3``: between packaged kernels."""

import argparse
import shlex

from harness.bisect.releases import Releases, bisect_releases, demand_figure, text
from harness.bisect.repository import demand_repository
from harness.commands.common.boots import bench_of, kernel_of, scenario_of, specs
from harness.commands.common.options import tell, words_of
from harness.studies.timeline.sweep import Sweeper, sweep
from lab.base.cache import Cache
from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_PASS, Misuse
from lab.kernels import kconfig
from lab.kernels.git import commit_of
from lab.kernels.release import Release
from lab.session import ready_qemu

DEBIAN = "debian:"


def by_release(options: argparse.Namespace) -> int:
    """Print the two neighbours; with a tree, ``options`` name their tags as the ends from now on."""
    backwards = _series(options.good) > _series(options.bad)
    if options.tree is not None and (backwards or options.figure):
        raise Misuse(
            "git bisect finds the commit that makes a claim fail: not one that fixed it, and not one of a figure",
            remedy="leave out --tree, or give the older series as --good and no --figure",
        )
    if options.tree is not None:
        demand_repository(options.tree)
        for end in (options.good, options.bad):
            commit_of(options.tree, _tag(end))
    scenario = scenario_of(options, claims=not options.figure)
    if options.figure:
        demand_figure(scenario, options.figure)
    ready_qemu(Cache.default(), tell)
    low, high = (options.bad, options.good) if backwards else (options.good, options.bad)
    wanted = specs([low, "..", high], Cache.default())
    ends = sweep(scenario, tuple(reversed(wanted)) if backwards else wanted)
    bench = bench_of(options)
    sweeper = Sweeper(bench, kernel_of, options.seeds, tuple(options.arm))
    releases = bisect_releases(sweeper, ends, options.figure, tell)
    good, bad = (ends.specs[place] for place in (releases.good, releases.bad))
    drifted = kconfig.drift(kernel_of(good).config, kernel_of(bad).config)
    tags = "" if backwards or options.figure else _with_tree(options, good, bad)
    print("\n".join(text(releases, len(drifted.options), tags)))
    options.good, options.bad = _tag(good), _tag(bad)
    return _exit_code(releases)


def _exit_code(releases: Releases) -> int:
    return EXIT_CANNOT_JUDGE if releases.left else EXIT_PASS


def _with_tree(options: argparse.Namespace, good: str, bad: str) -> str:
    """The command that goes on from the two releases to a commit."""
    words = ["blklab", "bisect", options.scenario, "--tree", "DIR", "--good", _tag(good), "--bad", _tag(bad)]
    return shlex.join([*words, *words_of(options, "seeds")])


def _series(spec: str) -> Release:
    try:
        return Release.parse(spec.removeprefix(DEBIAN))
    except ValueError as error:
        raise Misuse(f"{spec} is not a series", remedy="such as debian:6.12") from error


def _tag(spec: str) -> str:
    """Stable releases are no line of history, so the tag is that of the series."""
    return f"v{_series(spec).series}"
