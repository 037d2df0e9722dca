# SPDX-License-Identifier: GPL-2.0-only
"""``blklab run``: run scenarios on a kernel and judge them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from rich.text import Text

from harness.base.checkout import results_root
from harness.commands.boots import arms_of, bench_and_kernels, distinct, print_dry_run
from harness.commands.options import (
    ARMS,
    CONFIG,
    DRY_RUN,
    JOBS,
    KERNEL,
    NICE,
    RESULTS,
    SCENARIO,
    SEEDS,
    config_words,
    number,
    print_or_write,
    tell,
    words_of,
)
from harness.commands.parser import Command, all_of, flag, option
from harness.commands.verdict import FORMATS, Exports
from harness.judge.cells import exit_code_of
from harness.judge.verdict import Verdict
from harness.record.index import indexed_runs
from harness.record.judging import Run
from harness.record.store import KernelFacts
from harness.report.claims import reason
from harness.report.format import STYLES, plural
from harness.report.terminal import console_of
from harness.report.terminal.scenario import Estimate, dominant, total
from harness.run.bench import Bench
from harness.run.plan import Request, check_common_arm, check_repeats, expand, guest_job, run_command
from harness.run.tracing import DEFAULT_EVENTS, parse_events, trace_boot
from harness.scenario.model import Scenario, Status
from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_PASS, Misuse
from lab.kernels.kconfig import lacking
from lab.kernels.model import Kernel
from lab.kernels.resolve import check, demand

_FAILED = (Status.FAIL, Status.ERROR, Status.MISS)
_LONG = 60.0
"""Host seconds from which a run says first what takes them."""


class RunScenarios(Command):
    scenario: Sequence[str] = SCENARIO.but(nargs="*")
    fail_fast: bool = flag("end after the first scenario that does not pass")
    failed: bool = flag(
        "only those whose newest run on the kernel failed or could not be judged (of all when none is named)"
    )
    kernel: str = KERNEL
    base: str | None = option(
        type=demand,
        metavar="SPEC",
        help="measure this kernel too, first or (wall clock) in turns; its figures are baseline.* in claims",
    )
    mail: Path | None = option(
        type=Path,
        metavar="FILE",
        help="with --base: both kernels as a mail, with the functions that differ",
    )
    seeds: int | None = SEEDS.but("--seeds", "--boots")
    arms: Sequence[str] = ARMS
    verify: bool = flag("boot every cell twice, the second time without a snapshot; different digests are an ERROR")
    cold: bool = flag("boot every guest; use no snapshot of a booted one")
    results: str | None = RESULTS
    jobs: int = JOBS
    nice: int | None = NICE
    config: Path | None = CONFIG
    refresh: bool = flag("use the newest package of the kernel, not the pinned one")
    dry_run: bool = DRY_RUN
    exports: Exports = all_of(Exports)
    trace: str | None = option(
        nargs="?",
        const=DEFAULT_EVENTS,
        metavar="EVENTS",
        help=f"record these ftrace events in one boot, without a verdict (block,scsi; default: {DEFAULT_EVENTS})",
    )
    seed: int | None = option(type=number(1), metavar="N", help="the seed to trace (default: 1)")
    epilog = "Exit status: 0 pass, 1 fail, 125 cannot judge, 128 and above: the lab is broken or misused."
    needs: ClassVar = {"seed": ("trace",)}
    # A trace is one boot without a verdict.
    alone: ClassVar = {"trace": ("base", "seeds", "verify", "dry_run", "json", *FORMATS)}

    def __call__(self) -> int:
        named = _scenarios(self.scenario, _failed(self.results, self.kernel) if self.failed else None)
        if not named:
            print(f"no scenario failed last time on {self.kernel}")
            return EXIT_PASS
        single = {"json": self.exports.json, **self.exports.files, "trace": self.trace is not None}
        if len(named) > 1 and any(single.values()):
            word = next(name for name, given in single.items() if given)
            raise Misuse(f"--{word} takes one scenario", remedy="run the scenarios one after another, or blklab matrix")
        chosen = [*named.values()]
        if self.trace is not None:
            return self._trace(chosen[0], parse_events(self.trace))
        self._check(chosen)
        specs = (self.base, self.kernel) if self.base else (self.kernel,)
        estimates = [self._estimate(each, spec, arms_of(self.arms, each, chosen)) for each in chosen for spec in specs]
        if self.dry_run:
            for spec in dict.fromkeys(specs):
                check(spec)
            return print_dry_run(estimates, self.results)
        bench, (*bases, booted) = self._bench_and_kernels(specs)
        tell(total(estimates, indexed_runs(results_root(self.results))))
        for line in dominant(estimates) if sum(each.modelled for each in estimates) >= _LONG else ():
            tell(line)
        ended: list[tuple[str, Verdict]] = []
        for ref, each in named.items():
            own = arms_of(self.arms, each, chosen)
            command = (*run_command(ref, self.kernel, self.seeds, own), *words_of(verify=self.verify), *config_words())
            request = Request(each, booted, self.seeds, own, self.verify, command=command)
            verdict = _measure(bench, request, (self.base, bases[0]) if self.base else None, self.exports, self.mail)
            ended.append((each.name, verdict))
            if self.fail_fast and verdict.exit_code:
                break
        return _conclude(ended, [each.name for each in chosen[len(ended) :]], booted)

    def _bench_and_kernels(self, specs: Sequence[str]) -> tuple[Bench, list[Kernel]]:
        return bench_and_kernels(self.results, self.jobs, specs, cold=self.cold, refresh=self.refresh)

    def _check(self, scenarios: Sequence[Scenario]) -> None:
        """Raises Misuse for options that do not go with the scenarios; tells which of them boot more."""
        for scenario in scenarios:
            check_repeats(scenario, verify=self.verify)
        if self.mail and (not self.base or len(scenarios) > 1):
            raise Misuse("--mail compares one scenario on two kernels", remedy="add --base SPEC and name one scenario")
        if self.mail and not scenarios[0].timing.counts_instructions:
            raise Misuse(
                "--mail names functions by instructions, which the wall clock does not count", remedy="omit --mail"
            )
        if self.mail:
            tell("--mail: each of both kernels boots once more and is profiled, where figures differ")

    def _estimate(self, scenario: Scenario, spec: str, arms: tuple[str, ...]) -> Estimate:
        boots = len(expand(scenario, self.seeds, arms or None))
        return Estimate(scenario, spec, (2 if self.verify else 1) * boots, arms)

    def _trace(self, scenario: Scenario, events: tuple[str, ...]) -> int:
        if len(self.arms) > 1:
            raise Misuse("--trace takes one --arm", remedy="trace the arms one after another")
        (arm, _), seed = expand(scenario, 1, self.arms or None)[0], self.seed or 1
        bench, (kernel,) = self._bench_and_kernels([self.kernel])
        tell(f"{scenario.name} on {kernel.release}: arm {arm.name}, seed {seed}, tracing {', '.join(events)}")
        job, results = replace(guest_job(scenario, arm, seed), trace=events), bench.store.root / scenario.name
        for trace in trace_boot(bench.lab, kernel, arm, job, results, phase_seen=tell):
            lost = f" (the newest of {trace.written}; the buffer was full)" if trace.written > trace.kept else ""
            print(f"{trace.load}: {trace.kept} events{lost} in {trace.path}")
        print("not judged: tracing changes the instruction stream and therefore the figures")
        return EXIT_PASS


def _scenarios(refs: Sequence[str], failed: dict[str, str] | None) -> dict[str, Scenario]:
    """Those to run, by the name or path that refers to them; with ``failed`` only of these. Raises Misuse."""
    if not refs and failed is None:
        raise Misuse("run needs a scenario", remedy="blklab list shows the names; --failed runs what failed last time")
    loaded = distinct(refs or (failed or {}).values())
    return dict(pair for name, pair in loaded.items() if failed is None or name in failed)


def _failed(results: str | None, kernel: str) -> dict[str, str]:
    """The scenarios whose newest run on the kernel did not pass, by name, as that run's command has them."""
    newest = {run.scenario: run for run in indexed_runs(results_root(results)) if run.kernel.spec == kernel}
    return {name: run.facts.ref for name, run in newest.items() if run.status in _FAILED}


