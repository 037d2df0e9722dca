# SPDX-License-Identifier: GPL-2.0-only
"""docs/results/profiles.md: the differentials between neighbouring kernels whose cells were profiled."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from harness.profile.differential import differential
from harness.profile.mail import differential_lines
from harness.profile.model import Profile
from harness.profile.recorded import ProfiledCell, recorded_profile
from harness.record.store import RunFolder

_PREFACE = """\
Each block is what `blklab profile BASE NEW ARM.LOAD` prints for two kernels, seed 1, of the scenario `io-cost`.
[../profile.md](../profile.md) says what is counted. The kernels are packages of a distribution: they differ by
configuration and compiler as well as by code.
"""


def neighbours_page(runs: Sequence[RunFolder], command: str) -> str:
    """The page in Markdown, empty without two profiles of a cell. ``runs`` are of one scenario, oldest kernel first."""
    blocks = [line for cell in _cells(runs) for line in _blocks(runs, cell)]
    if not blocks:
        return ""
    head = ("<!-- SPDX-License-Identifier: GPL-2.0-only -->", f"<!-- Made from results by: {command} -->")
    return "\n".join((*head, "# Instructions by function, kernel to kernel", "", _PREFACE, *blocks))


def _cells(runs: Sequence[RunFolder]) -> list[ProfiledCell]:
    cells = [ProfiledCell(arm, load) for run in runs for arm in run.scenario.arms for load in run.scenario.loads]
    return list(dict.fromkeys(cells))


def _blocks(runs: Sequence[RunFolder], cell: ProfiledCell) -> Iterator[str]:
    found = [profile for run in runs if (profile := _profile(run, cell))]
    if found[1:]:
        yield f"## {cell.arm}.{cell.load}"
        yield ""
    for before, after in pairwise(found):
        yield from ("```", *differential_lines(differential(before, after)), "```", "")


def _profile(run: RunFolder, cell: ProfiledCell) -> Profile | None:
    planned = any((one.arm, one.seed) == (cell.arm, cell.seed) and not one.skip for one in run.facts.cells)
    return recorded_profile(run, cell) if planned else None
