# SPDX-License-Identifier: GPL-2.0-only
"""Merges the shards of a matrix: runs are copied, each counted once."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from harness.base.files import copy_atomic
from harness.judge.cells import WORST_FIRST
from harness.record.grid import FOLDER, Grid, GridCell, GridFolder, load_grid, new_grid
from harness.record.judging import Altered, judge_run
from harness.record.store import RunFolder, Store, load_run
from harness.scenario.model import Status
from lab.base.errors import EXIT_LAB_BROKEN, Misuse

_Key = tuple[str, str, str]


def parts(folders: Sequence[Path]) -> tuple[GridFolder, ...]:
    """The newest matrix of each results folder, or the matrix at that path. Raises Misuse without one."""
    return tuple(load_grid(_newest(folder)) for folder in folders)


def merge(store: Store, merged: Sequence[GridFolder], command: tuple[str, ...]) -> GridFolder:
    """Copy the runs of all parts into the store and record the merged matrix.

    A cell that several parts decided has the worst of their runs, one whose run is incomplete
    is ERROR, and one that none decided stays undecided. Raises Misuse when the parts are of different
    scenario files or seeds, LabBroken when the store cannot be written.
    """
    store.check()
    _check_alike(merged)
    decided: dict[_Key, GridCell] = {}
    for part in merged:
        for cell in part.grid.own:
            if cell.status is not None:
                taken = _taken(store.root, part.path.parent.parent, cell)
                decided[_key(cell)] = _worse(decided.get(_key(cell)), taken)
    cells = tuple(_all(merged, decided))
    seeds = merged[0].grid.seeds
    qemu = ", ".join(dict.fromkeys(part.grid.qemu for part in merged))
    folder = new_grid(store.root, Grid("", cells, seeds, qemu=qemu, command=command))
    return folder.saved(replace(folder.grid, ended=datetime.now(UTC).isoformat(timespec="milliseconds")))


def _newest(folder: Path) -> Path:
    # By name, not by the link: archives of artefacts do not all keep links.
    records = [*folder.glob("matrix.json")] or sorted((folder / FOLDER).glob("[0-9]*/matrix.json"))
    if not records:
        raise Misuse(f"{folder} holds no matrix", remedy="name the results folders of the shards")
    return records[-1].parent


def _check_alike(merged: Sequence[GridFolder]) -> None:
    if not merged:
        raise Misuse("--merge without a folder", remedy="name the results folders of the shards")
    if len({part.grid.seeds for part in merged}) > 1:
        raise Misuse(
            "the parts were measured with different --seeds", remedy="measure all shards with the same --seeds"
        )
    digests: dict[str, str] = {}
    for part in merged:
        for cell in part.grid.cells:
            if digests.setdefault(cell.scenario, cell.scenario_digest) != cell.scenario_digest:
                raise Misuse(
                    f"the shards have different versions of the scenario {cell.scenario}",
                    remedy="measure all shards from one checkout",
                )


def _all(merged: Sequence[GridFolder], decided: dict[_Key, GridCell]) -> Iterator[GridCell]:
    """Every planned cell in order; a kernel that one part could not fetch may be in another."""
    known = {(cell.scenario, cell.kernel.spec) for cell in decided.values()}
    seen: set[_Key] = set()
    for part in merged:
        for cell in part.grid.cells:
            key = _key(cell)
            if key in seen or (key not in decided and (cell.scenario, cell.kernel.spec) in known):
                continue
            seen.add(key)
            yield replace(decided.get(key, cell), shard=1)


def _key(cell: GridCell) -> _Key:
    return cell.scenario, cell.kernel.spec, cell.kernel.digest


def _worse(one: GridCell | None, other: GridCell) -> GridCell:
    if one is None or one.status is None or other.status is None:
        return other
    return min(one, other, key=lambda cell: WORST_FIRST.index(cell.status or Status.MISS))


def _taken(root: Path, origin: Path, cell: GridCell) -> GridCell:
    """The cell with its run in the store; ERROR if it is incomplete."""
    if not cell.run:
        return cell
    if not (root / cell.run).is_dir() and (origin / cell.run).is_dir():
        copy_atomic(origin / cell.run, root / cell.run)
    try:
        run = load_run(root / cell.run)
        lacking = _lacking(run)
        reason = f"{lacking} of its boots are incomplete" if lacking else ""
    except (Misuse, Altered) as error:
        reason = error.message
    if not reason:
        return cell
    return replace(cell, status=Status.ERROR, exit_code=EXIT_LAB_BROKEN, reason=f"the run was not merged: {reason}")


def _lacking(run: RunFolder) -> int:
    """Missing boots that the verdict needs; boots skipped by the stopping rule are not counted."""
    if run.stored_verdict() is None:
        return len(run.facts.cells)
    judged = {(cell.arm, cell.seed) for cell in judge_run(run).cells}
    return sum((cell.arm, cell.seed) in judged for cell in run.missing())
