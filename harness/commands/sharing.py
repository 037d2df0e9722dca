# SPDX-License-Identifier: GPL-2.0-only
"""``blklab sharing``: which cache lines move between CPUs and which locks they take, in one run or between two."""

import argparse
import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from harness.base.checkout import results_root
from harness.base.files import write_atomic, writing
from harness.commands.common.boots import lab_of_host
from harness.commands.common.options import tell
from harness.commands.common.pairs import add_pair, cell_words, runs_of
from harness.commands.common.windows import figures_by_turn, window_of_cell, with_fields
from harness.profile.recorded import ProfiledCell, parse_cell
from harness.record.store import RunFolder
from harness.sharing.page import sharing_page
from harness.sharing.text import LINES, differences, differential_lines, window_lines
from lab.base.errors import EXIT_PASS, CannotJudge, Misuse


def configure(parser: argparse.ArgumentParser) -> None:
    add_pair(parser, "the first; given twice, two cells of one run are compared")
    parser.add_argument("--json", action="store_true", help="print all lines and locks as JSON")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write text, JSON and page there")


def execute(options: argparse.Namespace) -> int:
    root = results_root(options.results)
    new, cells = cell_words(options.further, root, most=2)
    runs = runs_of(options.run, new, root, options.scenario)
    if len(cells) > 1 and len(runs) > 1:
        raise Misuse("two runs and two cells", remedy="compare two runs, or two cells of one run")
    lab = lab_of_host()
    chosen = [parse_cell(runs[0], cell, options.seed) for cell in cells] or [_first_cell(runs[0], options.seed)]
    sides = [(run, cell) for run in runs for cell in chosen]
    windows = [window_of_cell(lab, run, cell) for run, cell in sides]
    moved = differences(*windows)[:LINES] if len(windows) > 1 else []
    shown = [place for place, *_ in moved]
    own = [
        with_fields(lab, run, windows[number :: len(runs)], shown, lines=options.lines)
        for number, run in enumerate(runs)
    ]
    windows = [window for of_run in own for window in of_run]
    if len(windows) == 1:
        lines = window_lines(windows[0], turns=figures_by_turn(*sides[0]))
    else:
        lines = differential_lines(windows[0], windows[1])
    written = [asdict(window, dict_factory=_without_empty) for window in windows]
    document = json.dumps(written, indent=1, default=sorted) + "\n"
    print(document if options.json else "\n".join(lines))
    if options.out:
        texts = {
            "sharing.txt": "\n".join((*lines, "")),
            "sharing.json": document,
            "sharing.html": sharing_page(windows),
        }
        with writing(options.out):
            options.out.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            write_atomic(options.out / name, text.encode())
        tell(f"wrote {', '.join(texts)} to {options.out}")
    return EXIT_PASS


def _without_empty(items: Iterable[tuple[str, object]]) -> dict[str, object]:
    """The fields of a value, without the names that were not looked for."""
    return {name: value for name, value in items if value or name not in ("field", "source")}


def _first_cell(run: RunFolder, seed: int) -> ProfiledCell:
    """Raises CannotJudge where no arm has several CPUs."""
    for arm in run.facts.arms:
        if run.scenario.arms[arm].topology.processors.several:
            return ProfiledCell(arm, next(iter(run.scenario.loads)), seed)
    raise CannotJudge(
        f"no arm of {run.facts.scenario} has several CPUs", remedy="write machine: {cpus: 4} in its topology"
    )
