# SPDX-License-Identifier: GPL-2.0-only
"""Three generated mutants: the kernel that has all of them judges each as a build of it alone does."""

import json
from pathlib import Path

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

pytestmark = [
    pytest.mark.network,
    pytest.mark.vm,
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(bool(host.missing_needs(host.BUILD_NEEDS)), reason="needs scripts/host-packages --build"),
]
SCENARIO = "page-cache-writes"
COUNT = 3


def test_the_verdict_of_the_one_kernel_is_that_of_a_kernel_for_each(tmp_path: Path) -> None:
    words = ["check", "mutants", SCENARIO, "--file", "block/blk-mq.c", "--most", "1", "--jobs", "1"]
    assert main([*words, "--count", str(COUNT), "--results", str(tmp_path)]) == EXIT_PASS
    stored = [json.loads(path.read_bytes()) for path in tmp_path.glob("mutants/*/trials/*.json")]
    assert len(stored) == COUNT
    cache, lab = Cache.default(), lab_of_host()
    generated = generate(source_of("6.12", cache, tell=silent))
    by_place = {mutant.place: mutant for mutant in generated.found.mutants}
    scenario = load_scenario(SCENARIO, search=SCENARIOS)
    for trial in stored:
        kernel = build_alone(generated, by_place[trial["place"]], cache, silent)
        arms = tuple(name.partition(".")[2] for name in trial["arms"])
        run = measured(lab, Request(scenario, kernel, 1, arms), Store(tmp_path / "alone"), at_once=1)
        cells = [cell for cell in results_of(run) if cell.arm in arms]
        alone = Fate.DIED if ended_badly(cells) else Fate.KILLED if failed_claims(judge_run(run)) else None
        assert alone == (trial["fate"] if trial["fate"] in (Fate.KILLED, Fate.DIED) else None), trial
