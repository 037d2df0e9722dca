# SPDX-License-Identifier: GPL-2.0-only
"""What a verdict says of its claims, negative controls and boots: made once, for terminal, pages, exports and mails."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from harness.judge.cells import CellResult
from harness.judge.claims import XFAIL, XPASS, ClaimVerdict, EntryVerdict, Judgement
from harness.judge.difference import Precision
from harness.judge.verdict import Verdict
from harness.judge.visible import unseen
from harness.limits.bottleneck import Bottleneck
from harness.noise import FEWEST_ROUNDS, Rule
from harness.record.store import RunFacts, RunFolder
from harness.report.format import duration, figure, plural, spread
from harness.scenario.model import Arm, Scenario, Source, Status
from lab.yaml.strict import shown_path

NOT_MEASURED = "not measured"
CONTROL = "negative control: "
"""In front of what is said of one where no heading says so."""


@dataclass(frozen=True)
class ClaimText:
    """A claim or a negative control in words.

    ``state`` is ``ok``, ``draft`` or a status, ``must`` what it must do: ``hold`` or ``fail``.
    ``figure`` is the median, on the wall clock the centre of the interval; it is empty for what was not run.
    ``value`` has the range too. ``reason`` rests on figures, on a known failure or on what is missing, ``meaning`` is
    the scenario's sentence, ``margin`` says why another layout of the same code may decide it otherwise; each may be
    empty.
    """

    entry: EntryVerdict
    state: str
    must: str
    figure: str
    value: str
    reason: str
    meaning: str = ""
    margin: str = ""

    @property
    def bound(self) -> str:
        """With its verb: ``expected >= 0.9``, ``must be <= 0.5``."""
        return f"{self.wish} {self.entry.expect}"

    @property
    def result(self) -> str:
        """The value and the bound; why there is no value where nothing was measured."""
        return f"{self.value}, {self.bound}" if self.value != NOT_MEASURED else self.reason

    @property
    def value_and_ratio(self) -> str:
        """The value and the ratio of figures that gave it."""
        return f"{'' if self.value == NOT_MEASURED else 'measured '}{self.value}: {self.entry.ratio}"

    @property
    def says(self) -> str:
        """What was measured as part of a sentence; with the bound where it is not what it must be."""
        ends = {("ok", "hold"): "", ("ok", "fail"): ", as it must", ("draft", "hold"): ""}
        return f"{self.entry.that}: {self.figure}{ends.get((self.state, self.must), f', {self.bound}')}"

    @property
    def wish(self) -> str:
        return EXPECTED if self.must == "hold" else MUST_BE

    @property
    def explanation(self) -> str:
        """Its meaning, else its reason, and its margin."""
        return ". ".join(filter(None, (self.meaning or self.reason, self.margin)))


EXPECTED, MUST_BE = "expected", "must be"
"""What is in front of the bound of a claim and of a negative control."""


def claim_text(entry: EntryVerdict) -> ClaimText:
    judgement, must = entry.judgement, "hold" if isinstance(entry, ClaimVerdict) else "fail"
    state = "ok" if entry.word == Status.PASS else entry.word
    if isinstance(entry, ClaimVerdict) and entry.draft and entry.word in (Status.PASS, Status.FAIL):
        state = "draft"
    if judgement is None:
        return ClaimText(entry, state, must, "", NOT_MEASURED, entry.sentence)
    shown = "-"
    if judgement.ensemble is not None:
        shown = figure(judgement.interval.centre if judgement.interval else judgement.ensemble.median)
    reason, meaning, margin = judgement.reason.removeprefix(CONTROL), "", ""
    if isinstance(entry, ClaimVerdict):
        reason = entry.sentence if entry.known or entry.diagnosed else reason
        meaning, margin = entry.sentence if entry.sentence != reason else "", entry.layout
    return ClaimText(entry, state, must, shown, value(judgement), reason, meaning, margin)


def value(judgement: Judgement) -> str:
    """The spread of the seeds, and on the wall clock the interval of the true ratio."""
    if judgement.ensemble is None:
        return NOT_MEASURED
    interval = judgement.interval
    if interval is None:
        return spread(judgement.ensemble)
    between = f"{figure(interval.low)} .. {figure(interval.high)} by {interval.rounds} boots a side"
    return f"{figure(interval.centre)}, {_percent(1 - 2 * interval.level)} within {between}"


def noise(judgement: Judgement) -> str:
    """What the boots and the windows inside them scatter by, empty where that is not known."""
    scatter = judgement.scatter
    if scatter is None:
        return ""
    return f"boots scatter by {_percent(scatter.boots)}, windows by {_percent(scatter.windows)}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def incidents(cells: Sequence[CellResult], kernel: str = "") -> Iterator[dict[str, Any]]:
    """``status``, ``where`` and ``reasons`` of cells; those with the same status and the same reasons are one."""
    alike: dict[tuple[str, tuple[str, ...]], dict[str, list[int]]] = {}
    for cell in cells:
        alike.setdefault((str(cell.status), cell.reasons), {}).setdefault(cell.arm, []).append(cell.seed)
    for (status, reasons), arms in alike.items():
        of_seeds: dict[str, list[str]] = {}
        for arm, seeds in arms.items():
            of_seeds.setdefault(", ".join(map(str, seeds)), []).append(arm)
        where = "; ".join(
            f"{'arm' if len(names) == 1 else 'arms'} {', '.join(names)}, {'seeds' if ',' in seeds else 'seed'} {seeds}"
            for seeds, names in of_seeds.items()
        )
        yield {"status": status, "where": kernel + where, "reasons": reasons}


_CLAIMS = {
    Status.FAIL: "failed",
    Status.ERROR: "could not be judged: boots or the lab's model went wrong",
    Status.MISS: "could not be judged: boots left no result",
    Status.DONE: "inconclusive",
    Status.SKIP: "could not be judged: this kernel or run lacks what they need",
}
_CONTROLS = _CLAIMS | {Status.FAIL: "met a failure of the kernel", Status.SKIP: "could not be run on this kernel"}
_BOOTS = {Status.FAIL: "ended in a failure of the kernel", Status.ERROR: "went wrong", Status.MISS: "left no result"}
_BASE_BOOTS = {
    Status.ERROR: "of the BASE kernel went wrong or cannot be compared",
    Status.MISS: "of the BASE kernel left no result",
}


def headline(verdict: Verdict) -> str:
    """The claim that decided, else the first, and the control that did not fail, else the first; else ``reason``."""
    claims = sorted(verdict.claims, key=lambda claim: (claim.optional, claim.counts_as != verdict.status))
    controls = sorted(verdict.controls, key=lambda control: not control.held)
    texts = ([text for text in map(claim_text, each) if text.figure not in ("", "-")] for each in (claims, controls))
    return "; ".join(text.says for each in texts for text in each[:1]) or reason(verdict)


def conclusion(verdict: Verdict) -> str:
    """What decided the status, and the exit code: ``1 of 4 claims failed (exit 1)``."""
    return f"{reason(verdict)} (exit {verdict.exit_code})"


def reason(verdict: Verdict) -> str:
    """What decided the status."""
    required = [claim for claim in verdict.claims if not claim.optional]
    claims = [claim.judgement.status for claim in required if claim.word not in (XFAIL, XPASS)]
    known = [claim.word for claim in required]
    run = [control for control in verdict.controls if control.judgement is not None]
    if verdict.status is Status.PASS:
        noisy = any(claim.judgement.interval for claim in verdict.claims)
        over = f"{plural(len(verdict.seeds), 'boot')} a side" if noisy else plural(len(verdict.seeds), "seed")
        held = f"{plural(len(claims), 'claim')} held ({over})" if claims else ""
        controls = f"negative controls: {len(run)} of {len(run)} failed" if run else ""
        claimed = ", ".join(filter(None, (held, _times(known, XFAIL, "failed as known"))))
        return "; ".join(filter(None, (claimed, controls)))
    held_controls = sum(control.held for control in run)
    statuses = [control.judgement.status for control in run if control.judgement and not control.held]
    drafts = sum(claim.draft for claim in verdict.claims)
    parts = [
        f"{plural(drafts, 'claim')} {'is a draft' if drafts == 1 else 'are drafts'}: set bounds and remove draft: true"
        if drafts and verdict.status is Status.DONE
        else "",
        _count(claims, verdict.status, "claim", _CLAIMS),
        _times(known, XPASS, "held although known to fail") if verdict.status is Status.FAIL else "",
        f"{plural(held_controls, 'negative control')} did not fail: no proof that the scenario shows the fault"
        if held_controls and verdict.status is Status.ERROR
        else "",
        _count(statuses, verdict.status, "negative control", _CONTROLS),
        _count((cell.status for cell in verdict.cells), verdict.status, "boot", _BOOTS),
        _count((cell.status for cell in verdict.base or ()), verdict.status, "boot", _BASE_BOOTS),
    ]
    return "; ".join(filter(None, parts)) or "the scenario makes no claim"


def _times(words: Sequence[str], word: str, says: str) -> str:
    count = words.count(word)
    return f"{plural(count, 'claim')} {says}" if count else ""


def _count(statuses: Iterable[Status], status: Status, noun: str, says: Mapping[Status, str]) -> str:
    every = list(statuses)
    count = every.count(status)
    if not count or status not in says:
        return ""
    return f"{f'{count} of ' if len(every) > 1 else ''}{plural(len(every), noun)} {says[status]}"


_PHASES = ("boot", "setup", "measure", "send")
_BASE_CAUTION = (
    "kernel and BASE may differ in configuration and compiler, and baseline.* with them, not only in their code;"
    " builds of one recipe (source:, tree:) share them"
)


@dataclass(frozen=True)
class JudgedRun:
    """A verdict, and what a report needs besides its figures.

    ``walls`` has arm and seed of each boot, and its host seconds by phase: boot, setup, measure and send. ``folder``
    holds the run. ``models`` states the error of this kernel's device models. ``bottlenecks`` are those of all arms and
    loads whose use was recorded; exports have neither.
    """

    scenario: Scenario
    verdict: Verdict
    facts: RunFacts
    walls: Sequence[tuple[str, int, Mapping[str, float]]] = ()
    elapsed: float | None = None
    folder: str = ""
    models: str = ""
    bottlenecks: tuple[Bottleneck, ...] = ()

    @classmethod
    def of(cls, run: RunFolder, verdict: Verdict) -> Self:
        walls = [(cell.arm, cell.seed, record.wall) for cell, record in run.boots()]
        return cls(run.scenario, verdict, run.facts, walls, run.elapsed(), shown_path(run.path))

    @property
    def kernels(self) -> tuple[str, str]:
        """The kernel of ``baseline.*`` (empty without one) and that under test, by spec where both have one release."""
        base, kernel = self.facts.base, self.facts.kernel
        if base is None or base.release != kernel.release:
            return base.release if base else "", kernel.release
        return base.spec, kernel.spec

    @property
    def precision(self) -> Precision:
        """How exactly the BASE kernel and this one can be compared."""
        alike = self.facts.base is not None and self.facts.base.configured_as(self.facts.kernel)
        return Precision(self.scenario.timing.exact, alike)

    @property
    def caution(self) -> str:
        """What a quotient of both kernels may come from besides their code; empty where nothing else differs."""
        base = self.facts.base
        return "" if base is None or base.configured_as(self.facts.kernel) else _BASE_CAUTION


def method(run: JudgedRun) -> Iterator[tuple[str, str]]:
    """How a run was measured: pairs of a name and a text."""
    facts, scenario, phases = run.facts, run.scenario, Counter[str]()
    for _, _, seconds in run.walls:
        phases.update(seconds)
    yield "clock", scenario.timing.says
    yield "kernel", f"{facts.kernel.release} ({facts.kernel.origin})"
    yield "machine", facts.qemu
    for name, text in (
        ("BASE kernel", run.kernels[0]),
        ("caution", run.caution),
        ("not visible", unseen(scenario, run.verdict.cells)),
        ("rule", _rule(facts.rule)),
        ("device models", run.models),
        ("after", source_words(scenario.source) if scenario.source else ""),
    ):
        if text:
            yield name, text
    for arm in scenario.arms.values():
        settings = settings_words(arm) or "as the topology has it"
        yield f"arm {arm.name}", settings + (f": {arm.teaches}" if arm.teaches else "")
    yield "started", facts.started
    total = "" if run.elapsed is None else f" in {duration(run.elapsed)}"
    order = sorted(phases, key=lambda phase: (_PHASES.index(phase) if phase in _PHASES else len(_PHASES), phase))
    spent = ", ".join(f"{phase} {duration(phases[phase])}" for phase in order)
    yield "effort", f"{plural(len(run.walls), 'boot')}{total}" + (f"; summed over boots: {spent}" if spent else "")
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
