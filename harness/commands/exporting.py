# SPDX-License-Identifier: GPL-2.0-only
"""``--junit``, ``--ktap``, ``--kcidb`` and ``--csv``: a verdict in the formats that other programs read."""

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from rich.console import Console

from harness.base.files import write_atomic, writing
from harness.judge.verdict import Verdict
from harness.record.store import RunFolder
from harness.report.export.junit import junit_xml
from harness.report.export.kcidb import kcidb_json
from harness.report.export.ktap import ktap
from harness.report.export.parts import Export, exported
from harness.report.export.table import csv_table
from lab.base.errors import Misuse

Format = Callable[[Export], str]
STDOUT = "-"
FORMATS: Mapping[str, tuple[Format, str]] = {
    "junit": (junit_xml, "JUnit XML"),
    "ktap": (ktap, "KTAP version 1"),
    "kcidb": (kcidb_json, "kcidb JSON, schema 5.3"),
    "csv": (csv_table, "every measured figure, a row each"),
}


def add_exports(parser: argparse.ArgumentParser) -> None:
    for name, (_, says) in FORMATS.items():
        parser.add_argument(f"--{name}", metavar="FILE", help=f"also write {says}; - is standard output")


def check_exports(options: argparse.Namespace) -> None:
    """Refuse now what could not be written in the end. Raises Misuse."""
    targets = _targets(options)
    if list(targets.values()).count(STDOUT) > 1:
        raise Misuse("only one format can go to standard output", remedy="name files for the others")
    for name, target in targets.items():
        folder = Path(target).parent
        if target != STDOUT and (not folder.is_dir() or Path(target).is_dir()):
            reason = f"there is no folder {folder}" if not folder.is_dir() else "that is a folder"
            raise Misuse(f"--{name} {target}: {reason}", remedy="name a file in a folder that exists")


def report_console(options: argparse.Namespace) -> Console:
    """Where the report for people goes: standard error once standard output is for a program."""
    return Console(stderr=STDOUT in _targets(options).values())


def export(options: argparse.Namespace, run: RunFolder, verdict: Verdict) -> None:
    """Write each format that was asked for. Raises LabBroken when a file cannot be written."""
    for name, target in _targets(options).items():
        text, path = FORMATS[name][0](exported(run, verdict)), Path(target)
        if target == STDOUT:
            sys.stdout.write(text)
        elif path.exists() and not path.is_file():
            # A pipe or a device is written to, never replaced.
            with writing(path):
                path.write_text(text, encoding="utf-8")
        else:
            write_atomic(path, text.encode())


def _targets(options: argparse.Namespace) -> dict[str, str]:
    return {name: value for name in FORMATS if (value := getattr(options, name)) is not None}
