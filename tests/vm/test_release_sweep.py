# SPDX-License-Identifier: GPL-2.0-only
"""must-pass on every kernel package that the suites list."""

import functools
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from harness.base.checkout import SCENARIOS
from harness.grid.lines import GridRow
from harness.grid.measure import Sweeper
from harness.record.store import Store
from harness.run.bench import Bench, turns_of_host
from harness.scenario.load import read_scenario
from harness.scenario.model import Status
from lab.base.cache import Cache
from lab.base.errors import BlklabError
from lab.base.units import silent
from lab.kernels.debian import ALL, expand, offers
from lab.kernels.resolve import resolve
from lab.kernels.store import KIND
from lab.session import Lab, open_lab
from tests.vm.linked_cache import linked_cache

pytestmark = [pytest.mark.network, pytest.mark.slow]
RANGE = "debian:5.10 .. debian:7.3"
SHARES = 12
"""Parts of all packages, so that each test takes minutes. Neighbouring versions are in different parts."""
GONE = "any more"


def opened() -> Lab:
    try:
        return open_lab(Cache.default())
    except BlklabError as error:
        pytest.skip(f"no guest here: {error.message}")


def specs(text: str) -> Sequence[str]:
    try:
        return expand(text, functools.partial(offers, Cache.default(), silent))
    except BlklabError as error:
        pytest.skip(f"no package lists here: {error.message}")


def begun(named: Sequence[str]) -> GridRow:
    return GridRow.of(read_scenario("must-pass", search=SCENARIOS / "selftest"), named)


def test_must_pass_on_the_newest_of_every_series(tmp_path: Path) -> None:
    lab, named = opened(), specs(RANGE)
    bench = Bench(lab, Store(tmp_path), turns=turns_of_host(1))
    row, sweeper = begun(named), Sweeper(bench, functools.partial(resolve, cache=lab.cache))
    for place in range(len(named)):
        row = sweeper.extended(row, place)
    assert not row.missing
    assert {row.labels[place]: run.verdict.status for place, run in row.runs.items()} == {
        spec.removeprefix("debian:"): Status.PASS for spec in named
    }
    assert len(named) > 2


@pytest.mark.parametrize("share", range(SHARES))
def test_must_pass_on_every_package(tmp_path: Path, share: int) -> None:
    """A package that the archive has dropped may be missing, with that reason."""
    lab, named = opened(), specs(ALL)[share::SHARES]
    # The packages of all suites fill 10 GB: none is kept, only the dates for `blklab list --kernels`.
    kernels = linked_cache(tmp_path / "cache", lab.cache.root, ("apt", "pins", "built"))
    bench = Bench(replace(lab, cold=True), Store(tmp_path), turns=turns_of_host(1))
    sweeper = Sweeper(bench, functools.partial(resolve, cache=kernels))
    row = begun(named)
    for place, spec in enumerate(named):
        row = sweeper.extended(row, place)
        said = row.missing.get(place) or row.runs[place].verdict.status
        print(f"{spec}: {said}", flush=True)
        shutil.rmtree(kernels.root / KIND, ignore_errors=True)
    assert all(GONE in reason for reason in row.missing.values()), row.missing
    assert {run.verdict.status for run in row.runs.values()} == {Status.PASS}
