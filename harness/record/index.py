# SPDX-License-Identifier: GPL-2.0-only
"""The stored runs below a results root: their index, pairs, pruning, and copies of what repeats one boot elsewhere.

index.json is derived from the folders. Each reading first brings it up to date by the time stamps of the verdicts, so
new, removed and re-judged runs are noticed. Where the file is damaged, of another schema or cannot be written, the runs
are read from their folders.
"""

import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from harness.base.checkout import of_results
from harness.base.files import held, read_json, write_json, writing
from harness.base.plain import from_plain, to_plain
from harness.judge.cells import CellResult
from harness.record.grid import FOLDER, GridFolder, grids, load_grid
from harness.record.store import LATEST, KernelFacts, PlannedCell, RunFacts, RunFolder, Store, load_run, read_verdict
from harness.scenario.model import Status
from lab import kit
from lab.base.cache import size_of
from lab.base.errors import CannotJudge, LabBroken, Misuse
from lab.base.reading import real
from lab.kernels.model import series_of

FILE = "index.json"
SCHEMA = 5


@dataclass(frozen=True)
class IndexedRun:
    """A judged run. ``path`` is relative to the results root; ``facts`` are those of its plan, without the cells.

    ``stamp`` changes when it is judged again. ``seconds`` of host time, None where unknown; ``size`` in bytes on disk.
    """

    path: str
    stamp: str
    facts: RunFacts
    status: str
    boots: int
    seconds: float | None
    size: int

    @property
    def scenario(self) -> str:
        return self.facts.scenario

    @property
    def kernel(self) -> KernelFacts:
        return self.facts.kernel

    @property
    def series(self) -> str:
        return series_of(self.kernel.release)


def indexed_runs(root: Path, *, rebuild: bool = False) -> tuple[IndexedRun, ...]:
    """All judged runs below a results root, oldest first; none if there is no such folder. ``rebuild`` reads each."""
    known = {} if rebuild else _known(root / FILE)
    runs: dict[str, IndexedRun] = {}
    for folder, stamp in _verdicts(root):
        path = str(folder.relative_to(root))
        # Misuse: damaged, or of another version. It is not indexed.
        with suppress(Misuse):
            if run := known[path] if path in known and known[path].stamp == stamp else _indexed(folder, path, stamp):
                runs[path] = run
    if runs != known or rebuild:
        with suppress(LabBroken):
            write_json(root / FILE, {"schema": SCHEMA, "runs": to_plain([*runs.values()])})
    return tuple(sorted(runs.values(), key=lambda run: (run.facts.started, run.facts.run_id)))


def _known(path: Path) -> dict[str, IndexedRun]:
    try:
        document = read_json(path)
        rows = document["runs"] if document["schema"] == SCHEMA else ()
        return {row["path"]: from_plain(IndexedRun, row) for row in rows}
    except (TypeError, KeyError, ValueError):
        return {}


def cells_of(root: Path, run: IndexedRun) -> tuple[CellResult, ...]:
    """The boots of a run that have figures, with these alone."""
    cells = [cell for cell in (read_verdict(root / run.path) or {"cells": []})["cells"] if cell["figures"]]
    return tuple(
        CellResult(cell["arm"], cell["seed"], Status.PASS, figures=dict(_figures(cell["figures"])))
        for cell in sorted(cells, key=lambda cell: (cell["arm"], cell["seed"]))
    )


def _figures(named: Mapping[str, float]) -> Iterator[tuple[tuple[str, str, str], float]]:
    for name, value in sorted(named.items()):
        load, role, metric = name.split(".", 2)
        yield (load, role, metric), value


def _verdicts(root: Path) -> Iterator[tuple[Path, str]]:
    """Folders of judged runs, each with a stamp that changes when it is judged again."""
    for verdict in sorted(root.glob("*/[0-9]*/verdict.json")):
        with suppress(FileNotFoundError):
            status = verdict.stat()
            yield verdict.parent, f"{status.st_mtime_ns}.{status.st_size}"


def _indexed(folder: Path, path: str, stamp: str) -> IndexedRun | None:
    run = load_run(folder)
    if (verdict := run.stored_verdict()) is None:
        return None
    boots = sum(bool(cell["digest"]) for cell in verdict["cells"])
    facts = replace(run.facts, cells=())
    return IndexedRun(path, stamp, facts, verdict["status"], boots, run.elapsed(), size_of(run.path))


RunPair = tuple[IndexedRun, IndexedRun]


def side(named: str, root: Path) -> tuple[IndexedRun, ...]:
    """The runs that ``named`` refers to, oldest first, with absolute paths.

    It is a folder, or a kernel (spec, release or series) measured below ``root``. Raises Misuse when it is neither.
    """
    path = of_results(named)
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
        alike = new.facts.scenario_digest == old.facts.scenario_digest and new.facts.qemu == old.facts.qemu
        if alike and new.path != old.path:
            return old, new
    return before[-1], after[-1]


def _of_folder(path: Path) -> Iterator[IndexedRun]:
    if (path / "run.json").is_file():
        yield from (run for run in _with_paths(path.parent.parent) if run.path == str(path))
    elif (path / "matrix.json").is_file():
        root = path.parent.parent
        wanted = {str(root / cell.run) for cell in load_grid(path).grid.cells}
        yield from (run for run in _with_paths(root) if run.path in wanted)
    elif any(path.glob("[0-9]*/run.json")):
        yield from (run for run in _with_paths(path.parent) if Path(run.path).parent == path)
    else:
        yield from _with_paths(path)


def _of_kernel(named: str, root: Path) -> Iterator[IndexedRun]:
    for run in _with_paths(root):
        kernel = run.kernel
        if named == kernel.spec or (not kernel.mutant and named in (kernel.release, run.series)):
            yield run


def _with_paths(root: Path) -> Iterator[IndexedRun]:
    return (replace(run, path=str(root / run.path)) for run in indexed_runs(root))


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
    """What to delete until at most ``keep_bytes`` and the newest ``keep_matrices`` are left. None: no limit.

    Never deleted: the newest run of each scenario on each kernel, the run that ``latest`` points to, runs that a
    matrix refers to, baselines of other runs, and runs in progress.
    """
    runs = indexed_runs(root)
    every = grids(root)
    gone = every[: max(0, len(every) - keep_matrices)] if keep_matrices is not None else ()
    removals = [Removal(f"{FOLDER}/{matrix.path.name}", size_of(matrix.path), "an older matrix") for matrix in gone]
    reasons = dict(_pinned(root, runs, [matrix for matrix in every if matrix not in gone]))
    unfinished = list(_unfinished(root))
    total = sum(run.size for run in runs) + sum(removal.size for removal in (*unfinished, *removals))
    left = total - sum(removal.size for removal in removals)
    free = [
        Removal(run.path, run.size, f"{run.status}, {run.facts.started[:10]}, {run.kernel.release}")
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
    for matrix in kept:
        yield from ((cell.run, "a matrix refers to it") for cell in matrix.grid.cells if cell.run)
    newest = {(run.scenario, run.kernel.digest): run for run in runs}
    for run in newest.values():
        yield run.path, "the newest run of its scenario and kernel"
    for run in runs:
        if real(root / run.scenario / LATEST) == real(root / run.path):
            yield run.path, "the latest run of its scenario"
        if run.facts.baseline:
            yield f"{run.scenario}/{run.facts.baseline}", "the baseline of another run"


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
