# SPDX-License-Identifier: GPL-2.0-only
"""Upkeep of stored runs: deleting the oldest when results exceed a size, and copying what repeats one boot elsewhere.

Never deleted: the newest run of each scenario on each kernel, the run that ``latest`` points to, runs that a
matrix refers to, baselines of other runs, and runs in progress. Matrices are limited by their number
(``keep_matrices``).
"""

import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harness.base.files import held, writing
from harness.record.grid import FOLDER, GridFolder, grids, referred
from harness.record.index import IndexedRun, indexed_runs
from harness.record.store import LATEST, PlannedCell, RunFolder, Store, load_run
from lab import kit
from lab.base.cache import size_of
from lab.base.errors import LabBroken, Misuse
from lab.base.reading import real


@dataclass(frozen=True)
class Removal:
    """A folder to delete. ``path`` is relative to the results root, ``size`` in bytes, ``why`` a few words."""

    path: str
    size: int
    why: str


@dataclass(frozen=True)
class Pruning:
    """Folders to delete, in order; bytes before and after; ``pinned``: why the others are kept."""

    removals: tuple[Removal, ...]
    total: int
    left: int
    pinned: tuple[str, ...]


def plan_pruning(root: Path, keep_bytes: int | None, keep_matrices: int | None) -> Pruning:
    """What to delete until at most ``keep_bytes`` and the newest ``keep_matrices`` are left. None: no limit."""
    runs = indexed_runs(root)
    every = grids(root)
    gone = every[: max(0, len(every) - keep_matrices)] if keep_matrices is not None else ()
    removals = [Removal(f"{FOLDER}/{matrix.path.name}", size_of(matrix.path), "an older matrix") for matrix in gone]
    reasons = dict(_pinned(root, runs, [matrix for matrix in every if matrix not in gone]))
    unfinished = list(_unfinished(root))
    total = sum(run.size for run in runs) + sum(removal.size for removal in (*unfinished, *removals))
    left = total - sum(removal.size for removal in removals)
    free = [
        Removal(run.path, run.size, f"{run.status}, {run.started[:10]}, {run.release}")
        for run in runs
        if run.path not in reasons
    ]
    candidates = [*unfinished, *free]
    for removal in sorted(candidates, key=lambda removal: Path(removal.path).name):
        if keep_bytes is None or left <= keep_bytes:
            break
        removals.append(removal)
        left -= removal.size
    return Pruning(tuple(removals), total, left, tuple(sorted(set(reasons.values()))))


def prune(root: Path, planned: Sequence[Removal]) -> tuple[Removal, ...]:
    """Delete the planned folders, except those in use now. Return what was deleted. Raises LabBroken."""
    return tuple(removal for removal in planned if _remove(root, root / removal.path))


def _remove(root: Path, folder: Path) -> bool:
    """False for a folder in use. It is renamed first, so that no reader sees half a run."""
    aside = root / f".gone.{secrets.token_hex(6)}"
    with suppress(Misuse):
        with held(folder, "run"), writing(folder):
            folder.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)
        return True
    return False


def _pinned(root: Path, runs: Sequence[IndexedRun], kept: Sequence[GridFolder]) -> Iterator[tuple[str, str]]:
    """Path and reason of each run that is kept."""
    for path in referred(matrix.grid for matrix in kept):
        yield path, "a matrix refers to it"
    newest = {(run.scenario, run.kernel): run for run in runs}
    for run in newest.values():
        yield run.path, "the newest run of its scenario and kernel"
    for run in runs:
        if real(root / run.scenario / LATEST) == real(root / run.path):
            yield run.path, "the latest run of its scenario"
        if run.baseline:
            yield f"{run.scenario}/{run.baseline}", "the baseline of another run"


def _unfinished(root: Path) -> Iterator[Removal]:
    """Runs without a verdict that no process works on."""
    for scenario in sorted({path.parent.parent.name for path in root.glob("*/[0-9]*/run.json")}):
        for path in Store(root).unfinished(scenario):
            with suppress(Misuse):
                with load_run(path).held():
                    size = size_of(path)
                yield Removal(str(path.relative_to(root)), size, "interrupted before its verdict")


_FROM_BOOT = (kit.REPEAT, kit.JOB, kit.STEADY, kit.SHARING, kit.FUNCTIONS, kit.EXPECTED, "boot.json")


def chosen_boot(run: RunFolder, boot: str) -> PlannedCell:
    """The cell of boot number ``boot``, or the first with a record. Raises Misuse."""
    cell_of_boot = next((cell for cell, _ in run.boots() if boot in ("", cell.boot)), None)
    if cell_of_boot is None:
        known = ", ".join(cell.boot for cell, _ in run.boots())
        what = f"boot {boot}" if boot else "boot with a record"
        raise Misuse(f"{run.path} has no {what}", remedy=f"its boots are {known}" if known else "run the scenario")
    return cell_of_boot


def collect(run: RunFolder, cell: PlannedCell, to: Path, rebuilt: Callable[[], kit.Inputs]) -> None:
    """Copy the boot's inputs and scripts into the new folder ``to``.

    ``rebuilt`` recreates inputs that the cache no longer has, and is called only then. Raises Misuse when ``to``
    exists or the boot does not record its inputs, LabBroken when a recreated input differs from the original.
    """
    folder = run.boot_folder(cell)
    inputs = kit.read_inputs(folder)
    if inputs is None:
        raise Misuse(f"{folder} does not record its inputs", remedy="run the scenario again with this blklab")
    if to.exists():
        raise Misuse(f"{to} exists", remedy="name a new folder")
    kernel, base = _large_inputs(inputs, rebuilt)
    with writing(to):
        to.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{to.name}.", dir=to.parent) as aside:
            staged = Path(aside) / "kit"
            staged.mkdir()
            shutil.copyfile(kernel, staged / kit.KERNEL)
            shutil.copyfile(base, staged / kit.BASE)
            for name in _FROM_BOOT:
                if (folder / name).is_file():
                    shutil.copy(folder / name, staged / name)
            staged.rename(to)


def _large_inputs(inputs: kit.Inputs, rebuilt: Callable[[], kit.Inputs]) -> tuple[Path, Path]:
    if kit.intact(inputs.kernel, inputs.kernel_digest) and kit.intact(inputs.base, inputs.base_digest):
        return inputs.kernel, inputs.base
    again = rebuilt()
    kernel = _intact("kernel", (inputs.kernel, again.kernel), inputs.kernel_digest)
    return kernel, _intact("initramfs", (inputs.base, again.base), inputs.base_digest)


def _intact(what: str, paths: Iterable[Path], digest: str) -> Path:
    for path in paths:
        if kit.intact(path, digest):
            return path
    raise LabBroken(
        f"the {what} of this boot is no longer in the cache, and the one built now differs from it",
        remedy="use the blklab and the kernel package that the run was made with (boot.json and run.json name them)",
    )
