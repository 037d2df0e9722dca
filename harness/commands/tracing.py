# SPDX-License-Identifier: GPL-2.0-only
"""``blklab run --trace``: one boot with trace events, not judged."""

import argparse

from harness.commands.command import SCENARIOS, number, results_root, tell
from harness.limits.load import load_scenario
from harness.record.store import Store
from harness.run.tracing import DEFAULT_EVENTS, Trace, chosen_cell, parse_events, trace_boot
from lab.base.cache import Cache
from lab.base.errors import EXIT_PASS, Misuse
from lab.kernels.resolve import resolve
from lab.qemu.probe import find_qemu
from lab.session import open_lab


def add_tracing(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("tracing")
    group.add_argument(
        "--trace",
        nargs="?",
        const=DEFAULT_EVENTS,
        metavar="EVENTS",
        help=f"record these ftrace events in one boot, without a verdict (block,scsi; default: {DEFAULT_EVENTS})",
    )
    group.add_argument("--seed", type=number(1), metavar="N", help="the seed to trace (default: 1)")


def execute_trace(options: argparse.Namespace) -> int:
    _check(options)
    events = parse_events(options.trace)
    scenario = load_scenario(options.scenario, search=SCENARIOS)
    cell = chosen_cell(scenario, options.arm[0] if options.arm else None, options.seed)
    store = Store(results_root(options.results))
    store.check()
    cache = Cache.default()
    find_qemu()  # Before anything is downloaded.
    kernel = resolve(options.kernel, cache, refresh=options.refresh, tell=tell)
    lab = open_lab(cache, tell)
    tell(f"{scenario.name} on {kernel.release}: arm {cell.arm.name}, seed {cell.seed}, tracing {', '.join(events)}")
    _print(trace_boot(lab, cell, kernel, events, store.root, phase_seen=tell))
    return EXIT_PASS


def _check(options: argparse.Namespace) -> None:
    unused = [name for name in ("base", "seeds", "verify", "dry_run", "json") if getattr(options, name)]
    if unused:
        flag = f"--{unused[0].replace('_', '-')}"
        raise Misuse(f"--trace with {flag}: --trace makes one boot and no verdict", remedy=f"omit {flag}")
    if len(options.arm) > 1:
        raise Misuse("--trace takes one --arm", remedy="trace the arms one after another")


def _print(traces: tuple[Trace, ...]) -> None:
    for trace in traces:
        lost = f" (the newest of {trace.written}; the buffer was full)" if trace.written > trace.kept else ""
        print(f"{trace.load}: {trace.kept} events{lost} in {trace.path}")
    print("not judged: tracing changes the instruction stream and therefore the figures")
