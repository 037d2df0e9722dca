# SPDX-License-Identifier: GPL-2.0-only
"""Measures the cells of a grid: concurrent runs whose boots share the host's lanes.

A cell that fails never stops the others, and nothing is measured twice: a cell that an earlier run
decided is taken from there, a killed run is resumed, and a cell that another matrix on this store measures is
waited for. Shards are merged by copying their runs, each counted once.
"""

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from traceback import extract_tb

from harness.base.files import copy_atomic, held, held_one, writing
from harness.grid.lines import GridRow
from harness.judge.cells import WORST_FIRST
from harness.judge.verdict import Verdict
from harness.limits.cost import arm_seconds
from harness.record.grid import (
    FOLDER,
    Grid,
    GridCell,
    GridFolder,
    grids,
    load_grid,
    new_grid,
    same_request,
    with_cell,
)
from harness.record.judging import Altered, Run, judge_run
from harness.record.store import KernelFacts, RunFolder, Store, load_run
from harness.report.claims import claim_text, headline
from harness.run.bench import Bench, Stopped
from harness.run.events import CellDecided, Event, MatrixListener, MatrixStarted
from harness.run.plan import Request, run_command
from harness.scenario.load import ref_of
from harness.scenario.model import Scenario, Status
from lab.base.digest import canonical, digest_bytes
from lab.base.errors import EXIT_LAB_BROKEN, BlklabError, CannotJudge, KernelFailed, LabBroken, Misuse
from lab.kernels.model import Kernel


def boots_of(scenario: Scenario, seeds: int | None) -> int:
    """Boots of a scenario on one kernel if none is skipped."""
    return len(scenario.arms) * (scenario.seeds if seeds is None else seeds)


_SHARD = re.compile(r"([1-9][0-9]{0,3})/([1-9][0-9]{0,3})")


@dataclass(frozen=True)
class MatrixPlan:
    """The request. ``kernels`` maps each spec to the kernel, or to the reason why there is none."""

    scenarios: tuple[Scenario, ...]
    kernels: Mapping[str, Kernel | BlklabError]
    seeds: int | None = None
    shard: tuple[int, int] = (1, 1)
    command: tuple[str, ...] = ()


def read_shard(text: str) -> tuple[int, int]:
    """``2/4``: the part, from 1, and how many there are. Raises Misuse."""
    match = _SHARD.fullmatch(text)
    if match is None or int(match[1]) > int(match[2]):
        raise Misuse(f"--shard {text} is no part", remedy="the part and how many parts there are, such as 2/4")
    return int(match[1]), int(match[2])


def cells_of(plan: MatrixPlan) -> tuple[GridCell, ...]:
    """The cells of all shards, undecided: scenario by scenario, those of the wall clock last."""
    kernels = [
        KernelFacts(spec, "", "", "") if isinstance(kernel, BlklabError) else KernelFacts.of(kernel)
        for spec, kernel in plan.kernels.items()
    ]
    return dealt(
        [
            GridCell(scenario.name, scenario.digest, kernel, scenario.clock, boots=boots_of(scenario, plan.seeds))
            for scenario in sorted(plan.scenarios, key=lambda scenario: scenario.timing.alone)
            for kernel in kernels
        ],
        plan.shard[1],
    )


def dealt(cells: Sequence[GridCell], shards: int) -> tuple[GridCell, ...]:
    """Assign each cell to the shard with the fewest boots so far; the same one on every machine."""
    loads, spread = [0] * shards, []
    for cell in cells:
        part = loads.index(min(loads))
        loads[part] += max(1, cell.boots)
        spread.append(replace(cell, shard=part + 1))
    return tuple(spread)


def judged(cell: GridCell, run: Run, seconds: float = 0.0) -> GridCell:
    """The cell as the run decides it."""
    verdict = run.verdict
    reason = "" if verdict.status is Status.PASS else next(_reasons(verdict), headline(verdict))
    decided = replace(cell, status=verdict.status, exit_code=verdict.exit_code, reason=reason)
    return replace(decided, run=run.path, seconds=seconds, result=run)


