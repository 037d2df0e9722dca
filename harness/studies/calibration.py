# SPDX-License-Identifier: GPL-2.0-only
"""The error of each device model against its closed form on one kernel, kept for later verdicts.

The devices are part of the kernel under test, so a changed model must not be taken for a change of the block layer.
The scenarios of scenarios/calibration measure them. Results are kept as ``<root>/calibration/kernels/<key>.json``,
with a key made of kernel and QEMU.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from harness.base.files import read_json, write_json, writing
from harness.base.plain import from_plain, to_plain
from harness.judge.claims import ClaimVerdict
from harness.judge.verdict import Verdict
from harness.limits.bounds import arm_bound
from harness.record.store import RunFolder
from harness.report.format import figure
from harness.report.terminal.printing import folded, plain_table
from harness.scenario.model import Operand
from harness.scenario.ratio import BOUND, FIGURE
from lab.base.digest import canonical, digest_bytes

FOLDER = "calibration"
TOLERANCE = 0.05
SCHEMA = 1
_LATENCY = "lat.mean"
_PER_CENT = 100


@dataclass(frozen=True)
class Model:
    """One closed form of one device model and what was measured, in IOPS.

    ``driver`` is the in-guest device family. ``measured`` is None without a figure; ``reason`` says why. ``cost`` is
    the CPU time of a request in nanoseconds: latency beyond the closed form with one request in flight.
    """

    name: str
    driver: str
    closed: float
    measured: float | None
    reason: str = ""
    cost: float | None = None

    @property
    def error(self) -> float | None:
        """Relative: 0.01 is one per cent more than the closed form."""
        return None if self.measured is None else self.measured / self.closed - 1

    @property
    def sound(self) -> bool:
        return self.error is not None and abs(self.error) <= TOLERANCE


@dataclass(frozen=True)
class Calibration:
    """All models on one kernel. ``kernel`` is its digest, ``qemu`` the fingerprint's text."""

    release: str
    kernel: str
    qemu: str
    command: tuple[str, ...]
    models: tuple[Model, ...]
    schema: int = SCHEMA


def models_of(run: RunFolder, verdict: Verdict) -> tuple[Model, ...]:
    """The models that a judged calibration run measured: its claims of the form figure / bound."""
    return tuple(
        _model(run, verdict, claim, ratio.left, ratio.right)
        for claim in verdict.claims
        if (ratio := claim.entry.ratio).left.kind == FIGURE and ratio.right is not None and ratio.right.kind == BOUND
    )


def qemu_of(run: RunFolder) -> str:
    """QEMU as the boots of a run have it in their fingerprint; empty when none left a record."""
    return next((record.fingerprint.get("qemu", "") for _, record in run.boots()), "")


def keep(root: Path, calibration: Calibration) -> Path:
    """Write the record, replacing an older one of the same kernel and QEMU. Raises LabBroken."""
    path = _path(root, calibration.kernel, calibration.qemu)
    with writing(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, to_plain(calibration))
    return path


def find(root: Path, kernel: str, qemu: str) -> Calibration | None:
    """The record of a kernel (by digest) under a QEMU, None when there is none that can be read."""
    plain = read_json(_path(root, kernel, qemu))
    if not isinstance(plain, dict) or plain.get("schema") != SCHEMA:
        return None
    try:
        return from_plain(Calibration, plain)
    except ValueError:
        return None


def note(root: Path, run: RunFolder) -> str:
    """One line of a report about the device models of ``run``; empty for a calibration itself."""
    if root.name == FOLDER:
        return ""
    kernel, found = run.facts.kernel, find(root, run.facts.kernel.digest, qemu_of(run))
    drivers = {str(hba.driver) for arm in run.scenario.arms.values() for hba in arm.topology.hbas.values()}
    return sentence(found, kernel.spec, drivers)


def sentence(calibration: Calibration | None, spec: str, drivers: Collection[str]) -> str:
    """Whether the models of ``drivers`` can be trusted on the kernel ``spec``."""
    command = f"blklab check calibrate --kernel {spec}"
    models = [model for model in calibration.models if model.driver in drivers] if calibration else []
    if not models:
        return f"not calibrated on this kernel ({command})"
    off = [_complaint(model) for model in models if not model.sound]
    if off:
        return f"on this kernel {'; '.join(off)}: figures of this device are not the block layer's alone ({command})"
    worst = max(abs(model.error or 0.0) for model in models)
    return f"calibrated on this kernel: within {worst * _PER_CENT:.1f} % of their closed forms"


