# SPDX-License-Identifier: GPL-2.0-only
"""A grid: the run of each cell of scenarios x kernels, and its record on disk.

    <root>/matrix/<matrix-id>/matrix.json    replaced whenever a cell is decided
    <root>/matrix/latest                     symlink to the matrix that was started last

Runs are ordinary folders of the same root. The record refers to them and holds no figures; a resumed
matrix reads the run folders, not the record.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from harness.base.files import held, link_atomic, read_json, write_json, writing
from harness.base.plain import from_plain, to_plain
from harness.judge.cells import exit_code_of, matrix_status
from harness.record.judging import Run
from harness.record.store import LATEST, KernelFacts, new_run_id
from harness.scenario.model import Status
from harness.scenario.timing import Clock
from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_PASS, Misuse
from lab.base.reading import real

SCHEMA = 1
FOLDER = "matrix"
_RECORD = "matrix.json"


@dataclass(frozen=True)
class GridCell:
    """One scenario on one kernel. ``status`` is None until the cell is decided.

    ``run`` is the run's folder relative to the results root, empty when there is none. ``reason`` is
    a sentence, empty for a plain PASS. ``seconds`` is the measuring time, 0 when an earlier run was
    reused. ``shard`` counts from 1. ``boots`` are those of the run. ``result`` is the run where it is in hand; the
    record refers to it by ``run``.
    """

    scenario: str
    scenario_digest: str
    kernel: KernelFacts
    clock: Clock
    shard: int = 1
    boots: int = 0
    status: Status | None = None
    exit_code: int = EXIT_PASS
    run: str = ""
    reason: str = ""
    seconds: float = 0.0
    result: Run | None = field(default=None, compare=False, repr=False)

    def undecided(self) -> "GridCell":
        """The cell as it was planned."""
        return replace(self, status=None, exit_code=EXIT_PASS, run="", reason="", seconds=0.0, result=None)


@dataclass(frozen=True)
class Grid:
    """Cells of scenarios x kernels: the content of matrix.json.

    This is shard ``shard`` of ``shards``; cells of other shards stay undecided.

    ``started`` and ``ended`` are UTC in ISO 8601, ``ended`` is empty until every cell of the shard is decided.
    ``seeds`` None takes each scenario's number.
    """

    matrix_id: str
    cells: tuple[GridCell, ...]
    seeds: int | None = None
    shard: int = 1
    shards: int = 1
    qemu: str = ""
    command: tuple[str, ...] = ()
    started: str = ""
    ended: str = ""
    schema: int = SCHEMA

    @property
    def own(self) -> tuple[GridCell, ...]:
        return tuple(cell for cell in self.cells if self.shards == 1 or cell.shard == self.shard)

    @property
    def status(self) -> Status:
        """The status of this shard: an undecided cell counts as MISS."""
        return matrix_status(cell.status or Status.MISS for cell in self.own)

    @property
    def exit_code(self) -> int:
        """0 pass, 1 fail, 125 when a cell could not be judged, 128 and above when the lab is broken."""
        return exit_code_of(
            (cell.status or Status.MISS, cell.exit_code if cell.status else EXIT_CANNOT_JUDGE) for cell in self.own
        )

    @property
    def scenarios(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(cell.scenario for cell in self.cells))

    @property
    def kernels(self) -> tuple[KernelFacts, ...]:
        return tuple(dict.fromkeys(cell.kernel for cell in self.cells))

    def at(self) -> Mapping[tuple[str, KernelFacts], GridCell]:
        return {(cell.scenario, cell.kernel): cell for cell in self.cells}


@dataclass(frozen=True)
class GridFolder:
    path: Path
    grid: Grid

    def saved(self, grid: Grid) -> "GridFolder":
        """Replace the record. Raises LabBroken."""
        plain = to_plain(replace(grid, cells=tuple(replace(cell, result=None) for cell in grid.cells)))
        for cell in plain["cells"]:
            del cell["result"]
        write_json(self.path / _RECORD, plain)
        return GridFolder(self.path, grid)

    def held(self) -> AbstractContextManager[None]:
        return held(self.path, "matrix")


def new_grid(root: Path, planned: Grid) -> GridFolder:
    """Create the folder of a matrix and fill in its id and start. Raises LabBroken."""
    started = datetime.now(UTC)
    label = f"{len(planned.scenarios)}x{len(planned.kernels)}"
    record = replace(planned, matrix_id=new_run_id(started, label), started=started.isoformat(timespec="milliseconds"))
    path = root / FOLDER / record.matrix_id
    with writing(path):
        path.mkdir(parents=True)
    folder = GridFolder(path, record).saved(record)
    link_atomic(path.parent / LATEST, path.name)
    return folder


def load_grid(path: Path) -> GridFolder:
    """The matrix in a folder (or a symlink to it). Raises Misuse when there is none, or of another schema."""
    folder = real(path)
    plain = read_json(folder / _RECORD)
    if not isinstance(plain, dict) or plain.get("schema") != SCHEMA:
        raise Misuse(
            f"{path} does not contain a matrix of schema {SCHEMA}", remedy="give a folder below results/matrix/"
        )
    try:
        return GridFolder(folder, from_plain(Grid, plain))
    except ValueError as error:
        raise Misuse(f"{path} is damaged: {error}", remedy="run blklab matrix again; its runs are kept") from error


def grids(root: Path) -> tuple[GridFolder, ...]:
    """All readable matrices below a results root, oldest first."""
    grids = []
    for path in sorted((root / FOLDER).glob("[0-9]*")):
        with suppress(Misuse):
            grids.append(load_grid(path))
    return tuple(grids)


def same_request(here: Grid, there: Grid) -> bool:
    """Whether two records ask for the same cells of the same shard."""
    mine, theirs = (tuple(cell.undecided() for cell in record.cells) for record in (here, there))
    as_asked = replace(here, matrix_id=there.matrix_id, command=there.command, started=there.started, ended=there.ended)
    return mine == theirs and replace(as_asked, cells=there.cells) == there


def with_cell(record: Grid, decided: GridCell) -> Grid:
    key = decided.scenario, decided.kernel
    return replace(
        record, cells=tuple(decided if (cell.scenario, cell.kernel) == key else cell for cell in record.cells)
    )
