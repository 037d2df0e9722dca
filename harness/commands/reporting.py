# SPDX-License-Identifier: GPL-2.0-only
"""A run folder and its verdict on the terminal."""

from collections import Counter
from pathlib import Path

from rich.console import Console

from harness.judge.verdict import Verdict
from harness.limits.bottleneck import Bottleneck
from harness.noise.stopping import FEWEST_ROUNDS, Rule
from harness.record.judging import explain_run
from harness.record.store import RunFolder
from harness.report.terminal.terminal import Detail, Effort, Surroundings, print_verdict
from harness.studies.calibration.models import note


def print_run(console: Console, run: RunFolder, verdict: Verdict, detail: Detail = Detail.NORMAL) -> None:
    """Write the report of a run from its artefacts."""
    print_verdict(console, run.scenario, verdict, surroundings(run), detail)


def surroundings(run: RunFolder) -> Surroundings:
    """Context of the figures in a report: kernel, QEMU, effort, bottlenecks."""
    facts = run.facts
    return Surroundings(
        kernel=facts.kernel.release,
        origin=facts.kernel.origin,
        qemu=facts.qemu,
        effort=_effort(run),
        command=facts.command,
        folder=_shown(run.path),
        base=facts.base.release if facts.base else "",
        models=note(run.path.parent.parent, run) if facts.rule is None else "",
        bottlenecks=tuple(one for one in explain_run(run) if isinstance(one, Bottleneck)),
        rule=_rule_text(facts.rule) if facts.rule else "",
    )


def _rule_text(rule: Rule) -> str:
    if not rule.looks:
        return f"no verdict on fewer than {FEWEST_ROUNDS} boots a side"
    looks = " and ".join(str(look.rounds) for look in rule.looks)
    return f"fixed before the first boot: looks after {looks} boots a side, {100 * rule.error:g} % of error either way"


def _effort(run: RunFolder) -> Effort:
    phases: Counter[str] = Counter()
    boots = 0
    for cell in run.facts.cells:
        record = run.boot(cell) if not cell.skip else None
        if record is not None:
            boots += 1
            phases.update(record.wall)
    return Effort(boots, run.elapsed(), dict(phases))


def _shown(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
