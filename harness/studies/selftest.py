# SPDX-License-Identifier: GPL-2.0-only
"""Selftests: scenarios that break their own guests, and whether each ended with its declared status."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from harness.judge.verdict import Verdict
from harness.limits.bottleneck import Bottleneck
from harness.record.judging import explain_run
from harness.record.store import RunFolder
from harness.run.bench import Bench
from harness.run.plan import Request
from harness.scenario.model import Scenario, Selftest
from lab.base import host
from lab.base.errors import Misuse
from lab.kernels.model import Kernel

SelftestTrial = tuple[Scenario, Verdict, list[str]]
"""A selftest, its verdict, and what was not as declared."""


def run_selftests(bench: Bench, scenarios: Sequence[Scenario], kernel: Kernel) -> Iterator[SelftestTrial]:
    """Run each scenario, several at once, and yield the trials in their order."""

    def trial(scenario: Scenario) -> SelftestTrial:
        if scenario.selftest is None:
            raise Misuse(f"{scenario.path} has no key selftest", remedy="declare the status that it must end with")
        run = bench.run(Request(scenario, kernel, verify=scenario.selftest.verify))
        wrong = [*shortfalls(scenario.selftest, run.verdict), *misnamed(scenario.selftest, run.folder)]
        return scenario, run.verdict, wrong

    with ThreadPoolExecutor(host.usable_cores()) as pool:
        yield from pool.map(trial, scenarios)


def misnamed(wanted: Selftest, run: RunFolder) -> Iterator[str]:
    """A sentence for each load whose bottleneck is not the declared one; arms that are SKIP are left out."""
    explained = {f"{answer.arm}.{answer.load}": answer for answer in explain_run(run)}
    skipped = {cell.arm for cell in run.facts.cells if cell.skip}
    for key, label in wanted.bottleneck.items():
        answer = explained.get(key)
        if isinstance(answer, Bottleneck):
            if answer.label != label:
                yield f"{key}: the bottleneck must be {label}, reported {answer.label} ({answer.figure})"
        elif key.partition(".")[0] not in skipped:
            yield f"{key}: no bottleneck reported: {answer.reason if answer else 'it was not measured'}"


def shortfalls(wanted: Selftest, verdict: Verdict) -> Iterator[str]:
    """A sentence for each difference between a verdict and the declared one."""
    if verdict.status is not wanted.status:
        yield f"status is {verdict.status}, must be {wanted.status}"
    if verdict.exit_code != wanted.exit_code:
        yield f"exit code is {verdict.exit_code}, must be {wanted.exit_code}"
    sentences = [claim.sentence for claim in verdict.claims]
    said = " ".join([*sentences, *(reason for cell in verdict.cells for reason in cell.reasons)])
    if wanted.says not in said:
        yield f'the reasons lack "{wanted.says}": {said[:300]}'
