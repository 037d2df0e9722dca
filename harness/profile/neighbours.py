# SPDX-License-Identifier: GPL-2.0-only
"""The page of profiles: the differentials between neighbouring kernels whose cells were profiled."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from harness.profile.differential import differential
from harness.profile.mail import differential_lines, whole
from harness.profile.model import Profile
from harness.profile.recorded import ProfiledCell, recorded_profile
from harness.record.store import RunFolder
from harness.report.markdown import head, table

_PREFACE = """\
Each block is what `blklab profile BASE NEW ARM.LOAD` prints for two kernels, seed 1, of the scenario `io-cost`.
docs/profile.md says what is counted. Packages of a distribution differ by configuration and compiler as
well as by code, so below them are kernels built from source with one configuration.

The digest of each profiled boot is that of the stored boot without the plugin; a profile with another one is refused.
"Odd returns" are those that no call explains: call paths are exact where there are none.
"""
_HEADS = ("kernel", "cell", "digest", "instructions", "unexplained", "odd returns", "per I/O")


def neighbours_page(packages: Sequence[RunFolder], built: Sequence[RunFolder], command: str) -> str:
    """The page in Markdown, empty without two profiles of a cell. Runs are of one scenario, oldest kernel first."""
    sections = [("", packages), (" with one configuration", built)]
    blocks = [line for words, runs in sections for cell in _cells(runs) for line in _blocks(runs, cell, words)]
    if not blocks:
        return ""
    top = head("Instructions by function, kernel to kernel", f"Made from results by: {command}")
    rows = [_row(profile) for run in (*packages, *built) for cell in _cells([run]) if (profile := _profile(run, cell))]
    return "\n".join((*top, _PREFACE, *table(_HEADS, rows, numbers=4), "", *blocks))


def _row(profile: Profile) -> list[str]:
    of, per_io = profile.head, whole(profile.per_io(profile.total))
    counts = [f"{count:,}" for count in (profile.total, profile.unexplained, profile.surprises, per_io)]
    return [of.release, of.cell, of.digest[:12], *counts]


def _cells(runs: Sequence[RunFolder]) -> list[ProfiledCell]:
    cells = [ProfiledCell(arm, load) for run in runs for arm in run.scenario.arms for load in run.scenario.loads]
    return list(dict.fromkeys(cells))


def _blocks(runs: Sequence[RunFolder], cell: ProfiledCell, words: str) -> Iterator[str]:
    profiles = [profile for run in runs if (profile := _profile(run, cell))]
    if profiles[1:]:
        yield f"## {cell.arm}.{cell.load}{words}"
        yield ""
    for before, after in pairwise(profiles):
        yield from ("```", *differential_lines(differential(before, after)), "```", "")


def _profile(run: RunFolder, cell: ProfiledCell) -> Profile | None:
    planned = any((it.arm, it.seed) == (cell.arm, cell.seed) and not it.skip for it in run.facts.cells)
    return recorded_profile(run, cell) if planned else None
