# SPDX-License-Identifier: GPL-2.0-only
"""Executed functions of a guest: noting them changes no result, and the elevator's are only in its load."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.limits.entries import load_scenario
from harness.record.store import Store
from harness.run.bench import Bench, turns_of_host
from harness.run.plan import Request
from lab.base.cache import Cache
from lab.kernels.resolve import resolve
from lab.session import open_lab
from tools.coverage import observe

pytestmark = [pytest.mark.network, pytest.mark.slow]
TWO = """\
scenario: two
title: Reads of a null_blk device with and without an elevator
clock: virtual
schema: 1
topology: io-cost-null-blk
seeds: 1
window: {ramp: 20ms, runtime: 100ms}
arms:
  none: {queue.scheduler: none}
  mq-deadline: {queue.scheduler: mq-deadline}
loads:
  reads:
    io: {disk: dev, rw: randread, bs: 4k, iodepth: 32}
claims:
  - that: an elevator does not double the cost of a read
    ratio: mq-deadline.reads.io.cpu.per_io / none.reads.io.cpu.per_io
    expect: "< 2"
controls:
  - that: no elevator does not cost as much as one
    ratio: none.reads.io.cpu.per_io / mq-deadline.reads.io.cpu.per_io
    expect: "< 1"
"""


def test_the_elevator_s_functions_are_in_its_load_alone(tmp_path: Path) -> None:
    (tmp_path / "two.yaml").write_text(TWO)
    scenario = load_scenario(str(tmp_path / "two.yaml"), search=tmp_path)
    lab, kernel = open_lab(Cache.default()), resolve("debian:6.1", Cache.default())
    request, store = Request(scenario, kernel), Store(tmp_path / "results")
    plain = Bench(lab, Store(tmp_path / "plain"), turns=turns_of_host(1)).run(request)
    loads = observe(Bench(lab, store, turns=turns_of_host(1)), request)
    assert set(loads) == {"two.none.reads", "two.mq-deadline.reads"}
    assert {"blk_mq_submit_bio", "blk_mq_get_tag"} <= loads["two.none.reads"] & loads["two.mq-deadline.reads"]
    assert "dd_dispatch_request" in loads["two.mq-deadline.reads"] - loads["two.none.reads"]
    (path,) = store.runs("two")
    observed = replace(plain.folder, path=path)
    for cell in plain.folder.facts.cells:
        boots = [run.boot(cell) for run in (plain.folder, observed)]
        assert len({boot.digest for boot in boots if boot}) == 1
