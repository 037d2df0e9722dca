# SPDX-License-Identifier: GPL-2.0-only
"""index.sqlite: a table of the judged runs below a results root, derived from their folders, and pairs of them.

Each query first updates it by the time stamps of the verdicts, so new, removed and re-judged runs are
noticed. A damaged index, or one of another schema, is rebuilt. Where the file cannot be written, the
index is built in memory.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import astuple, dataclass, fields, replace
from itertools import product
from pathlib import Path
from typing import Any

from harness.judge.cells import CellResult
from harness.record.grid import load_grid
from harness.record.store import KernelFacts, RunFolder, load_run
from harness.scenario.model import Status
from lab.base.cache import size_of
from lab.base.errors import CannotJudge, Misuse
from lab.base.reading import real
from lab.kernels.release import series_of

FILE = "index.sqlite"
SCHEMA = 3
_PATIENCE = 60.0
"""Seconds to wait for another process that is writing the index."""


@dataclass(frozen=True)
class IndexedRun:
    """A judged run. ``path`` is relative to the results root; ``started`` is UTC in ISO 8601.

    ``seconds`` of host time, None where unknown; ``size`` in bytes on disk.
    """

    path: str
    scenario: str
    run_id: str
    started: str
    spec: str
    release: str
    series: str
    kernel: str
    mutant: str
    origin: str
    scenario_digest: str
    qemu: str
    baseline: str
    status: str
    exit_code: int
    seeds: int
    boots: int
    seconds: float | None
    size: int
    build: str = ""

    @property
    def kernel_facts(self) -> KernelFacts:
        return KernelFacts(self.spec, self.release, self.origin, self.kernel, self.mutant, self.build)


_COLUMNS = ", ".join(column.name for column in fields(IndexedRun))
_TABLES = f"""
CREATE TABLE IF NOT EXISTS runs ({_COLUMNS}, stamp, PRIMARY KEY (path));
CREATE INDEX IF NOT EXISTS runs_of ON runs (scenario, started);
CREATE TABLE IF NOT EXISTS figures (
    path REFERENCES runs ON DELETE CASCADE, arm, seed, figure, value,
    PRIMARY KEY (path, arm, figure, seed)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS boots (path REFERENCES runs ON DELETE CASCADE, arm, seed, status, digest);
"""


class Index:
    """Queries over the judged runs below a results root."""

    def __init__(self, root: Path, connection: sqlite3.Connection) -> None:
        self.root, self._connection = root, connection
        self.close = connection.close

    def runs(self, scenario: str | None = None) -> tuple[IndexedRun, ...]:
        """All runs, or those of one scenario, oldest first."""
        rows = self._connection.execute(
            f"SELECT {_COLUMNS} FROM runs WHERE ?1 IS NULL OR scenario = ?1 ORDER BY started, run_id",  # noqa: S608
            (scenario,),
        )
        return tuple(IndexedRun(*row) for row in rows)

    def cells(self, path: str) -> tuple[CellResult, ...]:
        """The boots of a run that have figures, with these alone."""
        figures: dict[tuple[str, int], dict[tuple[str, str, str], float]] = {}
        rows = self._connection.execute(
            "SELECT arm, seed, figure, value FROM figures WHERE path = ? ORDER BY arm, figure, seed", (path,)
        )
        for arm, seed, figure, value in rows:
            load, role, metric = figure.split(".", 2)
            figures.setdefault((arm, seed), {})[load, role, metric] = value
        return tuple(CellResult(arm, seed, Status.PASS, figures=own) for (arm, seed), own in figures.items())


def open_index(root: Path, *, rebuild: bool = False) -> Index:
    """The up-to-date index of a results root. ``rebuild`` discards the old one first."""
    path = root / FILE
    for attempt in range(2):
        if rebuild or attempt:
            _remove(path)
        with suppress(sqlite3.DatabaseError):
            return Index(root, _refreshed(root, sqlite3.connect(path, timeout=_PATIENCE)))
    return Index(root, _refreshed(root, sqlite3.connect(":memory:")))


def indexed_runs(root: Path, *, rebuild: bool = False) -> tuple[IndexedRun, ...]:
    """All judged runs below a results root, oldest first; none if there is no such folder."""
    if not root.is_dir():
        return ()
    with closing(open_index(root, rebuild=rebuild)) as index:
        return index.runs()


def _remove(path: Path) -> None:
    """Processes that have the index open keep the old file."""
    for rest in ("", "-journal", "-wal", "-shm"):
        with suppress(OSError):
            path.with_name(path.name + rest).unlink()


def _refreshed(root: Path, connection: sqlite3.Connection) -> sqlite3.Connection:
    """The connection once its tables are up to date. Raises DatabaseError, also for another schema and damage."""
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version == 0:
            connection.executescript(f"{_TABLES}; PRAGMA user_version = {SCHEMA};")
        elif version != SCHEMA or connection.execute("PRAGMA quick_check").fetchone() != ("ok",):
            raise sqlite3.DatabaseError
        _refresh(root, connection)
    except sqlite3.DatabaseError:
        connection.close()
        raise
    return connection


def _refresh(root: Path, connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA foreign_keys = ON")
    stamps = {str(path.relative_to(root)): stamp for path, stamp in _verdicts(root)}
    if stamps == dict(connection.execute("SELECT path, stamp FROM runs")):
        return
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        known = set(connection.execute("SELECT path, stamp FROM runs"))
        connection.executemany("DELETE FROM runs WHERE path = ? AND stamp = ?", known - stamps.items())
        for path, stamp in sorted(stamps.items() - known):
            # Misuse: damaged, or of another version. It is not indexed.
            with suppress(Misuse):
                _add(connection, root, path, stamp)


def _verdicts(root: Path) -> Iterator[tuple[Path, str]]:
    """Folders of judged runs, each with a stamp that changes when it is judged again."""
    for verdict in sorted(root.glob("*/[0-9]*/verdict.json")):
        with suppress(FileNotFoundError):
            status = verdict.stat()
            yield verdict.parent, f"{status.st_mtime_ns}.{status.st_size}"


def _add(connection: sqlite3.Connection, root: Path, path: str, stamp: str) -> None:
    run = load_run(root / path)
    verdict = run.stored_verdict()
    if verdict is None:
        return
    row = (*astuple(_indexed(path, run, verdict)), stamp)
    connection.execute(f"INSERT OR REPLACE INTO runs VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608
    for cell in verdict["cells"]:
        place = (path, cell["arm"], cell["seed"])
        connection.execute("INSERT INTO boots VALUES (?, ?, ?, ?, ?)", (*place, cell["status"], cell["digest"]))
        connection.executemany(
            "INSERT INTO figures VALUES (?, ?, ?, ?, ?)",
            ((*place, name, value) for name, value in cell["figures"].items()),
        )


def _indexed(path: str, run: RunFolder, verdict: dict[str, Any]) -> IndexedRun:
    facts, kernel = run.facts, run.facts.kernel
    own = {
        "path": path,
        "series": series_of(kernel.release),
        "kernel": kernel.digest,
        "seeds": len(facts.seeds),
        "boots": sum(bool(cell["digest"]) for cell in verdict["cells"]),
        "seconds": run.elapsed(),
        "size": size_of(run.path),
    }
    values = verdict | vars(kernel) | vars(facts) | own
    return IndexedRun(**{column.name: values[column.name] for column in fields(IndexedRun)})


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
        if named == run.spec or (not run.mutant and named in (run.release, run.series)):
            yield run


def _with_paths(root: Path) -> Iterator[IndexedRun]:
    return (replace(run, path=str(root / run.path)) for run in indexed_runs(root))
