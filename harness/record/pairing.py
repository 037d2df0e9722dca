# SPDX-License-Identifier: GPL-2.0-only
"""The runs that ``blklab compare A B`` pairs: kernels, runs, matrices or whole results folders."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.record.index import IndexedRun, indexed_runs
from harness.record.matrices import load_matrix
from lab.base.errors import CannotJudge, Misuse


@dataclass(frozen=True)
class Candidate:
    """A run that can represent one side. ``path`` is its folder."""

    path: Path
    run: IndexedRun


@dataclass(frozen=True)
class RunSide:
    """One operand of ``compare``. ``named`` is the user's text; candidates are sorted oldest first."""

    named: str
    candidates: tuple[Candidate, ...]

    @property
    def series(self) -> frozenset[str]:
        return frozenset(one.run.series for one in self.candidates)


@dataclass(frozen=True)
class RunPair:
    """Two runs of one scenario."""

    scenario: str
    before: Candidate
    after: Candidate


def side(named: str, root: Path) -> RunSide:
    """The runs that ``named`` refers to: a folder, or a kernel (spec, release or series) measured below ``root``.

    Raises Misuse when it is neither.
    """
    path = Path(named)
    found = tuple(_of_folder(path.resolve()) if path.is_dir() else _of_kernel(named, root))
    if not found:
        raise Misuse(
            f"{named} is not a folder of runs, and no run below {root} is of a kernel of that name",
            remedy="name the folder of a run, a matrix or results, or a kernel that was measured: debian:6.1, 6.1",
        )
    return RunSide(named, found)


def pairs(before: RunSide, after: RunSide) -> tuple[RunPair, ...]:
    """The newest runs of each scenario that both sides have, preferably with equal scenario digests.

    When both sides have several kernels, runs of the same series are paired. Raises CannotJudge when the sides
    have no scenario in common.
    """
    by_series = len(before.series) > 1 and len(after.series) > 1
    left, right = _grouped(before, by_series), _grouped(after, by_series)
    found = tuple(_newest(key[0], left[key], right[key]) for key in left if key in right)
    if not found:
        raise CannotJudge(
            f"{before.named} and {after.named} have no scenario in common",
            remedy="blklab matrix SCENARIO... --kernels measures the same on several kernels",
        )
    return found


def _grouped(one: RunSide, by_series: bool) -> dict[tuple[str, str], list[Candidate]]:
    groups: dict[tuple[str, str], list[Candidate]] = {}
    for candidate in one.candidates:
        groups.setdefault((candidate.run.scenario, candidate.run.series if by_series else ""), []).append(candidate)
    return groups


def _newest(scenario: str, before: Sequence[Candidate], after: Sequence[Candidate]) -> RunPair:
    for one in reversed(after):
        for other in reversed(before):
            same_scenario = one.run.scenario_digest == other.run.scenario_digest
            if same_scenario and one.run.qemu == other.run.qemu and one.path != other.path:
                return RunPair(scenario, other, one)
    return RunPair(scenario, before[-1], after[-1])


def _of_folder(path: Path) -> Iterator[Candidate]:
    if (path / "run.json").is_file():
        yield from (one for one in _indexed(path.parent.parent) if one.path == path)
    elif (path / "matrix.json").is_file():
        wanted = {cell.run for cell in load_matrix(path).record.cells}
        yield from (one for one in _indexed(path.parent.parent) if one.run.path in wanted)
    elif any(path.glob("[0-9]*/run.json")):
        yield from (one for one in _indexed(path.parent) if one.path.parent == path)
    else:
        yield from _indexed(path)


def _of_kernel(named: str, root: Path) -> Iterator[Candidate]:
    for one in _indexed(root.resolve()):
        run = one.run
        if named == run.spec or (not run.mutant and named in (run.release, run.series)):
            yield one


def _indexed(root: Path) -> Iterator[Candidate]:
    return (Candidate(root / run.path, run) for run in indexed_runs(root))
