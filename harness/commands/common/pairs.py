# SPDX-License-Identifier: GPL-2.0-only
"""The stored runs and cells that ``profile`` and ``sharing`` are given."""

from collections.abc import Sequence
from pathlib import Path

from harness.record.pairing import pairs, side
from harness.record.store import RunFolder, load_run
from lab.base.errors import CannotJudge, Misuse


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
