# SPDX-License-Identifier: GPL-2.0-only
"""``blklab run``: run scenarios on a kernel and judge them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

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
from harness.commands.parser import Command, flag, option
from harness.commands.verdict import EXPORTS, FORMATS, Exports
from harness.judge.cells import exit_code_of
from harness.judge.verdict import Verdict
from harness.record.index import indexed_runs
from harness.record.judging import Run
from harness.record.store import KernelFacts, load_run
from harness.report.claims import reason
from harness.report.format import STYLES, plural
from harness.report.terminal.printing import console_of
from harness.report.terminal.run import Detail
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
_SCENARIO = 2
"""The word of ``blklab run SCENARIO`` that names it."""
_LONG = 60.0
"""Host seconds from which a run says first what takes them."""


def _run(
    *,
    scenario: Sequence[str],
    fail_fast: bool,
    failed: bool,
    kernel: str,
    base: str | None,
    mail: Path | None,
    seeds: int | None,
    arms: Sequence[str],
    verify: bool,
    cold: bool,
    results: str | None,
    jobs: int,
    refresh: bool,
    dry_run: bool,
    trace: str | None,
    seed: int | None,
    detail: Detail,
    json: bool,
    **files: str | None,
) -> int:
    exports = Exports.of(detail, json, **files)
    named = _scenarios(scenario, _failed(results, kernel) if failed else None)
    if not named:
        print(f"no scenario failed last time on {kernel}")
        return EXIT_PASS
    alone = ["json"] if json else [*exports.files, *(["trace"] if trace is not None else [])]
    if len(named) > 1 and alone:
        raise Misuse(f"--{alone[0]} takes one scenario", remedy="run the scenarios one after another, or blklab matrix")
    chosen = [*named.values()]
    if trace is not None:
        return _trace(
            chosen[0],
            arms,
            seed or 1,
            parse_events(trace),
            lambda: bench_and_kernels(results, jobs, [kernel], cold=cold, refresh=refresh),
        )
    _check(chosen, verify=verify, base=base, mail=mail)
    specs = (base, kernel) if base else (kernel,)
    estimates = [_estimate(each, spec, seeds, arms_of(arms, each, chosen), verify) for each in chosen for spec in specs]
    if dry_run:
        for spec in dict.fromkeys(specs):
            check(spec)
        return print_dry_run(estimates, results)
    bench, (*bases, booted) = bench_and_kernels(results, jobs, specs, cold=cold, refresh=refresh)
    _tell_costs(estimates, results)
    ended: list[tuple[str, Verdict]] = []
    for ref, each in named.items():
        own = arms_of(arms, each, chosen)
        command = (*run_command(ref, kernel, seeds, own), *words_of(verify=verify), *config_words())
        request = Request(each, booted, seeds, own, verify, command=command)
        verdict = _measure(bench, request, (base, bases[0]) if base else None, exports, mail)
        ended.append((each.name, verdict))
        if fail_fast and verdict.exit_code:
            break
    return _conclude(ended, [each.name for each in chosen[len(ended) :]], booted)


def _scenarios(refs: Sequence[str], failed: dict[str, str] | None) -> dict[str, Scenario]:
    """Those to run, by the name or path that refers to them; with ``failed`` only of these. Raises Misuse."""
    if not refs and failed is None:
        raise Misuse("run needs a scenario", remedy="blklab list shows the names; --failed runs what failed last time")
    loaded = distinct(refs or (failed or {}).values())
    return dict(pair for name, pair in loaded.items() if failed is None or name in failed)


def _failed(results: str | None, kernel: str) -> dict[str, str]:
    """The scenarios whose newest run on the kernel did not pass, by name, as that run's command has them."""
    root = results_root(results)
    newest = {run.scenario: run for run in indexed_runs(root) if run.spec == kernel}
    refs = {}
    for name, run in newest.items():
        if run.status in _FAILED:
            command = load_run(Path(root / run.path)).facts.command
            refs[name] = command[_SCENARIO] if len(command) > _SCENARIO else name
    return refs


