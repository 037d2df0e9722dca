# SPDX-License-Identifier: GPL-2.0-only
"""Names of before ``bench``, until all callers use it."""

from contextlib import nullcontext

from harness.record.store import RunFolder, Store
from harness.run.bench import Bench, Run, turns_of_host
from harness.run.boots import Turns
from harness.run.events import Listener, nobody
from harness.run.lanes import Lanes
from harness.run.plan import PlannedRun, Request
from lab.session import Lab


def run_scenario(lab: Lab, request: Request, store: Store, listener: Listener = nobody, at_once: int = 0) -> Run:
    return _bench(lab, store, listener, turns_of_host(at_once)).run(request)


def measured(lab: Lab, request: Request, store: Store, listener: Listener = nobody, at_once: int = 0) -> RunFolder:
    return _bench(lab, store, listener, turns_of_host(at_once)).measure(request).folder


def carry_out(lab: Lab, plan: PlannedRun, store: Store, listener: Listener, turns: Turns) -> Run:
    return _bench(lab, store, listener, turns).run(plan)


def measure(lab: Lab, plan: PlannedRun, store: Store, listener: Listener, turns: Turns) -> RunFolder:
    return _bench(lab, store, listener, turns).measure(plan).folder


def lanes_of_host(at_once: int = 0) -> Lanes:
    return turns_of_host(at_once).lanes


def _bench(lab: Lab, store: Store, listener: Listener, turns: Turns) -> Bench:
    return Bench(lab, store, lambda: nullcontext(listener), turns)
