# SPDX-License-Identifier: GPL-2.0-only
"""must-pass on the newest package of every series that the suites list."""

import functools
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.commands.common.options import SCENARIOS
from harness.record.store import Store
from harness.scenario.load import load_scenario
from harness.scenario.model import Status
from harness.studies.timeline.sweep import Sweeper, sweep
from lab.base.cache import Cache
from lab.base.errors import BlklabError
from lab.base.units import silent
from lab.kernels.offers import expand, offers
from lab.kernels.resolve import resolve
from lab.session import open_lab

pytestmark = [pytest.mark.network, pytest.mark.vm, pytest.mark.slow, pytest.mark.timeout(3600)]
RANGE = "debian:5.10 .. debian:7.3"


def test_must_pass_on_the_newest_of_every_series(tmp_path: Path) -> None:
    cache = Cache.default()
    try:
        lab = open_lab(cache)
        specs: Sequence[str] = expand(RANGE, functools.partial(offers, cache, silent))
    except BlklabError as error:
        pytest.skip(f"no guest or no package lists here: {error.message}")
    swept = sweep(load_scenario("must-pass", search=SCENARIOS / "selftest"), specs)
    sweeper = Sweeper(lab, Store(tmp_path), functools.partial(resolve, cache=cache), at_once=1)
    for place in range(len(specs)):
        swept = sweeper.extended(swept, place)
    assert not swept.missing
    assert {point.label: point.verdict.status for point in swept.measured} == {
        spec.removeprefix("debian:"): Status.PASS for spec in specs
    }
    assert len(specs) > 2
