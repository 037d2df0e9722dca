# SPDX-License-Identifier: GPL-2.0-only
"""index.sqlite: a table of the judged runs below a results root, derived from their folders.

Each query first updates it by the time stamps of the verdicts, so new, removed and re-judged runs are
noticed. A damaged index, or one of another schema, is rebuilt. Where the file cannot be written, the
index is built in memory.
"""

import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

from harness.record.store import RunFolder, load_run
from lab.base.cache import size_of
from lab.base.errors import Misuse
from lab.kernels.release import series_of

FILE = "index.sqlite"
SCHEMA = 2
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


_COLUMNS = ", ".join(column.name for column in fields(IndexedRun))
_TABLES = f"""
CREATE TABLE runs ({_COLUMNS}, stamp, PRIMARY KEY (path));
CREATE INDEX runs_of ON runs (scenario, started);
CREATE TABLE figures (
    path REFERENCES runs ON DELETE CASCADE, arm, seed, figure, value,
    PRIMARY KEY (path, arm, figure, seed)) WITHOUT ROWID;
CREATE TABLE boots (path REFERENCES runs ON DELETE CASCADE, arm, seed, status, digest);
"""


class Index:
    """Queries over the judged runs below a results root.

    ``remade`` says why the index was rebuilt; it is empty when it was only updated.
    """

    def __init__(self, root: Path, connection: sqlite3.Connection, remade: str = "") -> None:
        self.root, self._connection, self.remade = root, connection, remade

    def close(self) -> None:
        self._connection.close()

    def runs(self, scenario: str | None = None) -> tuple[IndexedRun, ...]:
        """All runs, or those of one scenario, oldest first."""
        rows = self._connection.execute(
            f"SELECT {_COLUMNS} FROM runs WHERE ?1 IS NULL OR scenario = ?1 ORDER BY started, run_id",  # noqa: S608
            (scenario,),
        )
        return tuple(IndexedRun(*row) for row in rows)

    def figures(self, path: str, metric: str) -> dict[tuple[str, str], dict[int, float]]:
        """Values by seed of each (arm, ``load.role.metric``) of a run."""
        found: dict[tuple[str, str], dict[int, float]] = {}
        rows = self._connection.execute(
            "SELECT arm, figure, seed, value FROM figures WHERE path = ? AND figure LIKE ? ESCAPE '\\'"
            " ORDER BY arm, figure, seed",
            (path, "%." + metric.replace("%", r"\%").replace("_", r"\_")),
        )
        for arm, figure, seed, value in rows:
            found.setdefault((arm, figure), {})[seed] = value
        return found


def open_index(root: Path, *, rebuild: bool = False) -> Index:
    """The up-to-date index of a results root. ``rebuild`` discards the old one first."""
    path = root / FILE
    why = "as asked" if rebuild else _unusable(path)
    if why:
        with suppress(OSError):
            _make_empty(path)
    index = Index(root, _connected(path), why)
    try:
        _refresh(index)
    except sqlite3.DatabaseError as error:
        index.close()
        index = Index(root, _fresh(sqlite3.connect(":memory:")), f"it could not be updated ({error})")
        _refresh(index)
    return index


def indexed_runs(root: Path, *, rebuild: bool = False) -> tuple[IndexedRun, ...]:
    """All judged runs below a results root, oldest first; none if there is no such folder."""
    if not root.is_dir():
        return ()
    with closing(open_index(root, rebuild=rebuild)) as index:
        return index.runs()


def _unusable(path: Path) -> str:
    """Why the index must be rebuilt; empty when it can be used."""
    if not path.exists():
        return "there was none"
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=_PATIENCE)) as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            (sound,) = connection.execute("PRAGMA quick_check").fetchone()
    except sqlite3.DatabaseError as error:
        return f"it was damaged ({error})"
    if sound != "ok":
        return "it was damaged"
    return "" if version == SCHEMA else f"it had schema {version}"


def _make_empty(path: Path) -> None:
    """Replace the index by an empty one atomically. Open readers keep the old file."""
    aside = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        with closing(_fresh(sqlite3.connect(aside))):
            pass
        aside.replace(path)
        for rest in ("-journal", "-wal", "-shm"):
            path.with_name(path.name + rest).unlink(missing_ok=True)
    except sqlite3.DatabaseError:
        return
    finally:
        aside.unlink(missing_ok=True)


def _fresh(connection: sqlite3.Connection) -> sqlite3.Connection:
    connection.executescript(_TABLES)
    connection.execute(f"PRAGMA user_version = {SCHEMA}")
    connection.commit()
    return connection


def _connected(path: Path) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(f"file:{path}?mode=rw", uri=True, timeout=_PATIENCE)
        connection.execute("SELECT count(*) FROM runs").fetchone()
    except sqlite3.DatabaseError:
        return _fresh(sqlite3.connect(":memory:"))
    return connection


def _refresh(index: Index) -> None:
    connection = index._connection
    connection.execute("PRAGMA foreign_keys = ON")
    found = {str(path.relative_to(index.root)): stamp for path, stamp in _verdicts(index.root)}
    known = dict(connection.execute("SELECT path, stamp FROM runs").fetchall())
    if found == known:
        return
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        known = dict(connection.execute("SELECT path, stamp FROM runs").fetchall())
        for path in known.keys() - {path for path, stamp in found.items() if known.get(path) == stamp}:
            connection.execute("DELETE FROM runs WHERE path = ?", (path,))
        for path, stamp in found.items():
            if known.get(path) != stamp:
                # Misuse: damaged, or of another version. It is not indexed.
                with suppress(Misuse):
                    _add(connection, index.root, path, stamp)


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
    return IndexedRun(
        path=path,
        scenario=facts.scenario,
        run_id=facts.run_id,
        started=facts.started,
        spec=kernel.spec,
        release=kernel.release,
        series=series_of(kernel.release),
        kernel=kernel.digest,
        mutant=kernel.mutant,
        origin=kernel.origin,
        scenario_digest=facts.scenario_digest,
        qemu=facts.qemu,
        baseline=facts.baseline,
        status=verdict["status"],
        exit_code=verdict["exit_code"],
        seeds=len(facts.seeds),
        boots=sum(bool(cell["digest"]) for cell in verdict["cells"]),
        seconds=run.elapsed(),
        size=size_of(run.path),
    )
