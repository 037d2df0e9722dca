# SPDX-License-Identifier: GPL-2.0-only
"""How a run was measured: what terminal and pages say alike."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from harness.judge.difference import Precision
from harness.judge.verdict import Verdict
from harness.judge.visible import unseen
from harness.limits.bottleneck import Bottleneck
from harness.noise import FEWEST_ROUNDS, Rule
from harness.record.store import RunFacts
from harness.report.format import duration, plural
from harness.scenario.model import Arm, Scenario, Source

_PHASES = ("boot", "setup", "measure", "send")
_CAUTION = (
    "kernel and BASE may differ in configuration and compiler, and baseline.* with them, not only in their code;"
    " builds of one recipe (source:, tree:) share them"
)


@dataclass(frozen=True)
class Effort:
    """What the run cost. ``phases`` maps boot, setup, measure and send to host seconds summed over boots."""

    boots: int
    elapsed: float | None
    phases: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Surroundings:
    """What a report needs besides its figures.

    ``folder`` holds the run. ``models`` states the error of this kernel's device models. ``bottlenecks`` are those of
    all arms and loads whose use was recorded.
    """

    facts: RunFacts
    effort: Effort
    folder: str = ""
    models: str = ""
    bottlenecks: tuple[Bottleneck, ...] = ()

    @property
    def base(self) -> str:
        """The kernel of ``baseline.*``; empty without one."""
        return self.facts.base.release if self.facts.base else ""

    def precision(self, scenario: Scenario) -> Precision:
        """How exactly the BASE kernel and this one can be compared."""
        alike = self.facts.base is not None and self.facts.base.configured_as(self.facts.kernel)
        return Precision(scenario.timing.exact, alike)

    @property
    def caution(self) -> str:
        """What a quotient of both kernels may come from besides their code; empty where nothing else differs."""
        base = self.facts.base
        return "" if base is None or base.configured_as(self.facts.kernel) else _CAUTION


def method(scenario: Scenario, verdict: Verdict, around: Surroundings) -> Iterator[tuple[str, str]]:
    """How a run was measured: pairs of a name and a text."""
    facts, effort = around.facts, around.effort
    yield "clock", scenario.timing.says
    yield "kernel", f"{facts.kernel.release} ({facts.kernel.origin})"
    yield "machine", facts.qemu
    for name, text in (
        ("BASE kernel", around.base),
        ("caution", around.caution),
        ("not visible", unseen(scenario, verdict.cells)),
        ("rule", _rule(facts.rule)),
        ("device models", around.models),
        ("after", source_words(scenario.source) if scenario.source else ""),
    ):
        if text:
            yield name, text
    for arm in scenario.arms.values():
        settings = settings_words(arm) or "as the topology has it"
        yield f"arm {arm.name}", settings + (f": {arm.teaches}" if arm.teaches else "")
    yield "started", facts.started
    total = "" if effort.elapsed is None else f" in {duration(effort.elapsed)}"
    order = sorted(effort.phases, key=lambda phase: (_PHASES.index(phase) if phase in _PHASES else len(_PHASES), phase))
    spent = ", ".join(f"{phase} {duration(effort.phases[phase])}" for phase in order)
    yield "effort", f"{plural(effort.boots, 'boot')}{total}" + (f"; summed over boots: {spent}" if spent else "")
    yield "scenario digest", facts.scenario_digest


def settings_words(arm: Arm) -> str:
    return ", ".join(f"{key} {value}" for key, value in arm.settings.items())


def source_words(source: Source) -> str:
    kernel = f"Linux {source.kernel}" if source.kernel else ""
    return ", ".join(filter(None, (source.report, source.by, source.on, kernel)))


def _rule(rule: Rule | None) -> str:
    if rule is None:
        return ""
    if not rule.looks:
        return f"no verdict on fewer than {FEWEST_ROUNDS} boots a side"
    looks = " and ".join(str(look.rounds) for look in rule.looks)
    return f"fixed before the first boot: looks after {looks} boots a side, {100 * rule.error:g} % of error either way"
