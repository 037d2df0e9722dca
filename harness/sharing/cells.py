# SPDX-License-Identifier: GPL-2.0-only
"""Windows of the cells of stored runs on several CPUs, with names for their lines and locks."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from harness.figures.lines import read_sharing
from harness.figures.read import figures_of
from harness.profile.cells import ProfiledCell
from harness.record.store import RunFolder
from harness.run.plan import guest_job
from harness.scenario.model import Scenario
from harness.scenario.registry import GUEST
from harness.sharing.text import LINES
from harness.sharing.window import Place, Window, WindowHead, window_of, with_sources
from lab.base.cache import Cache
from lab.base.errors import BlklabError, CannotJudge
from lab.base.record import BootRecord
from lab.base.units import Tell
from lab.kernels.fields import fields
from lab.kernels.model import Kernel
from lab.kernels.objects import Wanted, source_lines, source_of
from lab.session import Lab, prepare_job
from lab.symbols import LINES_FILE, symbols_of

_USES = 4
"""Instructions of each place whose fields and lines of source are shown."""


def figures_by_turn(run: RunFolder, cell: ProfiledCell) -> dict[int, Mapping[str, float]]:
    """The figures of the same load with turns of other lengths, by length."""
    twins = {turn: replace(cell, arm=arm) for turn, arm in other_turns(run.scenario, cell.arm).items()}
    records = {turn: (twin, _counted(run, twin)) for turn, twin in twins.items()}
    return {turn: _figures(run, twin, record) for turn, (twin, record) in records.items() if record}


def other_turns(scenario: Scenario, arm: str) -> dict[int, str]:
    """Arms that differ from ``arm`` in the length of a turn alone, by that length."""
    own = scenario.arms[arm]
    turn = own.topology.processors.turn
    twins = {}
    for name, other in scenario.arms.items():
        processors = other.topology.processors
        alike = replace(other.topology, processors=replace(processors, turn=turn)), other.queue
        if processors.turn != turn and alike == (own.topology, own.queue):
            twins[processors.turn] = name
    return twins


def _counted(run: RunFolder, cell: ProfiledCell) -> BootRecord | None:
    """The cell's boot, if it has counts of lines."""
    planned = next((own for own in run.facts.cells if (own.arm, own.seed) == (cell.arm, cell.seed)), None)
    record = run.boot(planned) if planned and not planned.skip else None
    return record if record and LINES_FILE.format(load=cell.load) in record.files else None


def _figures(run: RunFolder, cell: ProfiledCell, record: BootRecord) -> dict[str, float]:
    """Those of the guest in the cell's load."""
    figures = figures_of(record.files, run.scenario.arms[cell.arm].topology, run.scenario.loads.values())
    return {metric: value for (load, role, metric), value in figures.items() if (load, role) == (cell.load, GUEST)}


def window_of_cell(lab: Lab, run: RunFolder, kernel: Kernel, cell: ProfiledCell, tell: Tell) -> Window:
    """What the cell's boot counted, with the symbols of the run's kernel.

    Raises CannotJudge for a cell without a complete boot, or on one CPU."""
    if (record := _counted(run, cell)) is None:
        raise CannotJudge(
            f"{run.path} has no counts of lines for {cell.arm}.{cell.load}, seed {cell.seed}",
            remedy="run it with several CPUs (machine: {cpus: 4})",
        )
    arm, name = run.scenario.arms[cell.arm], LINES_FILE.format(load=cell.load)
    prepared = prepare_job(lab, kernel, arm.topology, guest_job(run.scenario, arm, cell.seed))
    symbols = symbols_of(lab, prepared, record, lambda phase: tell(f"{kernel.release}: {phase}"))
    processors = arm.topology.processors
    head = WindowHead(
        *(run.facts.scenario, f"{cell.arm}.{cell.load}", cell.seed, run.facts.kernel.release),
        *(processors.cpus, processors.turn, processors.of_node),
    )
    return window_of(read_sharing(record.files[name], name), symbols, head, _figures(run, cell, record))


def with_fields(
    cache: Cache,
    kernel: Kernel,
    windows: Sequence[Window],
    tell: Tell,
    shown: Collection[Place] = (),
    *,
    lines: bool = False,
) -> list[Window]:
    """``windows`` of a kernel with fields, and lines of source if ``lines``, of the instructions that move most and
    those that move what is ``shown`` besides.

    Raises what ``source_lines`` raises, if lines were asked for.
    """
    offsets: dict[tuple[str, str], set[int]] = {}
    ranked = (ranked for window in windows for ranked in enumerate(window.groups))
    for group in (group for rank, group in ranked if rank < LINES or group.place in shown):
        for use in group.uses[:_USES]:
            offsets.setdefault((use.owner, use.symbol), set()).add(use.offset)
    wanted = [Wanted(owner, symbol, own) for (owner, symbol), own in offsets.items()]
    try:
        sources = source_lines(kernel, source_of(kernel, cache, tell), wanted, cache, fields=fields, tell=tell)
    except BlklabError as error:
        if lines:
            raise
        tell(f"fields are unknown: {error}")
        return list(windows)
    known = {
        (own.owner, own.function, offset): by_offset.get(offset)
        for own, by_offset in zip(wanted, sources, strict=True)
        for offset in own.offsets
    }
    return [with_sources(window, known, lines=lines) for window in windows]
