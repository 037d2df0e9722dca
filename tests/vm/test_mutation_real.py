# SPDX-License-Identifier: GPL-2.0-only
"""Five generated mutants: the one kernel judges each as a build of it alone does, and so do shards on workers."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from harness.cli import main
from harness.commands.common.boots import lab_of_host
from harness.commands.common.options import SCENARIOS
from harness.limits.load import load_scenario
from harness.record.judging import judge_run, results_of
from harness.record.store import Store
from harness.run.plan import Request
from harness.run.runner import measured
from harness.studies.mutation.kernel import build_alone, generate
from harness.studies.mutation.trial import Fate, ended_badly, failed_claims
from lab.base import host
from lab.base.cache import Cache
from lab.base.errors import EXIT_PASS
from lab.base.units import silent
from lab.kernels.packaged import source_of
from tests.process.dask_cluster import Cluster

pytestmark = [
    pytest.mark.network,
    pytest.mark.vm,
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(bool(host.missing_needs(host.BUILD_NEEDS)), reason="needs scripts/host-packages --build"),
]
SCENARIO, FILE = "verified-data", "drivers/md/raid1-10.c"
COUNT = 5


WORDS = ("check", "mutants", SCENARIO, "--file", FILE, "--most", "1", "--count", str(COUNT))


def trials(root: Path) -> list[dict[str, Any]]:
    """Those stored, by place, without the time they took."""
    found = [json.loads(path.read_bytes()) for path in root.glob("mutants/*/trials/*.json")]
    return sorted(({**one, "seconds": 0} for one in found), key=lambda one: str(one["place"]))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The mutants, tried on this host."""
    root = tmp_path_factory.mktemp("whole")
    assert main([*WORDS, "--jobs", "1", "--results", str(root)]) == EXIT_PASS
    stored = trials(root)
    assert len(stored) == COUNT
    assert {trial["fate"] for trial in stored} >= {Fate.KILLED, Fate.DIED, Fate.SURVIVED}
    return stored


def test_the_verdict_of_the_one_kernel_is_that_of_a_kernel_for_each(
    whole: list[dict[str, Any]], tmp_path: Path
) -> None:
    cache, lab = Cache.default(), lab_of_host()
    generated = generate(source_of("6.12", cache, tell=silent))
    by_place = {mutant.place: mutant for mutant in generated.found.mutants}
    scenario = load_scenario(SCENARIO, search=SCENARIOS)
    for trial in whole:
        kernel = build_alone(generated, by_place[trial["place"]], cache, silent)
        arms = tuple(name.partition(".")[2] for name in trial["arms"])
        run = measured(lab, Request(scenario, kernel, 1, arms), Store(tmp_path / "alone"), at_once=1)
        cells = [cell for cell in results_of(run) if cell.arm in arms]
        alone = Fate.DIED if ended_badly(cells) else Fate.KILLED if failed_claims(judge_run(run)) else None
        assert alone == (trial["fate"] if trial["fate"] in (Fate.KILLED, Fate.DIED) else None), trial


def test_two_shards_on_dask_workers_find_what_one_host_does(whole: list[dict[str, Any]], tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    cluster, root = Cluster(tmp_path, {**os.environ}), tmp_path / "results"
    try:
        cluster.work()
        cluster.await_workers(1)
        for shard in ("1/2", "2/2"):
            before = len(trials(root))
            words = [*WORDS, "--shard", shard, "--dask", cluster.address, "--results", str(root)]
            assert main(words) == EXIT_PASS
            assert len(trials(root)) > before
    finally:
        cluster.stop()
    assert trials(root) == whole
