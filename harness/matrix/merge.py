# SPDX-License-Identifier: GPL-2.0-only
"""One matrix out of the parts that several machines measured: runs are copied in, each counted once."""

import secrets
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from harness.base.files import writing
from harness.judge.statuses import WORST_FIRST
from harness.record.evidence import Altered
from harness.record.judging import judge_run
from harness.record.matrices import FOLDER, MatrixCell, MatrixFolder, MatrixRecord, load_matrix, new_matrix
from harness.record.store import RunFolder, Store, load_run
from harness.scenario.model import Status
from lab.base.errors import EXIT_LAB_BROKEN, Misuse

_Key = tuple[str, str, str]


@dataclass(frozen=True)
class Part:
    """A matrix that was measured elsewhere, and the results root that its runs lie below."""

    root: Path
    record: MatrixRecord


def parts(folders: Sequence[Path]) -> tuple[Part, ...]:
    """The newest matrix of each results folder, or the matrix at that path. Raises Misuse where there is none."""
    return tuple(_part(folder) for folder in folders)


def merge(store: Store, merged: Sequence[Part], command: tuple[str, ...]) -> MatrixFolder:
    """Copy the runs of all parts into the store, and record what they are together.

    A cell that several parts decided stands on the worst of their runs, one whose run is incomplete
    is ERROR, and one that none decided stays undecided. Raises Misuse when the parts are of different
    scenario files or seeds, LabBroken when the store cannot be written.
    """
    store.check()
    _check_alike(merged)
    decided: dict[_Key, MatrixCell] = {}
    for part in merged:
        for cell in part.record.own:
            if cell.status is not None:
                taken = _taken(store.root, part.root, cell)
                decided[_key(cell)] = _worse(decided.get(_key(cell)), taken)
    cells = tuple(_all(merged, decided))
    seeds = merged[0].record.seeds
    qemu = ", ".join(dict.fromkeys(part.record.qemu for part in merged))
    folder = new_matrix(store.root, MatrixRecord("", cells, seeds, qemu=qemu, command=command))
    return folder.saved(replace(folder.record, ended=datetime.now(UTC).isoformat(timespec="milliseconds")))


def _part(folder: Path) -> Part:
    if (folder / "matrix.json").is_file():
        return Part(folder.resolve().parent.parent, load_matrix(folder).record)
    # By name, not by the link: archives of artefacts do not all keep links.
    found = sorted((folder / FOLDER).glob("[0-9]*/matrix.json"))
    if not found:
        raise Misuse(f"{folder} holds no matrix", remedy="give the results folders that the shards were measured in")
    return Part(folder, load_matrix(found[-1].parent).record)


def _check_alike(merged: Sequence[Part]) -> None:
    if not merged:
        raise Misuse("--merge of nothing", remedy="name the results folders of the shards")
    if len({part.record.seeds for part in merged}) > 1:
        raise Misuse("the parts were measured with different --seeds", remedy="measure all of them alike")
    digests: dict[str, str] = {}
    for part in merged:
        for cell in part.record.cells:
            if digests.setdefault(cell.scenario, cell.scenario_digest) != cell.scenario_digest:
                raise Misuse(
                    f"the parts are of different files of the scenario {cell.scenario}",
                    remedy="measure all of them from one checkout",
                )


def _all(merged: Sequence[Part], decided: dict[_Key, MatrixCell]) -> Iterator[MatrixCell]:
    """Every cell that some part planned, in their order; a kernel that one part could not get is another's column."""
    known = {(cell.scenario, cell.kernel.spec) for cell in decided.values()}
    seen: set[_Key] = set()
    for part in merged:
        for cell in part.record.cells:
            key = _key(cell)
            if key in seen or (key not in decided and (cell.scenario, cell.kernel.spec) in known):
                continue
            seen.add(key)
            yield replace(decided.get(key, cell), shard=1)


def _key(cell: MatrixCell) -> _Key:
    return cell.scenario, cell.kernel.spec, cell.kernel.digest


def _worse(one: MatrixCell | None, other: MatrixCell) -> MatrixCell:
    if one is None or one.status is None or other.status is None:
        return other
    return min(one, other, key=lambda cell: WORST_FIRST.index(cell.status or Status.MISS))


def _taken(root: Path, origin: Path, cell: MatrixCell) -> MatrixCell:
    """The cell once its run is in the store, ERROR when it is not complete."""
    if not cell.run:
        return cell
    if not (root / cell.run).is_dir():
        _copy(origin / cell.run, root / cell.run)
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
    """Boots that the verdict rests on and that are not there; a rule may have ended the run before the others."""
    if run.stored_verdict() is None:
        return len(run.facts.cells)
    judged = {(cell.arm, cell.seed) for cell in judge_run(run).cells}
    return sum((cell.arm, cell.seed) in judged for cell in run.missing())


def _copy(origin: Path, target: Path) -> None:
    """A run appears under its name only when all of it is there."""
    if not origin.is_dir():
        return
    aside = target.parent / f".{target.name}.{secrets.token_hex(4)}"
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            shutil.copytree(origin, aside, symlinks=True)
            aside.rename(target)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