def _complaint(model: Model) -> str:
    if model.error is None:
        return f'the model "{model.name}" could not be measured ({model.reason})'
    return f'the model "{model.name}" is off by {model.error * _PER_CENT:+.1f} %'


def _model(run: RunFolder, verdict: Verdict, claim: ClaimVerdict, figure: Operand, bound: Operand) -> Model:
    arm, load, role, _ = figure.path
    hbas = run.scenario.arms[arm].topology.hbas.values()
    driver = str(next(iter(hbas)).driver)
    of_arm, of_load, of_role, metric = bound.path
    closed = arm_bound(run.scenario.arms[of_arm], run.scenario.loads[of_load], of_role, metric)
    judgement = claim.judgement
    measured = None if judgement.ensemble is None else judgement.ensemble.median * closed
    return Model(claim.that, driver, closed, measured, judgement.reason, _cost(run, verdict, (arm, load, role)))


def _cost(run: RunFolder, verdict: Verdict, figure: tuple[str, str, str]) -> float | None:
    arm, load, role = figure
    asked = run.scenario.loads[load].roles[role]
    latencies = [cell.figures.get((load, role, _LATENCY)) for cell in verdict.cells if cell.arm == arm]
    known = [latency for latency in latencies if latency is not None]
    if asked.iodepth != 1 or not known:
        return None
    closed = arm_bound(run.scenario.arms[arm], run.scenario.loads[load], role, _LATENCY)
    return sum(known) / len(known) - closed


def _path(root: Path, kernel: str, qemu: str) -> Path:
    return root / FOLDER / "kernels" / f"{digest_bytes(canonical([kernel, qemu]))[:32]}.json"


_MICROSECOND = 1000


def print_calibration(console: Console, calibration: Calibration) -> None:
    """The figures of one kernel and the closed forms."""
    console.print()
    qemu = calibration.qemu.rsplit(" ", 1)[0] if calibration.qemu else "unknown"
    console.print(Text(f"device models on Linux {calibration.release}, QEMU {qemu}", "bold"))
    table = _table("model", "closed form", "measured", "error", "CPU a request")
    for model in calibration.models:
        measured = "-" if model.measured is None else figure(model.measured)
        cost = "" if model.cost is None else f"{model.cost / _MICROSECOND:.1f} us"
        table.add_row(Text(model.name), figure(model.closed), measured, _error(model), cost)
    console.print(table)
    for model in calibration.models:
        if model.measured is None:
            console.print(Text(f"{model.name}: not measured: {model.reason}"), soft_wrap=True)
    console.print(Text(_conclusion(calibration)), soft_wrap=True)


def print_kernels(console: Console, calibrations: Sequence[Calibration]) -> None:
    """The errors of several kernels side by side."""
    console.print()
    console.print(Text("error against the closed form", "bold"))
    table = _table("model", *headings([calibration.release for calibration in calibrations]))
    errors = [{model.name: model for model in calibration.models} for calibration in calibrations]
    for name in dict.fromkeys(name for known in errors for name in known):
        table.add_row(Text(name), *(_error(known[name]) if name in known else Text("-") for known in errors))
    console.print(table)


def headings(releases: list[str]) -> list[str]:
    """Releases without the distribution's suffix, if they remain distinct."""
    short = [re.split(r"[-+]", release)[0] for release in releases]
    return short if len(set(short)) == len(set(releases)) else releases


def _table(first: str, *others: str) -> Table:
    return plain_table(folded(first), *(Column(title, justify="right", overflow="fold") for title in others))


def _error(model: Model) -> Text:
    if model.error is None:
        return Text("-", "bold magenta")
    return Text(f"{model.error * _PER_CENT:+.2f} %", "green" if model.sound else "bold red")


def _conclusion(calibration: Calibration) -> str:
    off = [model.name for model in calibration.models if not model.sound]
    if off:
        return f"off by more than {TOLERANCE * _PER_CENT:g} %, or not measured: {'; '.join(off)}"
    return f"every model is within {TOLERANCE * _PER_CENT:g} % of its closed form"
