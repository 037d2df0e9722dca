# SPDX-License-Identifier: GPL-2.0-only
"""``blklab run``: one scenario on one kernel, from its file to its verdict."""

import argparse
from dataclasses import replace

from rich.console import Console

from harness.commands.command import SCENARIOS, add_kernel, add_results, results_root, tell
from harness.commands.exporting import add_exports, check_exports, export, report_console
from harness.commands.reporting import print_run
from harness.commands.tracing import add_tracing, execute_trace
from harness.record.store import RunFolder, Store
from harness.report.terminal.progress import progress
from harness.run.boots import Turns
from harness.run.clocks import STRATEGIES
from harness.run.plan import PlannedRun, Request, plan_run
from harness.run.runner import Run, carry_out, lanes_of_host, measured_before
from harness.scenario.load import load_scenario
from lab.base.cache import Cache
from lab.base.errors import Misuse
from lab.kernels.resolve import resolve
from lab.qemu.probe import find_qemu
from lab.session import Lab, open_lab

NAME = "run"
HELP = (
    "boot a kernel under a scenario's loads and judge it: exit 0 pass, 1 fail, 125 cannot judge, 128 and above broken"
)
_MOST_SEEDS = 64


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("scenario", help="a name that blklab list shows, or the path of a scenario file")
    add_kernel(parser)
    parser.add_argument(
        "--base", metavar="SPEC", help="measure this kernel first; baseline.* in claims are its figures"
    )
    parser.add_argument(
        "--seeds",
        "--boots",
        type=int,
        metavar="N",
        help="boots of each arm (on the wall clock at most) instead of the scenario's",
    )
    parser.add_argument("--arm", action="append", default=[], metavar="NAME", help="only this arm (may be repeated)")
    parser.add_argument(
        "--verify",
        action="store_true",
        help="boot every cell twice, the second time without a snapshot; other digests are an ERROR",
    )
    parser.add_argument("--cold", action="store_true", help="boot every guest; use no snapshot of a booted one")
    add_results(parser)
    parser.add_argument("--jobs", type=int, default=0, metavar="N", help="boots side by side (default: one a core)")
    parser.add_argument(
        "--refresh", action="store_true", help="take the newest package of the kernel, not the pinned one"
    )
    add_exports(parser)
    add_tracing(parser)


def execute(options: argparse.Namespace) -> int:
    _check(options)
    if options.trace is not None:
        return execute_trace(options)
    scenario = load_scenario(options.scenario, search=SCENARIOS)
    STRATEGIES[scenario.clock].refuse(scenario, verify=options.verify, baseline=options.base is not None)
    store = Store(results_root(options.results))
    store.check()
    cache = Cache.default()
    find_qemu()  # nothing is fetched for a host that cannot boot it
    kernel = resolve(options.kernel, cache, refresh=options.refresh, tell=tell)
    base = resolve(options.base, cache, refresh=options.refresh, tell=tell) if options.base else None
    lab = open_lab(cache, tell, cold=options.cold)
    request = Request(
        scenario, kernel, options.seeds, tuple(options.arm), options.verify, command=_command(options, options.kernel)
    )
    if base:
        facts = _measured(lab, replace(request, kernel=base), store, options).facts
        command = (*request.command, "--base", options.base)
        request = replace(request, baseline=facts.run_id, base=facts.kernel, command=command)
    run = _run(lab, plan_run(lab, request), store, options)
    print_run(report_console(options), run.folder, run.verdict)
    export(options, run.folder, run.verdict)
    return run.verdict.exit_code


def _measured(lab: Lab, request: Request, store: Store, options: argparse.Namespace) -> RunFolder:
    """The run on the BASE kernel: an earlier one with the same boots, unless --verify asks for new ones."""
    plan = plan_run(lab, request)
    earlier = None if options.verify else measured_before(plan, store)
    if earlier is not None:
        tell(f"BASE kernel {earlier.facts.kernel.release}: using run {earlier.facts.run_id}")
        return earlier
    folder = _run(lab, plan, store, options).folder
    tell(f"BASE kernel {folder.facts.kernel.release}: measured in {folder.facts.run_id}")
    return folder


def _run(lab: Lab, plan: PlannedRun, store: Store, options: argparse.Namespace) -> Run:
    with progress(Console(stderr=True)) as listener:
        run = carry_out(lab, plan, store, listener, Turns(lanes_of_host(options.jobs)))
    if run.unfinished:
        tell("host interference invalidated a boot: re-run the same command to repeat only that boot")
    if run.resumed:
        tell(f"{run.resumed} boot{'s' if run.resumed > 1 else ''} taken over from an interrupted run")
    return run


def _check(options: argparse.Namespace) -> None:
    check_exports(options)
    if options.seeds is not None and not 1 <= options.seeds <= _MOST_SEEDS:
        raise Misuse(f"--seeds {options.seeds}", remedy=f"a number from 1 to {_MOST_SEEDS}")
    if options.jobs < 0:
        raise Misuse(f"--jobs {options.jobs}", remedy="0 (one a core) or more")


def _command(options: argparse.Namespace, kernel: str) -> tuple[str, ...]:
    words = ["blklab", "run", options.scenario, "--kernel", kernel]
    words += ["--seeds", str(options.seeds)] if options.seeds is not None else []
    for arm in options.arm:
        words += ["--arm", arm]
    return (*words, "--verify") if options.verify else tuple(words)