def _check(scenarios: Sequence[Scenario], *, verify: bool, base: str | None, mail: Path | None) -> None:
    """Raises Misuse for options that do not go with the scenarios; tells which of them boot more."""
    for scenario in scenarios:
        check_repeats(scenario, verify=verify)
    if mail and (not base or len(scenarios) > 1):
        raise Misuse("--mail compares one scenario on two kernels", remedy="add --base SPEC and name one scenario")
    if mail and not scenarios[0].timing.counts_instructions:
        raise Misuse(
            "--mail names functions by instructions, which the wall clock does not count", remedy="omit --mail"
        )
    if mail:
        tell("--mail: each of both kernels boots once more and is profiled, where figures differ")


def _estimate(scenario: Scenario, spec: str, seeds: int | None, arms: tuple[str, ...], verify: bool) -> Estimate:
    return Estimate(scenario, spec, (2 if verify else 1) * len(expand(scenario, seeds, arms or None)), arms)


def _tell_costs(estimates: Sequence[Estimate], results: str | None) -> None:
    tell(total(estimates, indexed_runs(results_root(results))))
    for line in dominant(estimates) if sum(each.modelled for each in estimates) >= _LONG else ():
        tell(line)


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


def _trace(
    scenario: Scenario,
    arms: Sequence[str],
    seed: int,
    events: tuple[str, ...],
    prepare: Callable[[], tuple[Bench, list[Kernel]]],
) -> int:
    if len(arms) > 1:
        raise Misuse("--trace takes one --arm", remedy="trace the arms one after another")
    arm, _ = expand(scenario, 1, arms or None)[0]
    bench, (kernel,) = prepare()
    tell(f"{scenario.name} on {kernel.release}: arm {arm.name}, seed {seed}, tracing {', '.join(events)}")
    job, results = replace(guest_job(scenario, arm, seed), trace=events), bench.store.root / scenario.name
    for trace in trace_boot(bench.lab, kernel, arm, job, results, phase_seen=tell):
        lost = f" (the newest of {trace.written}; the buffer was full)" if trace.written > trace.kept else ""
        print(f"{trace.load}: {trace.kept} events{lost} in {trace.path}")
    print("not judged: tracing changes the instruction stream and therefore the figures")
    return EXIT_PASS


COMMANDS = {
    "run": Command(
        _run,
        (
            SCENARIO.but(nargs="*"),
            flag("--fail-fast", "end after the first scenario that does not pass"),
            flag(
                "--failed",
                "only those whose newest run on the kernel failed or could not be judged (of all when none is named)",
            ),
            KERNEL,
            option(
                "--base",
                type=demand,
                metavar="SPEC",
                help="measure this kernel too, first or (wall clock) in turns; its figures are baseline.* in claims",
            ),
            option(
                "--mail",
                type=Path,
                metavar="FILE",
                help="with --base: both kernels as a mail, with the functions that differ",
            ),
            SEEDS.but("--boots"),
            ARMS,
            flag(
                "--verify", "boot every cell twice, the second time without a snapshot; different digests are an ERROR"
            ),
            flag("--cold", "boot every guest; use no snapshot of a booted one"),
            RESULTS,
            JOBS,
            NICE,
            CONFIG,
            flag("--refresh", "use the newest package of the kernel, not the pinned one"),
            DRY_RUN,
            *EXPORTS,
            option(
                "--trace",
                nargs="?",
                const=DEFAULT_EVENTS,
                metavar="EVENTS",
                help="record these ftrace events in one boot, without a verdict (block,scsi;"
                f" default: {DEFAULT_EVENTS})",
            ),
            option("--seed", type=number(1), metavar="N", help="the seed to trace (default: 1)"),
        ),
        "Exit status: 0 pass, 1 fail, 125 cannot judge, 128 and above: the lab is broken or misused.",
        needs={"seed": ("trace",)},
        # A trace is one boot without a verdict.
        alone={"trace": ("base", "seeds", "verify", "dry_run", "json", *FORMATS)},
    )
}