def _measure(
    bench: Bench, request: Request, based: tuple[str, Kernel] | None, exports: Exports, mail: Path | None
) -> Verdict:
    """The verdict of one scenario, after its run on the BASE kernel or beside it; printed and exported."""
    base = replace(request, kernel=based[1]) if based else None
    if based:
        spec, kernel = based
        request = replace(request, base=KernelFacts.of(kernel), command=(*request.command, "--base", spec))
        check_common_arm(bench.plan(replace(request, kernel=kernel)), bench.plan(request))
    if base and request.scenario.timing.by_rule:
        baseline, run = bench.run_beside(base, request)
    elif base:
        baseline = _baseline(bench, base)
        run = bench.run(replace(request, baseline=baseline.folder.facts.run_id))
    else:
        run = bench.run(request)
    _told(run)
    exports.show(run.folder, run.verdict)
    if base and mail:
        # A run that builds and profiles nothing does not wait for these imports.
        from harness.patch.report import base_mail  # noqa: PLC0415

        text = base_mail(bench.lab, (baseline.folder, run.folder), (base.kernel, request.kernel), tell)
        print_or_write(text, mail, f"the mail is in {mail}")
    return run.verdict


def _baseline(bench: Bench, request: Request) -> Run:
    """The run on the BASE kernel: an earlier one with the same boots, unless --verify asks for new ones."""
    plan = bench.plan(request)
    earlier = None if request.verify else bench.earlier(plan)
    run = earlier or _told(bench.run(plan))
    word = "using run" if earlier else "measured in"
    tell(f"BASE kernel {run.folder.facts.kernel.release}: {word} {run.folder.facts.run_id}")
    return run


def _told(run: Run) -> Run:
    if run.unfinished:
        tell("host interference invalidated a boot: re-run the same command to repeat only that boot")
    if run.resumed:
        tell(f"{plural(run.resumed, 'boot')} taken over from an interrupted run")
    return run


def _conclude(ended: Sequence[tuple[str, Verdict]], left: Sequence[str], kernel: Kernel) -> int:
    """Print a line for each scenario where there are several, and the exit code of all; ``left`` were not run.

    Where none can be judged on a build of the user's, print what that lacks.
    """
    code = exit_code_of((verdict.status, verdict.exit_code) for _, verdict in ended)
    if len(ended) + len(left) > 1:
        console = console_of()
        console.print(f"\n{plural(len(ended) + len(left), 'scenario')}, exit {code}")
        for name, verdict in ended:
            line = Text("  ").append(f"{verdict.status:5}", STYLES[verdict.status]).append(f"  {name}: ")
            console.print(line.append(reason(verdict)), soft_wrap=True)
        if left:
            console.print(f"  not run (--fail-fast): {', '.join(left)}", soft_wrap=True)
    if code == EXIT_CANNOT_JUDGE and (lacks := lacking(kernel)):
        print(f"# {kernel.origin} lacks these; merge_config.sh -m .config FILE adds them:\n{lacks}", end="")
    return code


COMMANDS: dict[str, type[Command]] = {"run": RunScenarios}
