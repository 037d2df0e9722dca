# SPDX-License-Identifier: GPL-2.0-only
"""The runs that ``blklab compare A B`` pairs: kernels, runs, matrices or whole results folders."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

from harness.record.grid import load_grid
from harness.record.index import IndexedRun, indexed_runs
from lab.base.errors import CannotJudge, Misuse
from lab.base.reading import real

RunPair = tuple[IndexedRun, IndexedRun]


def side(named: str, root: Path) -> tuple[IndexedRun, ...]:
    """The runs that ``named`` refers to, oldest first, with absolute paths.

    It is a folder, or a kernel (spec, release or series) measured below ``root``. Raises Misuse when it is neither.
    """
    path = Path(named)
    runs = tuple(_of_folder(real(path)) if path.is_dir() else _of_kernel(named, real(root)))
    if not runs:
        raise Misuse(
            f"{named} is not a folder of runs, and no run below {root} is of a kernel of that name",
            remedy="name the folder of a run, a matrix or results, or a kernel that was measured: debian:6.1, 6.1",
        )
    return runs


def pairs(before: Sequence[IndexedRun], after: Sequence[IndexedRun]) -> tuple[RunPair, ...]:
    """The newest runs of each scenario that both sides have, preferably with equal scenario digests.

    When both sides have several kernels, runs of the same series are paired. Raises CannotJudge when the sides
    have no scenario in common.
    """
    by_series = all(len({run.series for run in runs}) > 1 for runs in (before, after))
    left, right = _grouped(before, by_series), _grouped(after, by_series)
    common = tuple(_newest(left[key], right[key]) for key in left if key in right)
    if not common:
        raise CannotJudge(
            "the two sides have no scenario in common",
            remedy="blklab matrix SCENARIO... --kernels measures the same on several kernels",
        )
    return common


def _grouped(runs: Sequence[IndexedRun], by_series: bool) -> dict[tuple[str, str], list[IndexedRun]]:
    groups: dict[tuple[str, str], list[IndexedRun]] = {}
    for run in runs:
        groups.setdefault((run.scenario, run.series if by_series else ""), []).append(run)
    return groups


def _newest(before: Sequence[IndexedRun], after: Sequence[IndexedRun]) -> RunPair:
    for new, old in product(reversed(after), reversed(before)):
        if (new.scenario_digest, new.qemu) == (old.scenario_digest, old.qemu) and new.path != old.path:
            return old, new
    return before[-1], after[-1]


def _of_folder(path: Path) -> Iterator[IndexedRun]:
    if (path / "run.json").is_file():
        yield from (run for run in _indexed(path.parent.parent) if run.path == str(path))
    elif (path / "matrix.json").is_file():
        root = path.parent.parent
        wanted = {str(root / cell.run) for cell in load_grid(path).grid.cells}
        yield from (run for run in _indexed(root) if run.path in wanted)
    elif any(path.glob("[0-9]*/run.json")):
        yield from (run for run in _indexed(path.parent) if Path(run.path).parent == path)
    else:
        yield from _indexed(path)


def _of_kernel(named: str, root: Path) -> Iterator[IndexedRun]:
    for run in _indexed(root):
        if named == run.spec or (not run.mutant and named in (run.release, run.series)):
            yield run


def _indexed(root: Path) -> Iterator[IndexedRun]:
    return (replace(run, path=str(root / run.path)) for run in indexed_runs(root))
