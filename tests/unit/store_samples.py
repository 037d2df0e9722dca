# SPDX-License-Identifier: GPL-2.0-only
"""Boots and runs made of recorded fio results."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from harness.base.plain import identity
from harness.record.store import KernelFacts, PlannedCell, RunFacts, RunFolder, Store, planned, save_boot
from harness.run.plan import run_command
from harness.scenario.model import Scenario
from lab.base.digest import digest_results
from lab.base.record import BootRecord, Outcome

RECORDED = json.loads((Path(__file__).parent / "fixtures" / "fio-aio.json").read_bytes())
COUNTERS = "== /proc/stat\ncpu  {busy} 0 0 {idle} 0 0 0 0 0 0\n== /proc/diskstats\n{rows}"
RUNTIME = 8000
"""Milliseconds, as in the sample loads."""

SAMPLES = Path(__file__).parent / "fixtures" / "samples" / "together.samples.json"

KERNEL = KernelFacts("debian:6.1", "6.1.0-18-amd64", "Debian bookworm", "k" * 64)


def fio_result(iops: Mapping[str, float]) -> bytes:
    """A recorded result with one job for each role, over the whole window, with these IOPS."""
    jobs = []
    for role, value in iops.items():
        job = json.loads(json.dumps(RECORDED["jobs"][0]))
        job["jobname"] = role
        job["read"].update(total_ios=round(value * RUNTIME / 1000), runtime=RUNTIME)
        # As many as 32 in flight allow.
        job["read"]["lat_ns"]["mean"] = min(job["read"]["lat_ns"]["mean"], 32e9 / max(value, 1))
        jobs.append(job)
    return json.dumps({**RECORDED, "jobs": jobs}).encode()


def sampled(load: str, *luns: str) -> dict[str, bytes]:
    """A recorded file of samples, said to be of other LUNs."""
    document = json.loads(SAMPLES.read_bytes())
    recorded = list(document["series"].values())
    document["series"] = {f"inflight[{lun}]": recorded[place] for place, lun in enumerate(luns)}
    return {f"{load}.samples.json": json.dumps(document).encode()}


def counters(reads: int, *, busy: int = 0, idle: int = 0) -> bytes:
    sectors = reads * 10**7  # Enough for any sample.
    rows = "".join(f" 252 {n} nullb{n} {reads} 0 {sectors} 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n" for n in range(2))
    return COUNTERS.format(busy=busy, idle=idle, rows=rows).encode()


def files(solo: float = 100.0, together: float = 95.0) -> dict[str, bytes]:
    measured = {"readback": b"device\t/lab/fast\tnullb0\ndevice\t/lab/slow\tnullb1\n", "kmsg": b"quiet\n"}
    for load, iops in {"solo": {"fast": solo}, "together": {"fast": together, "slow": 80.0}}.items():
        measured[f"{load}.json"] = fio_result(iops)
        measured[f"{load}.before"] = counters(0)
        measured[f"{load}.after"] = counters(1000, busy=10, idle=90)
        measured |= sampled(load, *iops)
    return measured


def record(
    folder: Path, measured: Mapping[str, bytes], outcome: Outcome = Outcome.BYE, *, warnings: tuple[str, ...] = ()
) -> BootRecord:
    return BootRecord(
        folder=folder,
        outcome=outcome,
        detail="" if outcome is Outcome.BYE else "as it happened",
        warnings=warnings,
        files=measured,
        digest=digest_results(measured) if outcome is Outcome.BYE else None,
        fingerprint=fingerprint(folder),
        wall={"boot": 3.0, "setup": 1.0, "measure": 6.0, "send": 0.2},
        virtual={"boot": 1.0, "setup": 0.5, "measure": 90.0, "send": 0.1},
    )


def fingerprint(folder: Path) -> dict[str, str]:
    """As the lab makes it for the cell of a run whose boot goes to ``folder``; of the kernel alone elsewhere."""
    plan = folder.parents[1] / "run.json"
    if not plan.is_file():
        return {"kernel": KERNEL.digest}
    run = json.loads(plan.read_bytes())
    (cell,) = (cell for cell in run["cells"] if cell["boot"] == folder.name)
    labels = {"scenario": run["scenario_digest"], "arm": cell["arm"], "seed": str(cell["seed"])}
    return {"kernel": run["kernel"]["digest"], **labels}


def facts(model: Scenario, cells: tuple[PlannedCell, ...]) -> RunFacts:
    return RunFacts(
        run_id="",
        scenario=model.name,
        scenario_digest=identity(model),
        kernel=KERNEL,
        seeds=tuple(sorted({cell.seed for cell in cells})),
        arms=tuple(dict.fromkeys(cell.arm for cell in cells)),
        cells=cells,
        qemu="7.2.22",
        command=run_command(model.name, "debian:6.1", len({cell.seed for cell in cells})),
    )


def new_run(root: Path, model: Scenario, *, seeds: int = 3, repeats: int = 1, spec: str = "") -> RunFolder:
    cells = planned([(arm, seed, ()) for seed in range(1, seeds + 1) for arm in model.arms], repeats=repeats)
    kernel = replace(KERNEL, spec=spec or KERNEL.spec)
    return Store(root).new_run(model, replace(facts(model, cells), kernel=kernel))


def boot_all(run: RunFolder, together: Mapping[str, float], more: Mapping[str, bytes] = {}) -> None:
    """Boot every cell that is missing; ``together`` is the fast role's IOPS by arm, ``more`` are further files."""
    for cell in run.missing():
        measured = {**files(together=together[cell.arm] + cell.seed), **more}
        save_boot(record(run.fresh_boot_folder(cell), measured))
