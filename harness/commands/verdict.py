# SPDX-License-Identifier: GPL-2.0-only
"""``blklab judge`` and ``blklab report``, and what ``blklab run`` prints and writes of a verdict."""

import json
import sys
import webbrowser
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.base.checkout import of_results, results_root
from harness.base.files import write_atomic
from harness.commands.options import RUN, tell
from harness.commands.parser import (
    REPORT_FILE,
    RUN_FILE,
    Command,
    Options,
    all_of,
    demand_own,
    flag,
    operand,
    option,
)
from harness.judge.verdict import Verdict, verdict_document
from harness.limits.bottleneck import Bottleneck
from harness.limits.entries import load_scenario
from harness.record.grid import load_grid
from harness.record.judging import explain_run, judge_run, rejudge, taken_as_written
from harness.record.store import RunFolder, Store, load_run
from harness.report.claims import JudgedRun
from harness.report.models import note
from harness.report.terminal import console_of
from harness.report.terminal.run import Detail, print_verdict
from harness.scenario.load import is_shipped
from harness.scenario.model import Scenario
from lab.base.errors import EXIT_PASS, Misuse
from lab.base.reading import real

STDOUT = "-"
FORMATS = {
    "junit": "JUnit XML",
    "ktap": "KTAP version 1",
    "kcidb": "kcidb JSON, schema 5.3",
    "csv": "CSV with a row per figure",
}


def _format(name: str) -> Any:
    return option(metavar="FILE", help=f"also write {FORMATS[name]}; - is standard output")


class Exports(Options):
    """How a verdict is printed, and where it is written too: a file, or - for standard output, for each format.

    Raises Misuse where several things would go to standard output.
    """

    verbose: bool = flag("print every arm, figure and bottleneck", "-v", "--verbose")
    quiet: bool = flag("print one line", "-q", "--quiet")
    json: bool = flag("print verdict.json instead of the report")
    junit: str | None = _format("junit")
    ktap: str | None = _format("ktap")
    kcidb: str | None = _format("kcidb")
    csv: str | None = _format("csv")
    one_of = ("verbose", "quiet", "json")

    def __post_init__(self) -> None:
        if [*self.files.values()].count(STDOUT) + self.json > 1:
            raise Misuse("only one format can go to standard output", remedy="name files for the others")

    @property
    def files(self) -> dict[str, str]:
        """By the name of the format."""
        return {name: file for name in FORMATS if (file := getattr(self, name)) is not None}

    @property
    def detail(self) -> Detail:
        return Detail.FULL if self.verbose else Detail.BRIEF if self.quiet else Detail.NORMAL

    def show(self, run: RunFolder, verdict: Verdict) -> None:
        """Print the report (on standard error when a format goes to standard output) or, with --json, the verdict.

        Then write each format. Raises LabBroken when a file cannot be written.
        """
        if self.json:
            print(json.dumps(verdict_document(verdict), indent=2))
        else:
            print_verdict(console_of(stderr=STDOUT in self.files.values()), explained(run, verdict), self.detail)
        for name, file in self.files.items():
            text = _text(name, run, verdict)
            if file == STDOUT:
                sys.stdout.write(text)
            else:
                write_atomic(Path(file), text.encode())


def _text(name: str, run: RunFolder, verdict: Verdict) -> str:
    """The verdict in one of ``FORMATS``; a run that exports nothing does not import them."""
    from harness.report.exports import csv_table, junit_xml, kcidb_json, ktap  # noqa: PLC0415

    texts = {"junit": junit_xml, "ktap": ktap, "kcidb": kcidb_json, "csv": csv_table}
    return texts[name](JudgedRun.of(run, verdict))


def explained(run: RunFolder, verdict: Verdict) -> JudgedRun:
    """The run with its bottlenecks, and with what is known of the device models."""
    limits = tuple(limit for limit in explain_run(run) if isinstance(limit, Bottleneck))
    models = note(run.path.parent.parent, run) if run.facts.rule is None else ""
    return replace(JudgedRun.of(run, verdict), models=models, bottlenecks=limits)


class Judge(Command):
    run: Path = RUN
    exports: Exports = all_of(Exports)

    def __call__(self) -> int:
        rejudged = rejudge(self.run)
        self.exports.show(rejudged.run, rejudged.verdict)
        scenario = rejudged.run.scenario
        shipped = next(filter(is_shipped, (rejudged.run.facts.ref, scenario.name)), "")
        for line in _other_bounds(scenario, shipped):
            tell(line)
        own = [] if shipped else [f"bounds, as scenarios/ has no {scenario.name}"]
        tell(f"no guest repeats, so only another run can confirm: {'; '.join([*taken_as_written(rejudged.run), *own])}")
        if not rejudged.before:
            tell("this run has no stored verdict")
        elif not rejudged.differences:
            worded = "" if rejudged.worded else " (its sentences are another version's)"
            tell(f"the stored verdict is identical{worded}")
        for difference in rejudged.differences:
            tell(f"verdict.json: {difference}")
        return rejudged.exit_code


def _other_bounds(scenario: Scenario, name: str) -> Iterator[str]:
    """How the bounds of a run differ from those of the checkout's scenario of that name, which may be newer."""
    shipped = load_scenario(name) if name else scenario
    asked = defaultdict[str, list[str]](list)
    for entry in shipped.entries:
        asked[entry.ratio.text].append(entry.expect.text)
    for entry in scenario.entries:
        ratio, bound = entry.ratio.text, entry.expect.text
        if ratio in asked and bound not in asked[ratio]:
            yield f"{ratio}: this run asks for {bound}, scenarios/{name}.yaml for {' and '.join(asked[ratio])}"


class Report(Command):
    folder: Path | None = operand(
        nargs="?",
        type=of_results,
        help="a run (results/NAME/latest), a matrix (results/matrix/latest), a scenario's runs (results/NAME)"
        " or a results folder (default: results/)",
    )
    out: Path | None = option(type=Path, metavar="FILE", help="the page (default: report.html in that folder)")
    open: bool = flag("open the page in the browser")

    def __call__(self) -> int:
        shown = real(self.folder or results_root(None))
        target = self.out or shown / REPORT_FILE
        if not target.parent.is_dir():
            raise Misuse(f"{target.parent} is not a folder", remedy="name a folder that holds runs, or --out FILE")
        if self.out is None:
            demand_own(target, str(target), f"name a file with --out, or --out {target} --force")
        write_atomic(target, _page(shown).encode())
        print(target)
        if self.open and not webbrowser.open(target.resolve().as_uri()):
            tell("no browser is known here: name one in BROWSER, or open the page above")
        return EXIT_PASS


def _page(folder: Path) -> str:
    """The HTML of a run, a matrix, a scenario's runs or all results; ``run`` and ``judge`` do not import it."""
    from harness.grid.page import (  # noqa: PLC0415
        newest,
        of_matrix,
        of_runs,
        set_page,
    )
    from harness.report.page import run_page  # noqa: PLC0415

    if (folder / RUN_FILE).is_file():
        run = load_run(folder)
        return run_page(run, explained(run, judge_run(run)))
    if (folder / "matrix.json").is_file():
        return set_page(of_matrix(folder.parent.parent, load_grid(folder).grid))
    if Store(folder.parent).runs(folder.name):
        return set_page(of_runs(Store(folder.parent), folder.name))
    return set_page(newest(Store(folder), tell))


COMMANDS: dict[str, type[Command]] = {"judge": Judge, "report": Report}
