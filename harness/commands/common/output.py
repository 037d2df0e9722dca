# SPDX-License-Identifier: GPL-2.0-only
"""A verdict on the terminal, and in formats for other programs."""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from rich.console import Console

from harness.base.files import write_atomic
from harness.judge.verdict import Verdict, verdict_document
from harness.limits.bottleneck import Bottleneck
from harness.record.judging import explain_run
from harness.record.store import RunFolder
from harness.report.exports import Export, csv_table, exported, junit_xml, ktap
from harness.report.kcidb import kcidb_json
from harness.report.method import Effort, Surroundings
from harness.report.terminal.printing import console_of
from harness.report.terminal.run import Detail, print_verdict
from harness.studies.calibration import note
from lab.base.errors import Misuse
from lab.yaml.strict import shown_path


def print_run(console: Console, run: RunFolder, verdict: Verdict, detail: Detail = Detail.NORMAL) -> None:
    """Write the report of a run from its artefacts."""
    print_verdict(console, run.scenario, verdict, surroundings(run), detail)


def surroundings(run: RunFolder) -> Surroundings:
    """What a report of the run needs besides its figures."""
    limits = tuple(limit for limit in explain_run(run) if isinstance(limit, Bottleneck))
    models = note(run.path.parent.parent, run) if run.facts.rule is None else ""
    return Surroundings(run.facts, _effort(run), shown_path(run.path), models, limits)


def _effort(run: RunFolder) -> Effort:
    records = [record for _, record in run.boots()]
    phases: Counter[str] = Counter()
    for record in records:
        phases.update(record.wall)
    return Effort(len(records), run.elapsed(), dict(phases))


Format = Callable[[Export], str]
STDOUT = "-"
FORMATS: Mapping[str, tuple[Format, str]] = {
    "junit": (junit_xml, "JUnit XML"),
    "ktap": (ktap, "KTAP version 1"),
    "kcidb": (kcidb_json, "kcidb JSON, schema 5.3"),
    "csv": (csv_table, "CSV with a row per figure"),
}


def add_exports(parser: argparse.ArgumentParser) -> None:
    detail = parser.add_mutually_exclusive_group()
    for flag, long, value, text in (
        ("-v", "--verbose", Detail.FULL, "print every arm, figure and bottleneck"),
        ("-q", "--quiet", Detail.BRIEF, "print one line"),
    ):
        detail.add_argument(
            flag, long, dest="detail", action="store_const", const=value, default=Detail.NORMAL, help=text
        )
    detail.add_argument("--json", action="store_true", help="print verdict.json instead of the report")
    for name, (_, title) in FORMATS.items():
        parser.add_argument(f"--{name}", metavar="FILE", help=f"also write {title}; - is standard output")


def check_exports(options: argparse.Namespace) -> None:
    """Raise Misuse, before anything is measured, for a target that cannot be written."""
    if list(_targets(options).values()).count(STDOUT) + options.json > 1:
        raise Misuse("only one format can go to standard output", remedy="name files for the others")


def show_run(options: argparse.Namespace, run: RunFolder, verdict: Verdict) -> None:
    """Print the report (to standard error when a format goes to standard output) or, with --json, the verdict."""
    if options.json:
        print(json.dumps(verdict_document(verdict), indent=2))
    else:
        print_run(console_of(stderr=STDOUT in _targets(options).values()), run, verdict, options.detail)


def export(options: argparse.Namespace, run: RunFolder, verdict: Verdict) -> None:
    """Write each requested format. Raises LabBroken when a file cannot be written."""
    for name, target in _targets(options).items():
        write, _ = FORMATS[name]
        text, path = write(exported(run, verdict)), Path(target)
        if target == STDOUT:
            sys.stdout.write(text)
        else:
            write_atomic(path, text.encode())


def _targets(options: argparse.Namespace) -> dict[str, str]:
    return {name: value for name in FORMATS if (value := getattr(options, name)) is not None}
