# SPDX-License-Identifier: GPL-2.0-only
"""docs/results/field-reports.md: ratios of field reports and the measured ones, kernel by kernel."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.judge.claims import ReproductionVerdict
from harness.judge.verdict import Verdict
from harness.report import markdown
from harness.report.format import plural, reported, spread
from harness.scenario.model import Scenario
from harness.studies.sensitivity import FACTORS, Sensitivity
from lab.kernels.release import by_release

FAR_OFF = 0.2
"""A ratio that is off by more than this share needs a reason in the scenario."""
_NOT_MEASURED = "-"
_PREFACE = (
    "Each row compares a ratio of a field report with the same ratio under the virtual clock: median over the seeds,"
    " and the range where they differ. Absolute rates are scaled down and not comparable. `-`: not measured, see below"
    " the table. Bold: more than a fifth off."
)


@dataclass(frozen=True)
class Measured:
    """The newest judged run of a scenario on one kernel, which ``spec`` named."""

    scenario: Scenario
    verdict: Verdict
    release: str
    series: str
    qemu: str
    run_id: str
    spec: str = ""


def page(runs: Sequence[Measured], command: str, sensitivities: Sequence[Sensitivity] = ()) -> str:
    """The page in Markdown. ``runs`` are of any scenarios and kernels; ``command`` generates the page."""
    lines = [*markdown.head("Field reports reproduced", f"Generated from results by: {command}"), _PREFACE, ""]
    scenarios = {run.scenario.name: run.scenario for run in runs if run.scenario.reproduces}
    # Scenarios of one report come together.
    reports = {name: one.source.report if one.source else "" for name, one in scenarios.items()}
    for name in sorted(scenarios, key=lambda name: (reports[name], name)):
        lines += [*_scenario([run for run in runs if run.scenario.name == name]), ""]
        for found in (one for one in sensitivities if one.scenario == name):
            lines += [*_sensitivity(found), ""]
    return "\n".join(lines)


def unexplained(runs: Sequence[Measured]) -> tuple[str, ...]:
    """Ratios that are more than a fifth off without a reason in the scenario, in words."""
    return tuple(
        f"{run.scenario.name} on {run.series}: {one.that}: reported {reported(one)}, measured {spread(one.ensemble)}"
        for run in runs
        for one in run.verdict.reproductions
        if one.ensemble is not None and _is_far(one) and not one.because
    )


def _is_far(one: ReproductionVerdict) -> bool:
    return one.off is not None and abs(one.off) > FAR_OFF


def _scenario(runs: Sequence[Measured]) -> Iterator[str]:
    scenario = max(runs, key=lambda run: run.run_id).scenario
    newest = {run.series: run for run in sorted(runs, key=lambda run: run.run_id)}
    columns = sorted(newest, key=by_release)
    yield f"## {scenario.name}: {scenario.title}"
    yield ""
    if scenario.source:
        source = scenario.source
        parts = [part for part in (source.report, source.by, source.on) if part]
        yield f"From {', '.join(parts)}" + (f", Linux {source.kernel}." if source.kernel else ".")
        yield ""
    rows = (
        (one.that, reported(one), *(_cell(newest[column].verdict.reproductions, place) for column in columns))
        for place, one in enumerate(scenario.reproduces)
    )
    yield from markdown.table(("ratio", "reported", *columns), rows)
    yield ""
    yield from _notes(scenario, newest, columns)
    yield from _origins(scenario)
    kernels = ", ".join(_kernel(newest[column]) for column in columns)
    qemu = ", ".join(sorted({run.qemu for run in newest.values() if run.qemu}))
    yield f"Kernels: {kernels}. {qemu}. `blklab run {scenario.name} --kernel debian:SERIES` repeats a column of Debian."


def _kernel(run: Measured) -> str:
    kind, _, wanted = run.spec.partition(":")
    # Paths of the host that measured stay out of the page.
    source = {"ubuntu": f", ubuntu:{wanted}", "tree": ", built from a tree", "source": ", built from source"}.get(
        kind, ""
    )
    return f"{run.release} ({plural(len(run.verdict.seeds), 'seed')}{source})"


def _cell(reproductions: Sequence[ReproductionVerdict], place: int) -> str:
    one = reproductions[place] if place < len(reproductions) else None
    if one is None or one.ensemble is None:
        return _NOT_MEASURED
    shown = spread(one.ensemble)
    return f"**{shown}**" if _is_far(one) else shown


def _notes(scenario: Scenario, newest: Mapping[str, Measured], columns: Sequence[str]) -> Iterator[str]:
    notes = [f"- {one.that}: {one.because}" for one in scenario.reproduces if one.because]
    lacking: dict[str, list[str]] = {}
    for column in columns:
        for one in newest[column].verdict.reproductions:
            if one.ensemble is None:
                lacking.setdefault(f"{one.that}: not measured: {one.reason}", []).append(column)
    notes += [f"- {text} ({', '.join(where)})" for text, where in lacking.items()]
    if notes:
        yield from (*notes, "")


def _sensitivity(found: Sensitivity) -> Iterator[str]:
    yield f"Ratios with fitted parameters changed (kernel {found.release}, one seed):"
    yield ""
    rows = ((f"`{of}`", that, *ratios) for of, that, ratios in found.table())
    yield from markdown.table(("parameter", "ratio", *(f"x {factor:g}" for factor in FACTORS)), rows)


def _origins(scenario: Scenario) -> Iterator[str]:
    origins = dict.fromkeys(origin for arm in scenario.arms.values() for origin in arm.topology.origins)
    fitted = [f"- fitted: `{origin.of}` on {origin.text}" for origin in origins if origin.kind == "fitted"]
    if fitted:
        yield from (*fitted, "")
