# SPDX-License-Identifier: GPL-2.0-only
"""A results root that was filled over days and kernels, in milliseconds."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from harness.record.grid import Grid, GridCell, GridFolder, new_grid
from harness.record.judging import judge_run
from harness.record.store import KernelFacts, RunFolder, Store, planned, save_boot
from harness.scenario.model import Scenario, Status
from tests.unit.analysis_samples import claim, control, scenario
from tests.unit.store_samples import facts, files, record

MODEL = scenario([claim()], [control()], ["none", "red"])
FIRST_DAY = datetime(2026, 1, 1, 2, tzinfo=UTC)


def kernel(release: str) -> KernelFacts:
    series = ".".join(release.split(".")[:2])
    return KernelFacts(f"debian:{series}", release, "Debian", f"digest of {release}")


def run_of(
    root: Path,
    together: Sequence[float],
    *,
    release: str = "6.1.0-18-amd64",
    day: int = 1,
    model: Scenario = MODEL,
    finish: bool = True,
    baseline: str = "",
) -> RunFolder:
    """A run of the sample scenario whose arms have ``together`` IOPS, one value a seed, made at 2 o'clock."""
    seeds = range(1, len(together) + 1)
    cells = planned([(arm, seed, ()) for seed in seeds for arm in model.arms])
    wanted = replace(facts(model, cells), kernel=kernel(release), baseline=baseline)
    run = Store(root).new_run(model, wanted, now=FIRST_DAY + timedelta(days=day - 1))
    for cell in run.missing():
        value = together[cell.seed - 1] if cell.arm == "none" else 5.0
        booted = record(run.fresh_boot_folder(cell), files(together=value))
        save_boot(booted)
        if not finish:
            break
    if finish:
        run.finish(judge_run(replace(run, facts=replace(run.facts, baseline=""))), elapsed=3.0)
    return run


def matrix_of(root: Path, *runs: RunFolder) -> GridFolder:
    cells = tuple(
        GridCell(
            run.scenario.name,
            run.scenario.digest,
            run.facts.kernel,
            run.scenario.clock,
            status=Status.PASS,
            run=str(run.path.relative_to(root)),
        )
        for run in runs
    )
    return new_grid(root, Grid("", cells, ended="2026-01-01T03:00:00.000+00:00"))
