# SPDX-License-Identifier: GPL-2.0-only
"""Device models against their closed forms, as ``blklab check calibration`` measures them.

The devices are part of the kernel under test, so a changed model must not be taken for a change of the block layer.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from harness import fitted
from harness.base.files import read_json
from harness.judge.cells import Ensemble
from harness.judge.verdict import Verdict
from harness.limits.limits import arm_bound
from harness.record.store import PLAN, RunFacts, RunFolder, Store, load_run
from harness.report.format import figure, markdown_table, plural
from harness.scenario.model import Claim, Scenario
from harness.scenario.ratio import BOUND, FIGURE
from lab.kernels.model import by_release, short_releases

COMMAND = "blklab check calibration"
CALIBRATION = "calibration"
"""The folder of the scenarios, and of their runs below the results."""
_LATENCY = "lat.mean"
_PER_CENT, _MICROSECOND = 100, 1000


def is_model(claim: Claim) -> bool:
    """Whether the claim compares a device model with its closed form: a figure over a bound."""
    return claim.ratio.left.kind == FIGURE and claim.ratio.right is not None and claim.ratio.right.kind == BOUND


def table(scenarios: Sequence[Scenario], verdicts: Mapping[tuple[str, str], Verdict]) -> Iterator[str]:
    """A row for each model and a column for each kernel, in Markdown; ``verdicts`` are by scenario and release."""
    releases = sorted({release for _, release in verdicts}, key=by_release)
    rows = []
    for scenario in scenarios:
        for number, claim in enumerate(scenario.claims):
            if is_model(claim):
                judged = (verdicts.get((scenario.name, release)) for release in releases)
                cells = ("-" if verdict is None else _cell(scenario, claim, number, verdict) for verdict in judged)
                rows.append((claim.that, figure(_closed_form(scenario, claim)), *cells))
    yield from markdown_table(("model", "closed form", *short_releases(releases)), rows)


def deviations(scenario: Scenario, verdict: Verdict) -> Iterator[str]:
    """A sentence for each model that is off by more than ``fitted.MODELS``, or was not measured."""
    for claim, judged in zip(scenario.claims, verdict.claims, strict=True):
        ratio = judged.judgement.ensemble
        if is_model(claim) and not is_sound(ratio):
            lacking = f"not measured: {judged.judgement.reason}"
            yield f"{claim.that}: {f'off by {_error(ratio)}' if ratio else lacking}"


def is_sound(ratio: Ensemble | None) -> bool:
    """Whether the median of a figure over its closed form is within ``fitted.MODELS`` of 1."""
    return ratio is not None and abs(ratio.median - 1) <= fitted.MODELS


def _error(ratio: Ensemble) -> str:
    return f"{_PER_CENT * (ratio.median - 1):+.2f} %"


def _closed_form(scenario: Scenario, claim: Claim) -> float:
    arm, load, role, metric = (claim.ratio.right or claim.ratio.left).path
    return arm_bound(scenario.arms[arm], scenario.loads[load], role, metric)


def _cell(scenario: Scenario, claim: Claim, number: int, verdict: Verdict) -> str:
    """The figure, its error, and the CPU time of a request: latency beyond the closed form of one in flight."""
    ratio = verdict.claims[number].judgement.ensemble
    if ratio is None:
        return "**-**"
    arm, load, role, _ = claim.ratio.left.path
    text = f"{figure(ratio.median * _closed_form(scenario, claim))}, {_error(ratio)}"
    plan = scenario.loads[load]
    figures = (cell.figures.get((load, role, _LATENCY)) for cell in verdict.cells if cell.arm == arm)
    latencies = [latency for latency in figures if latency is not None]
    if plan.roles[role].iodepth == 1 and latencies:
        cost = fmean(latencies) - arm_bound(scenario.arms[arm], plan, role, _LATENCY)
        text += f", {cost / _MICROSECOND:.1f} us a request"
    return text if is_sound(ratio) else f"**{text}**"


def note(root: Path, run: RunFolder) -> str:
    """One line of a report about the device models of ``run``; empty for a calibration itself."""
    if root.name == CALIBRATION:
        return ""
    drivers = {str(hba.driver) for arm in run.scenario.arms.values() for hba in arm.topology.hbas.values()}
    errors = {name: error for driver, name, error in errors_of(root, run.facts) if driver in drivers}
    modelled = sum(any(each.kind == BOUND for each in claim.ratio.operands) for claim in run.scenario.claims)
    return sentence(errors, run.facts.kernel.spec, modelled)


def errors_of(root: Path, facts: RunFacts) -> Iterator[tuple[str, str, float | str]]:
    """Driver, model, and its error on the same kernel and QEMU (0.01: one per cent more), or why there is none."""
    store = Store(root / CALIBRATION)
    for folder in sorted(store.root.glob("[!.]*")):
        run = _newest(store.runs(folder.name), facts)
        judged = run.stored_verdict() if run else None
        if run is None or judged is None:
            continue
        for claim, stored in zip(run.scenario.claims, judged["claims"], strict=False):
            if is_model(claim):
                hbas = run.scenario.arms[claim.ratio.left.path[0]].topology.hbas.values()
                value = stored["value"]
                yield str(next(iter(hbas)).driver), claim.that, value["median"] - 1 if value else stored["reason"]


def _newest(paths: Sequence[Path], facts: RunFacts) -> RunFolder | None:
    for path in reversed(paths):
        plain = read_json(path / PLAN)
        if isinstance(plain, dict) and plain["qemu"] == facts.qemu and plain["kernel"]["digest"] == facts.kernel.digest:
            return load_run(path)
    return None


def sentence(errors: Mapping[str, float | str], spec: str, modelled: int) -> str:
    """Whether the models can be trusted on the kernel ``spec``; ``modelled`` claims compare with a closed form."""
    command = f"{COMMAND} --kernel {spec}"
    if not errors:
        matters = f"it matters: a closed form (bound.*) is in {plural(modelled, 'claim')} ({command})"
        return f"not calibrated on this kernel; {matters if modelled else 'no claim here needs it (none has bound.*)'}"
    off = [
        f'the model "{name}" could not be measured ({error})'
        if isinstance(error, str)
        else f'the model "{name}" is off by {error * _PER_CENT:+.1f} %'
        for name, error in errors.items()
        if isinstance(error, str) or abs(error) > fitted.MODELS
    ]
    if off:
        return f"on this kernel {'; '.join(off)}: figures of this device are not the block layer's alone ({command})"
    worst = max(abs(error) for error in errors.values() if not isinstance(error, str))
    return f"calibrated on this kernel: within {worst * _PER_CENT:.1f} % of their closed forms"
