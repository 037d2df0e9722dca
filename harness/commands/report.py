# SPDX-License-Identifier: GPL-2.0-only
"""``blklab report``: a run, a matrix, all results or a scenario's history as one HTML page."""

import argparse
import webbrowser
from collections.abc import Callable
from pathlib import Path

from harness.base.checkout import results_root
from harness.base.files import write_atomic
from harness.commands.common.options import tell
from harness.commands.common.output import surroundings
from harness.record.judging import judge_run
from harness.record.matrices import load_matrix
from harness.record.store import RunFolder, Store, load_run
from harness.report.page import run_page
from harness.studies.overview.collection import newest, of_matrix, of_runs
from harness.studies.overview.set import set_page
from lab.base.errors import EXIT_PASS, Misuse
from lab.base.reading import real

PAGE = "report.html"

Write = Callable[[Path], str]
"""A folder to HTML."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        help="a run (results/NAME/latest), a matrix (results/matrix/latest), a scenario's runs (results/NAME)"
        " or a results folder (default: results/)",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="the page (default: report.html in that folder)")
    parser.add_argument("--open", action="store_true", help="open the page in the browser")


def execute(options: argparse.Namespace) -> int:
    folder = real(options.folder or results_root(None))
    target: Path = options.out or folder / PAGE
    if not target.parent.is_dir():
        raise Misuse(f"{target.parent} is not a folder", remedy="name a folder that holds runs, or --out FILE")
    write_atomic(target, _writer(folder)(folder).encode())
    print(target)
    if options.open and not webbrowser.open(target.resolve().as_uri()):
        tell("no browser is known here: name one in BROWSER, or open the page above")
    return EXIT_PASS


def _writer(folder: Path) -> Write:
    if (folder / "run.json").is_file():
        return lambda path: _run(load_run(path))
    if (folder / "matrix.json").is_file():
        return _matrix
    if Store(folder.parent).runs(folder.name):
        return _history
    return _root


def _run(run: RunFolder) -> str:
    return run_page(run, judge_run(run), surroundings(run))


def _matrix(folder: Path) -> str:
    return set_page(of_matrix(folder.parent.parent, load_matrix(folder).record))


def _root(folder: Path) -> str:
    return set_page(newest(Store(folder), tell))


def _history(folder: Path) -> str:
    return set_page(of_runs(Store(folder.parent), folder.name))