def broken(cell: GridCell, error: BaseException) -> GridCell:
    """The cell without a verdict; an exception that is not a BlklabError is a bug."""
    if isinstance(error, BlklabError):
        kinds = ((CannotJudge, Status.MISS), (KernelFailed, Status.FAIL))
        status = next((status for kind, status in kinds if isinstance(error, kind)), Status.ERROR)
        return replace(cell, status=status, exit_code=error.exit_code, reason=error.message)
    where = extract_tb(error.__traceback__)[-1]
    text = f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno}); this is a bug of blklab"
    return replace(cell, status=Status.ERROR, exit_code=EXIT_LAB_BROKEN, reason=text)


def _reasons(verdict: Verdict) -> Iterator[str]:
    """Why the run has its status: boots that went wrong before the claims that lack their figures."""
    for cell in verdict.incidents:
        if cell.status is verdict.status:
            yield f"arm {cell.arm}, seed {cell.seed}: {'; '.join(cell.reasons)}"
    for claim in verdict.claims:
        if claim.counts_as is verdict.status and not claim.optional:
            yield f"{claim.that}: {claim_text(claim).result}"
    for control in verdict.controls:
        if control.judgement is not None and control.judgement.status is verdict.status:
            yield f"{control.that}: {claim_text(control).result}"


@dataclass(frozen=True)
class Sweeper:
    """What measures a kernel. ``resolve`` raises BlklabError for one that cannot be had."""

    bench: Bench
    resolve: Callable[[str], Kernel]
    seeds: int | None = None
    arms: tuple[str, ...] = ()

    def extended(self, row: GridRow, place: int) -> GridRow:
        """The row with the kernel at ``place`` measured, or missing with the reason.

        Raises LabBroken when the results cannot be kept, and Misuse: no other kernel could be measured either.
        """
        cell, spec = row.cells[place], row.cells[place].kernel.spec
        try:
            kernel = self.resolve(spec)
            command = run_command(ref_of(row.scenario), spec, self.seeds, self.arms)
            run = self.bench.measure(Request(row.scenario, kernel, self.seeds, self.arms, command=command))
        except Misuse:
            raise
        except BlklabError as error:
            if isinstance(error, LabBroken):
                self.bench.store.check()
            return row.decided(place, broken(cell, error))
        if run.verdict.measurements:
            return row.decided(place, judged(cell, run), kernel.config)
        reasons = dict.fromkeys(reason for each in run.verdict.incidents for reason in each.reasons)
        lacking = "; ".join(reasons) or "nothing was measured"
        return row.decided(place, replace(judged(cell, run), reason=lacking, result=None))


_POLL = 0.5
"""Seconds between two checks of a cell that another matrix measures."""
_SPARE_RUNS = 1
"""Runs beyond those that fill all lanes: planned and judged while the others boot."""


def run_matrix(bench: Bench, plan: MatrixPlan, listener: MatrixListener) -> GridFolder:
    """Decide every cell of the plan's shard. Running the same plan again resumes it.

    Raises LabBroken when results can no longer be kept; whatever was measured until then counts.
    """
    bench.store.check()
    planned = Grid("", cells_of(plan), plan.seeds, *plan.shard, qemu=bench.lab.describe(), command=plan.command)
    with _folder(bench.store, planned) as (folder,):
        return _Matrix(bench, plan, listener).decide(folder)


def _folder(store: Store, planned: Grid) -> AbstractContextManager[Sequence[GridFolder]]:
    """The record of an unfinished matrix of the same plan, else a new one; locked until the context ends."""
    unfinished = (matrix for matrix in reversed(grids(store.root)) if not matrix.grid.ended)
    alike = ([matrix] for matrix in unfinished if same_request(matrix.grid, planned))
    return held_one(alike, lambda: [new_grid(store.root, planned)])


