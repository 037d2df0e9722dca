# SPDX-License-Identifier: GPL-2.0-only
"""pytest collects scenario files: ``scripts/run --dev pytest scenarios --kernel debian:6.1 -k shared``.

An item is a scenario on a kernel, ``shared-queue[debian:6.1]``. Its verdict becomes an outcome of pytest:

===========================  =====================================================
PASS                         passed; xfailed when only claims with a known failure failed
FAIL, XPASS                  failed, with the report that ``blklab run`` prints
SKIP, DONE, drafts           skipped, with all reasons; passed without claims
ERROR, MISS                  error, in the set-up of the item
a mistake in the file        error while collecting, with file:line:column
===========================  =====================================================

A scenario with the key ``selftest`` passes when it ends with the status that it declares. The set-up of an
item makes the boots; an interrupt stops the machines before pytest ends.
"""

import argparse
import io
import re
from collections.abc import Callable, Generator, Iterator
from functools import cache
from pathlib import Path

import pytest
from rich.console import Console

from harness.commands.boots import bench_of, kernel_of
from harness.commands.maintain import shortfalls
from harness.commands.options import MOST_SEEDS, kernel_default, number
from harness.commands.verdict import explained
from harness.judge.claims import XFAIL
from harness.judge.verdict import Verdict
from harness.limits.entries import load_scenario
from harness.record.judging import Run
from harness.report.claims import conclusion
from harness.report.terminal.run import print_verdict
from harness.run.plan import Request, run_command
from harness.scenario.load import ref_of
from harness.scenario.model import Scenario, Status
from lab.base.errors import EXIT_PASS, BlklabError

_ENDINGS = (".yaml", ".yml")
_SNIFFED = 1 << 16
_REPORT_WIDTH = 100


def _named(text: str) -> str:
    """An argparse type: an unset variable of a shell must not select a default."""
    if not text.strip():
        raise argparse.ArgumentTypeError("expected a value, got an empty one")
    return text


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("blklab", "scenarios of blklab")
    group.addoption(
        "--kernel",
        action="append",
        type=_named,
        default=[],
        metavar="SPEC",
        help="run scenarios on this kernel (may be repeated)",
    )
    group.addoption(
        "--seeds", type=number(1, MOST_SEEDS), metavar="N", help="boots of each arm instead of the scenario's"
    )
    group.addoption("--blklab-results", metavar="DIR", help="folder of the runs (default: as in blklab run)")


@cache
def runner_of(config: pytest.Config) -> Callable[[Scenario, str], Run]:
    """Runs a scenario on the kernel that a spec names, and judges it; each kernel is resolved at first use.

    Raises BlklabError.
    """
    bench, kernel = bench_of(config.getoption("--blklab-results")), cache(kernel_of)

    def run(scenario: Scenario, spec: str) -> Run:
        seeds = None if scenario.selftest else config.getoption("--seeds")
        command = run_command(ref_of(scenario), spec, seeds)
        return bench.run(Request(scenario, kernel(spec), seeds, command=command))

    return run


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> "ScenarioFile | None":
    if file_path.suffix not in _ENDINGS or not is_scenario(file_path, parent.config.rootpath):
        return None
    return ScenarioFile.from_parent(parent, path=file_path)


def is_scenario(path: Path, root: Path) -> bool:
    """Whether a file has the key ``scenario``, or is below a folder ``scenarios`` of ``root`` and of no other kind."""
    try:
        with path.open("rb") as file:
            text = file.read(_SNIFFED)
    except OSError:
        return False
    if re.search(rb"^scenario\s*:", text, re.MULTILINE):
        return True
    inside = path.parts[len(root.parts) : -1] if path.is_relative_to(root) else ()
    return "scenarios" in inside and not re.search(rb"^(hbas|luns|rows)\s*:", text, re.MULTILINE)


class ScenarioFile(pytest.File):
    """One scenario: an item per kernel."""

    def collect(self) -> Iterator["ScenarioItem"]:
        try:
            scenario = load_scenario(str(self.path))
        except BlklabError as error:
            raise self.CollectError(str(error)) from error
        for spec in dict.fromkeys(self.config.getoption("--kernel") or [kernel_default()]):
            yield ScenarioItem.from_parent(self, name=f"{scenario.name}[{spec}]", scenario=scenario, spec=spec)


class ScenarioItem(pytest.Item):
    """A scenario on a kernel: the set-up measures, the call judges."""

    def __init__(self, *, scenario: Scenario, spec: str, **others: object) -> None:
        super().__init__(**others)  # type: ignore[arg-type]
        self.scenario, self.spec = scenario, spec
        self._run: Run | None = None
        if self.config.pluginmanager.hasplugin("timeout"):
            # Machines have their own deadlines; a timeout of the plugin would not stop them.
            self.add_marker(pytest.mark.timeout(0))

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, self.name

    def setup(self) -> None:
        try:
            self._run = runner_of(self.config)(self.scenario, self.spec)
        except BlklabError as error:
            pytest.fail(str(error), pytrace=False)
        verdict = self._run.verdict
        self.user_properties += (
            ("blklab_status", str(verdict.status)),
            ("blklab_exit_code", str(verdict.exit_code)),
            ("blklab_kernel", self._run.folder.facts.kernel.release),
            ("blklab_run", str(self._run.folder.path)),
        )
        if self.scenario.selftest is None and verdict.status in (Status.ERROR, Status.MISS):
            pytest.fail(_report(self._run), pytrace=False)

    def runtest(self) -> None:
        if self._run is None:
            raise RuntimeError("the set-up of a scenario left no run")
        verdict = self._run.verdict
        if self.scenario.selftest is not None:
            lacking = tuple(shortfalls(self.scenario.selftest, verdict))
            if lacking:
                pytest.fail("\n".join((*lacking, "", _report(self._run))), pytrace=False)
        elif verdict.status is Status.FAIL:
            pytest.fail(_report(self._run), pytrace=False)
        elif verdict.exit_code != EXIT_PASS or self.scenario.is_draft:
            pytest.skip("; ".join(reasons(verdict)) or conclusion(verdict))
        else:
            expected = [claim.sentence for claim in verdict.claims if claim.word == XFAIL and not claim.optional]
            if expected:
                pytest.xfail("; ".join(expected))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Report a skipped scenario at its file, not at the line of this module that skips it."""
    report = yield
    if isinstance(item, ScenarioItem) and report.skipped and isinstance(report.longrepr, tuple):
        report.longrepr = (str(item.path), 1, report.longrepr[2])
    return report


def reasons(verdict: Verdict) -> tuple[str, ...]:
    """All reasons why a verdict is neither PASS nor FAIL, each once."""
    cells = [f"arm {cell.arm}: {'; '.join(cell.reasons)}" for cell in verdict.incidents]
    decided = (Status.PASS, Status.FAIL)
    judged = (*verdict.claims, *verdict.controls)
    parts = [entry.sentence for entry in judged if entry.judgement and entry.judgement.status not in decided]
    return tuple(dict.fromkeys(filter(None, (*cells, *parts))))


def _report(run: Run) -> str:
    out = io.StringIO()
    console = Console(file=out, width=_REPORT_WIDTH, force_terminal=False)
    print_verdict(console, explained(run.folder, run.verdict))
    return out.getvalue().rstrip()
