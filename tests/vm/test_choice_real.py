# SPDX-License-Identifier: GPL-2.0-only
"""Of the mutants of linux-source-6.12 whose scenario is known, the scenarios that ``blklab patch`` would choose."""

import re
from pathlib import Path

import pytest

from harness.base.checkout import EXECUTED
from harness.commands.boots import every_scenario
from harness.patch.choice import choose, load_coverage
from harness.patch.series import Branch, read_series
from harness.patch.sources import Sources
from lab.base.cache import Cache
from lab.base.errors import CannotJudge
from lab.kernels.model import Release
from lab.kernels.mutants import catalogue, mutation
from lab.kernels.tree import named_source

pytestmark = [pytest.mark.network, pytest.mark.slow, pytest.mark.timeout(1800)]
FIRST, SHARE = 3, 0.9
"""63 of 67 (0.94); by functions and their rarity alone 26."""


def test_the_scenario_that_detects_a_mutant_is_among_the_first_three_without_that_mutant(tmp_path: Path) -> None:
    """The mutant itself is left out of the catalogue; the subject of its commit is its name."""
    source = named_source("source:6.12", Cache.default(), print)
    assert source is not None
    branch, scenarios, mutants = Branch(source, tmp_path), every_scenario(), catalogue()
    coverage = load_coverage(EXECUTED)
    assert coverage is not None
    ranks = []
    for name in sorted(mutants):
        try:
            patch = mutation(name, Release.parse("6.12.0"), mutants).patch
        except CannotJudge:
            continue
        header = re.search(r"^Scenarios: *(.*)$", patch.read_text(), re.MULTILINE)
        right = set(re.split(r"[, ]+", header[1])) if header else set()
        right |= {each.name for each in scenarios for control in each.controls if control.mutant == name}
        # Those of scenarios/hunt are named by path alone.
        right &= {each.name for each in scenarios}
        if not right:
            continue
        (series,) = read_series(patch)
        change = Sources(branch.folder, branch.base, branch.applied(series, branch.base))
        others = {each: versions for each, versions in mutants.items() if each != name}
        chosen = [each.scenario.name for each in choose(change, coverage, scenarios, others).candidates]
        ranks.append(min((chosen.index(each) for each in right if each in chosen), default=len(scenarios)))
        print(f"{name}: {ranks[-1] + 1} of {len(chosen)}: {', '.join(chosen[:FIRST])}", flush=True)
    among = sum(rank < FIRST for rank in ranks)
    print(f"{among} of {len(ranks)} among the first {FIRST}")
    assert len(ranks) >= 60 and among >= SHARE * len(ranks)
