# SPDX-License-Identifier: GPL-2.0-only
"""Verdicts with something of everything, for the formats that other programs read."""

import io
from dataclasses import replace

from rich.console import Console

from harness.judge.cells import CellResult
from harness.judge.verdict import Verdict, judge
from harness.record.store import KernelFacts, PlannedCell, RunFacts
from harness.report.claims import JudgedRun
from harness.report.terminal.run import Detail, print_verdict
from harness.scenario.model import KnownFailure, Scenario, Status
from lab.base.record import Outcome
from tests.unit.analysis_samples import AT_LEAST, AT_MOST, SEEDS, cells, claim, control, ratio, scenario

TEST = KernelFacts("debian:5.10", "5.10.0-46-amd64", "Debian bullseye, 5.10.257-1", "a" * 64)
BASE = KernelFacts("debian:6.1", "6.1.0-50-amd64", "Debian bookworm, 6.1.176-1", "b" * 64)
FACTS = RunFacts(
    run_id="20260101T000000.000Z-5.10.0-46-amd64-abcdef",
    scenario="sample",
    scenario_digest="d" * 64,
    kernel=TEST,
    seeds=SEEDS,
    arms=("none",),
    cells=(PlannedCell("none", 1, "000"),),
    qemu="QEMU 7.2.22",
    command=("blklab", "run", "sample", "--kernel", "debian:5.10"),
    started="2026-01-01T00:00:00.000+00:00",
)
KNOWN = KnownFailure(">= 5.8, < 5.14", "tags go to whoever asks first", "lore.kernel.org/linux-block/x")


def shares(arm: str) -> tuple[str, str]:
    return f"{arm}.together.fast.iops", f"{arm}.solo.fast.iops"


MODEL: Scenario = scenario(
    [
        claim(),
        replace(claim(AT_MOST), that="it is slow #1 <&>", otherwise="it is fast\x1b[0m"),
        replace(claim(AT_MOST), that="it is known to be fast", known=(KNOWN,)),
        replace(claim(), that="it was once slow", known=(KNOWN,)),
        replace(claim(AT_LEAST, ratio(*shares("mixed"))), that="nobody knows"),
        replace(claim(AT_LEAST, ratio(*shares("stuck"))), that="it comes back"),
        replace(claim(AT_LEAST, ratio(*shares("lost"))), that="it stays"),
        replace(claim(AT_LEAST, ratio(*shares("dark"))), that="it comes up"),
        replace(claim(AT_LEAST, ratio(*shares("bare"))), that="it has what it needs"),
        replace(claim(AT_MOST, optional=True), that="a wish"),
    ],
    [control(), control(of=ratio(*shares("none"))), control(mutant="no-fair-tags")],
    ["none", "red", "mixed", "stuck", "lost", "dark", "bare"],
)


def ended(arm: str, status: Status, reason: str, outcome: Outcome, *, lab_broke: bool = False) -> list[CellResult]:
    return [CellResult(arm, seed, status, (reason,), outcome=outcome, lab_broke=lab_broke) for seed in SEEDS]


RESULTS = [
    *cells("none", 95, 96, 97),
    *cells("red", 5, 6, 7),
    *cells("mixed", 95, 5, 95),
    *ended("stuck", Status.FAIL, "the kernel hung after it was ready: no end of phase load", Outcome.HANG),
    *ended("lost", Status.ERROR, "the lab lost the guest: signal 9", Outcome.LOST, lab_broke=True),
    *ended("dark", Status.MISS, "the guest never said ready", Outcome.NOT_READY),
    *(CellResult("bare", seed, Status.SKIP, ("no CONFIG_A", "no module b")) for seed in SEEDS),
]


def everything() -> Verdict:
    """Every word that a part can have."""
    return judge(MODEL, RESULTS, release=TEST.release)


def good() -> JudgedRun:
    """A run that passes, with a BASE kernel."""
    model = scenario([claim()], [control()], ["none", "red"])
    results = cells("none", 95, 96, 97) + cells("red", 5, 6, 7)
    base = cells("none", 94, 95, 96) + cells("red", 5, 6, 7)
    facts = replace(FACTS, baseline="20260101T000000.000Z-6.1.0-50-amd64-123456", base=BASE)
    return JudgedRun(model, judge(model, results, base, release=TEST.release), facts)


def printed(
    model: Scenario, verdict: Verdict, facts: RunFacts = FACTS, *, detail: Detail = Detail.NORMAL, width: int = 160
) -> str:
    """The report for a terminal."""
    out = io.StringIO()
    print_verdict(Console(file=out, width=width), JudgedRun(model, verdict, facts), detail)
    return out.getvalue()
