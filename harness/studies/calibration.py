# SPDX-License-Identifier: GPL-2.0-only
"""What a report says of the device models: their errors on its kernel, from the stored runs of the calibrations.

The devices are part of the kernel under test, so a changed model must not be taken for a change of the block layer.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from harness.base.files import read_json
from harness.record.store import PLAN, RunFacts, RunFolder, Store, load_run
from harness.studies.evidence.rows import CALIBRATION, COMMAND, TOLERANCE, claim_rows

_PER_CENT = 100


def note(root: Path, run: RunFolder) -> str:
    """One line of a report about the device models of ``run``; empty for a calibration itself."""
    if root.name == CALIBRATION:
        return ""
    drivers = {str(hba.driver) for arm in run.scenario.arms.values() for hba in arm.topology.hbas.values()}
    errors = {name: error for driver, name, error in errors_of(root, run.facts) if driver in drivers}
    return sentence(errors, run.facts.kernel.spec)


def errors_of(root: Path, facts: RunFacts) -> Iterator[tuple[str, str, float | str]]:
    """Driver, model, and its error on the same kernel and QEMU (0.01: one per cent more), or why there is none."""
    store = Store(root / CALIBRATION)
    for folder in sorted(store.root.glob("[!.]*")):
        run = _newest(store.runs(folder.name), facts)
        judged = run.stored_verdict() if run else None
        if run is None or judged is None:
            continue
        for row, claim in zip(claim_rows(run.scenario), judged["claims"], strict=False):
            if row.is_model:
                hbas = run.scenario.arms[row.ratio.left.path[0]].topology.hbas.values()
                value = claim["value"]
                yield str(next(iter(hbas)).driver), row.that, value["median"] - 1 if value else claim["reason"]


def _newest(paths: Sequence[Path], facts: RunFacts) -> RunFolder | None:
    for path in reversed(paths):
        plain = read_json(path / PLAN)
        if isinstance(plain, dict) and plain["qemu"] == facts.qemu and plain["kernel"]["digest"] == facts.kernel.digest:
            return load_run(path)
    return None


def sentence(errors: Mapping[str, float | str], spec: str) -> str:
    """Whether the models can be trusted on the kernel ``spec``."""
    command = f"{COMMAND} {CALIBRATION} --kernels {spec}"
    if not errors:
        return f"not calibrated on this kernel ({command})"
    off = [
        f'the model "{name}" could not be measured ({error})'
        if isinstance(error, str)
        else f'the model "{name}" is off by {error * _PER_CENT:+.1f} %'
        for name, error in errors.items()
        if isinstance(error, str) or abs(error) > TOLERANCE
    ]
    if off:
        return f"on this kernel {'; '.join(off)}: figures of this device are not the block layer's alone ({command})"
    worst = max(abs(error) for error in errors.values() if not isinstance(error, str))
    return f"calibrated on this kernel: within {worst * _PER_CENT:.1f} % of their closed forms"
