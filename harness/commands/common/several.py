# SPDX-License-Identifier: GPL-2.0-only
"""``run`` with several scenarios: which ones, and what they come to together."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.text import Text

from harness.base.checkout import results_root
from harness.commands.common.options import add_scenario
from harness.judge.cells import exit_code_of
from harness.judge.verdict import Verdict
from harness.limits.load import load_scenario
from harness.record.index import indexed_runs
from harness.record.store import load_run
from harness.report.claims import reason
from harness.report.format import STYLES, plural
from harness.report.terminal.printing import console_of
from harness.scenario.model import Scenario, Status
from lab.base.errors import Misuse

_FAILED = (Status.FAIL, Status.ERROR, Status.MISS)
_SCENARIO = 2
"""The word of ``blklab run SCENARIO`` that names it."""


@dataclass(frozen=True)
class NamedScenario:
    """``ref`` is the name or the path by which the scenario was asked for."""

    ref: str
    scenario: Scenario


def add_several(parser: argparse.ArgumentParser) -> None:
    add_scenario(parser, nargs="*")
    parser.add_argument("--fail-fast", action="store_true", help="end after the first scenario that does not pass")
    parser.add_argument(
        "--failed",
        action="store_true",
        help="only those whose newest run on the kernel failed or could not be judged (of all when none is named)",
    )


def scenarios_of(options: argparse.Namespace) -> list[NamedScenario]:
    """Those to run; empty where ``--failed`` finds none. Raises Misuse for what one run alone can take."""
    if not options.scenario and not options.failed:
        raise Misuse("run needs a scenario", remedy="blklab list shows the names; --failed runs what failed last time")
    refs = options.scenario or _failed(options).values()
    named = {it.scenario.name: it for it in (NamedScenario(ref, _load(ref)) for ref in refs)}
    chosen = [it for name, it in named.items() if not options.failed or name in _failed(options)]
    alone = [name for name in ("json", "junit", "ktap", "kcidb", "csv", "trace") if getattr(options, name)]
    if len(chosen) > 1 and alone:
        raise Misuse(f"--{alone[0]} takes one scenario", remedy="run the scenarios one after another, or blklab matrix")
    return chosen


def _load(ref: str) -> Scenario:
    return load_scenario(ref)


def _failed(options: argparse.Namespace) -> dict[str, str]:
    """The scenarios whose newest run on the kernel did not pass, by name, as that run's command has them."""
    root = results_root(options.results)
    newest = {run.scenario: run for run in indexed_runs(root) if run.spec == options.kernel}
    refs = {}
    for name, run in newest.items():
        if run.status in _FAILED:
            command = load_run(Path(root / run.path)).facts.command
            refs[name] = command[_SCENARIO] if len(command) > _SCENARIO else name
    return refs


def conclude(ended: Sequence[tuple[str, Verdict]], left: Sequence[str]) -> int:
    """Print a line for each scenario where there are several, and the exit code of all; ``left`` were not run."""
    code = exit_code_of((verdict.status, verdict.exit_code) for _, verdict in ended)
    if len(ended) + len(left) > 1:
        console = console_of()
        console.print(f"\n{plural(len(ended) + len(left), 'scenario')}, exit {code}")
        for name, verdict in ended:
            line = Text("  ").append(f"{verdict.status:5}", STYLES[verdict.status]).append(f"  {name}: ")
            console.print(line.append(reason(verdict)), soft_wrap=True)
        if left:
            console.print(f"  not run (--fail-fast): {', '.join(left)}", soft_wrap=True)
    return code
