# SPDX-License-Identifier: GPL-2.0-only
"""``blklab run``: run scenarios on a kernel and judge them."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from harness.base.checkout import results_root
from harness.commands.common import options as shared
from harness.commands.common.boots import arms_of, bench_of, kernel_of
from harness.commands.common.dry_run import Estimate, add_dry_run, dominant, print_estimates, total
from harness.commands.common.output import FORMATS, add_exports, check_exports, export, show_run
from harness.commands.common.several import NamedScenario, add_several, conclude, scenarios_of
from harness.judge.verdict import Verdict
from harness.record.index import indexed_runs
from harness.record.store import KernelFacts
from harness.report.format import plural
from harness.run.bench import Bench, Run
from harness.run.plan import Request, check_repeats, expand, guest_job, run_command
from harness.run.tracing import DEFAULT_EVENTS, Trace, chosen_arm, parse_events, trace_boot
from harness.scenario.model import Scenario
from lab.base.errors import EXIT_PASS, Misuse
from lab.kernels.model import Kernel
from lab.kernels.resolve import check


def add_tracing(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("tracing")
    group.add_argument(
        "--trace",
        nargs="?",
        const=DEFAULT_EVENTS,
        metavar="EVENTS",
        help=f"record these ftrace events in one boot, without a verdict (block,scsi; default: {DEFAULT_EVENTS})",
    )
    group.add_argument("--seed", type=shared.number(1), metavar="N", help="the seed to trace (default: 1)")


def execute_trace(options: argparse.Namespace, scenario: Scenario) -> int:
    if len(options.arm) > 1:
        raise Misuse("--trace takes one --arm", remedy="trace the arms one after another")
    events = parse_events(options.trace)
    arm, seed = chosen_arm(scenario, options.arm[0] if options.arm else None), options.seed or 1
    bench = bench_of(options)
    kernel = kernel_of(options.kernel, refresh=options.refresh)
    shared.tell(f"{scenario.name} on {kernel.release}: arm {arm.name}, seed {seed}, tracing {', '.join(events)}")
    job, results = replace(guest_job(scenario, arm, seed), trace=events), bench.store.root / scenario.name
    _print(trace_boot(bench.lab, kernel, arm, job, results, phase_seen=shared.tell))
    return EXIT_PASS


def _print(traces: tuple[Trace, ...]) -> None:
    for trace in traces:
        lost = f" (the newest of {trace.written}; the buffer was full)" if trace.written > trace.kept else ""
        print(f"{trace.load}: {trace.kept} events{lost} in {trace.path}")
    print("not judged: tracing changes the instruction stream and therefore the figures")


_LONG = 60.0
"""Host seconds from which a run says first what takes them."""


def configure(parser: argparse.ArgumentParser) -> None:
    add_several(parser)
    shared.add_kernel(parser)
    parser.add_argument(
        "--base",
        type=shared.kernel_spec,
        metavar="SPEC",
        help="measure this kernel too, first or (wall clock) in turns; its figures are baseline.* in claims",
    )
    parser.add_argument(
        "--mail", type=Path, metavar="FILE", help="with --base: both kernels as a mail, with the functions that differ"
    )
    shared.add_seeds(parser, "--boots")
    shared.add_arms(parser)
    parser.add_argument(
        "--verify",
        action="store_true",
        help="boot every cell twice, the second time without a snapshot; different digests are an ERROR",
    )
    parser.add_argument("--cold", action="store_true", help="boot every guest; use no snapshot of a booted one")
    shared.add_results(parser)
    shared.add_jobs(parser)
    parser.add_argument(
        "--refresh", action="store_true", help="use the newest package of the kernel, not the pinned one"
    )
    add_dry_run(parser)
    add_exports(parser)
    add_tracing(parser)
    # A trace is one boot without a verdict.
    verdict = ("base", "seeds", "verify", "dry_run", "json", *FORMATS)
    parser.set_defaults(needs={"seed": ("trace",)}, alone={"trace": verdict})
    parser.epilog = "Exit status: 0 pass, 1 fail, 125 cannot judge, 128 and above: the lab is broken or misused."


def execute(options: argparse.Namespace) -> int:
    check_exports(options)
    chosen = scenarios_of(options)
    if not chosen:
        print(f"no scenario failed last time on {options.kernel}")
        return EXIT_PASS
    if options.trace is not None:
        return execute_trace(options, chosen[0].scenario)
    for it in chosen:
        check_repeats(it.scenario, verify=options.verify)
    if options.mail and (not options.base or len(chosen) > 1):
        raise Misuse("--mail compares one scenario on two kernels", remedy="add --base SPEC and name one scenario")
    if options.mail and not chosen[0].scenario.timing.counts_instructions:
        raise Misuse(
            "--mail names functions by instructions, which the wall clock does not count", remedy="omit --mail"
        )
    root, estimates = results_root(options.results), _estimates(options, [it.scenario for it in chosen])
    if options.dry_run:
        for spec in dict.fromkeys(estimate.spec for estimate in estimates):
            check(spec)
        print_estimates(estimates, root)
        return EXIT_PASS
    bench = bench_of(options)
    kernel = kernel_of(options.kernel, refresh=options.refresh)
    base = kernel_of(options.base, refresh=options.refresh) if options.base else None
    shared.tell(total(estimates, indexed_runs(root)))
    for line in dominant(estimates) if sum(each.modelled for each in estimates) >= _LONG else ():
        shared.tell(line)
    ended: list[tuple[str, Verdict]] = []
    for it in chosen:
        arms = arms_of(options.arm, it.scenario, [each.scenario for each in chosen])
        request = Request(it.scenario, kernel, options.seeds, arms, options.verify, command=_command(options, it, arms))
        run = _measured(options, bench, request, base)
        ended.append((it.scenario.name, run.verdict))
        if options.fail_fast and run.verdict.exit_code:
            break
    return conclude(ended, [it.scenario.name for it in chosen[len(ended) :]])


def _measured(options: argparse.Namespace, bench: Bench, request: Request, base: Kernel | None) -> Run:
    """The run of one scenario, after that of the BASE kernel or beside it, printed and exported."""
    if base:
        old, command = replace(request, kernel=base), (*request.command, "--base", options.base)
        request = replace(request, base=KernelFacts.of(base), command=command)
    if base and request.scenario.timing.by_rule:
        baseline, run = bench.run_beside(old, request)
    elif base:
        baseline = _baseline(bench, old)
        run = bench.run(replace(request, baseline=baseline.folder.facts.run_id))
    else:
        run = bench.run(request)
    _told(run)
    show_run(options, run.folder, run.verdict)
    export(options, run.folder, run.verdict)
    if base and options.mail:
        # A run that builds and profiles nothing does not wait for these imports.
        from harness.patch.base_mail import base_mail  # noqa: PLC0415

        text = base_mail(bench.lab, (baseline.folder, run.folder), (base, request.kernel), shared.tell)
        shared.print_or_write(text, options.mail, f"the mail is in {options.mail}")
    return run


def _baseline(bench: Bench, request: Request) -> Run:
    """The run on the BASE kernel: an earlier one with the same boots, unless --verify asks for new ones."""
    plan = bench.plan(request)
    earlier = None if request.verify else bench.earlier(plan)
    run = earlier or _told(bench.run(plan))
    word = "using run" if earlier else "measured in"
    shared.tell(f"BASE kernel {run.folder.facts.kernel.release}: {word} {run.folder.facts.run_id}")
    return run


def _told(run: Run) -> Run:
    if run.unfinished:
        shared.tell("host interference invalidated a boot: re-run the same command to repeat only that boot")
    if run.resumed:
        shared.tell(f"{plural(run.resumed, 'boot')} taken over from an interrupted run")
    return run


def _estimates(options: argparse.Namespace, scenarios: Sequence[Scenario]) -> list[Estimate]:
    estimates = []
    for scenario in scenarios:
        arms = arms_of(options.arm, scenario, scenarios)
        boots = (2 if options.verify else 1) * len(expand(scenario, options.seeds, arms or None))
        specs = (options.base, options.kernel) if options.base else (options.kernel,)
        estimates += [Estimate(scenario, spec, boots, arms) for spec in specs]
    return estimates


def _command(options: argparse.Namespace, it: NamedScenario, arms: Sequence[str]) -> tuple[str, ...]:
    verify = ("--verify",) if options.verify else ()
    return (*run_command(it.ref, options.kernel, options.seeds, arms), *verify)
