# SPDX-License-Identifier: GPL-2.0-only
"""The stored runs and cells that ``profile`` and ``sharing`` are given."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from harness.commands.common.options import add_results, number
from harness.record.pairing import pairs, side
from harness.record.store import RunFolder, load_run
from lab.base.errors import CannotJudge, Misuse


def add_pair(parser: argparse.ArgumentParser, cells: str) -> None:
    """The operands and options of both; ``cells`` says which cells are taken without ARM.LOAD."""
    parser.add_argument("run", metavar="RUN", help="folder of a run, or a kernel that was measured (debian:6.12, 6.12)")
    text = f"a second run to compare with, and the cell (default: {cells})"
    parser.add_argument("further", nargs="*", metavar="NEW, ARM.LOAD", help=text)
    parser.add_argument("--seed", type=number(1), default=1, metavar="N", help="the seed (default: 1)")
    parser.add_argument("--scenario", metavar="NAME", help="the scenario, where a kernel was measured in several")
    parser.add_argument("--lines", action="store_true", help="also lines of source, for kernels that blklab builds")
    add_results(parser)


def cell_words(further: Sequence[str], root: Path, most: int = 1) -> tuple[str, list[str]]:
    """The second run, empty where none is given, and the cells ARM.LOAD, at most so many. Raises Misuse."""
    runs = [word for word in further if _is_side(word, root)]
    cells = [word for word in further if word not in runs]
    if len(runs) > 1 or len(cells) > most:
        raise Misuse(f"{' '.join(further)}: too many runs or cells", remedy="RUN [NEW] [ARM.LOAD]")
    return (runs[0] if runs else ""), cells


def _is_side(word: str, root: Path) -> bool:
    try:
        side(word, root)
    except Misuse:
        return False
    return True


def runs_of(first: str, second: str, root: Path, scenario: str | None) -> list[RunFolder]:
    """The stored run that ``first`` names, and that of ``second``. Raises Misuse, CannotJudge."""
    before = side(first, root)
    if second:
        sides = [list(pair) for pair in pairs(before, side(second, root)) if scenario in (None, pair[0].scenario)]
    else:
        newest = {run.scenario: run for run in before if scenario in (None, run.scenario)}
        sides = [[run] for run in newest.values()]
    if len(sides) != 1:
        names = ", ".join(sorted(runs[0].scenario for runs in sides)) or "none"
        raise Misuse(f"{first} has runs of several scenarios or of none: {names}", remedy="--scenario NAME chooses one")
    chosen = [load_run(Path(run.path)) for run in sides[0]]
    for run in chosen[1:]:
        if run.scenario.digest != chosen[0].scenario.digest:
            raise CannotJudge(
                f"{chosen[0].path.name} and {run.path.name} are of different texts of {run.facts.scenario}",
                remedy="run both kernels with the present scenario file",
            )
    return chosen