@dataclass
class _Matrix:
    """A running matrix. Threads decide cells; only the caller's thread writes the record."""

    bench: Bench
    plan: MatrixPlan
    listener: MatrixListener
    stopping: threading.Event = field(default_factory=threading.Event)

    def decide(self, folder: GridFolder) -> GridFolder:
        record = replace(folder.grid, cells=tuple(cell.undecided() for cell in folder.grid.cells))
        own = record.own
        seconds = {scenario.name: arm_seconds(scenario) for scenario in self.plan.scenarios}
        cells = tuple((c.scenario, c.kernel.release or c.kernel.spec, (c.boots, seconds[c.scenario])) for c in own)
        at_once = (self.bench.cluster or self.bench.turns).lanes.at_once
        self.listener(MatrixStarted(cells, at_once))
        folder = folder.saved(record)
        with ThreadPoolExecutor(at_once + _SPARE_RUNS, thread_name_prefix="cell") as pool:
            try:
                waiting = {pool.submit(self._cell, number, cell): number for number, cell in enumerate(own)}
                while waiting:
                    for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                        number = waiting.pop(future)
                        cell = self._decided(future, number, own[number])
                        if cell is None:
                            waiting[pool.submit(self._cell, number, own[number], patient=True)] = number
                        else:
                            folder = folder.saved(with_cell(folder.grid, cell))
            except BaseException:
                self.stopping.set()
                self.bench.stop()
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        ended = datetime.now(UTC).isoformat(timespec="milliseconds")
        return folder.saved(replace(folder.grid, ended=ended))

    def _decided(self, future: "Future[GridCell | None]", number: int, cell: GridCell) -> GridCell | None:
        error = future.exception()
        decided = future.result() if error is None else broken(cell, error)
        if isinstance(error, LabBroken):
            # Without a writable store no cell can be decided.
            self.bench.store.check()
        if decided is not None and decided.status is not None:
            before = decided.result is not None and decided.result.earlier
            self.listener(CellDecided(number, decided.status, decided.seconds, decided.reason, before))
        return decided

    def _cell(self, number: int, cell: GridCell, *, patient: bool = False) -> GridCell | None:
        """Decide one cell; None if another matrix measures it, unless ``patient``."""
        if self.stopping.is_set():
            raise Stopped
        kernel = self.plan.kernels[cell.kernel.spec]
        if isinstance(kernel, BlklabError):
            return broken(cell, kernel)
        scenario = next(scenario for scenario in self.plan.scenarios if scenario.name == cell.scenario)
        with self._in_hand(scenario, kernel, patient=patient) as mine:
            return self._measure(number, cell, scenario, kernel) if mine else None

    def _measure(self, number: int, cell: GridCell, scenario: Scenario, kernel: Kernel) -> GridCell:
        def listen(event: Event) -> None:
            self.listener(replace(event, cell=number))

        started = time.monotonic()
        command = run_command(ref_of(scenario), kernel.spec, self.plan.seeds)
        bench = replace(self.bench, watch=lambda: nullcontext(listen), rank=number)
        run = bench.measure(Request(scenario, kernel, self.plan.seeds, command=command))
        return judged(cell, run, 0.0 if run.earlier else time.monotonic() - started)

    @contextmanager
    def _in_hand(self, scenario: Scenario, kernel: Kernel, *, patient: bool) -> Iterator[bool]:
        """Lock the cell until the context ends; False if another matrix on the store has the lock."""
        key = digest_bytes(canonical([scenario.digest, kernel.digest, self.plan.seeds, self.bench.lab.qemu.digest]))
        folder = self.bench.store.root / FOLDER / "cells" / key[:32]
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            mine = False
            while not mine:
                try:
                    stack.enter_context(held(folder, "cell"))
                    mine = True
                except Misuse:
                    if not patient:
                        break
                    if self.stopping.wait(_POLL):
                        raise Stopped from None
            yield mine


# Shards

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
                taken = _copied(store.root, part.path.parent.parent, cell)
                both = filter(None, (decided.get(_key(cell)), taken))
                decided[_key(cell)] = min(both, key=lambda each: WORST_FIRST.index(each.status or Status.MISS))
    cells = tuple(_every_cell(merged, decided))
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


def _every_cell(merged: Sequence[GridFolder], decided: dict[_Key, GridCell]) -> Iterator[GridCell]:
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


def _copied(root: Path, origin: Path, cell: GridCell) -> GridCell:
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
