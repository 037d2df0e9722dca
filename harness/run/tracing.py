# SPDX-License-Identifier: GPL-2.0-only
"""One boot of a scenario with ftrace events recorded. Its figures are never judged.

Tracing executes instructions of its own, so the figures of a traced boot differ from those of the run that it
repeats. Traced boots are stored separately, in ``<root>/<scenario>/traces/<run-id>/``.
"""

import gzip
import re
import zlib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from harness.base.files import write_atomic, writing
from harness.record.store import new_run_id, save_boot
from harness.scenario.model import Arm
from lab.base.errors import CannotJudge, LabBroken, Misuse
from lab.base.record import NO_EVENT, TRACE_FILE, BootRecord, Outcome
from lab.kernels.model import Kernel
from lab.session import Job, Lab, PhaseSeen, prepare_job, run_job, unmet
from lab.yaml.strict import nearest

FOLDER = "traces"
DEFAULT_EVENTS = "block:*"
_COUNTS = re.compile(rb"entries-in-buffer/entries-written: ([0-9]+)/([0-9]+)")
_EVENT = re.compile(r"[A-Za-z0-9_*?]{1,64}(:[A-Za-z0-9_*?]{1,64})?")


@dataclass(frozen=True)
class Trace:
    """The trace of one load. ``written`` counts all events; the buffer holds the newest ``kept`` of them."""

    load: str
    path: Path
    kept: int
    written: int


def parse_events(text: str) -> tuple[str, ...]:
    """Events separated by commas: a system (``block``), ``system:event`` or a pattern. Raises Misuse."""
    events = tuple(part.strip() for part in text.split(","))
    for event in events:
        if not _EVENT.fullmatch(event):
            raise Misuse(f'"{event}" is not an event', remedy="block, scsi:scsi_dispatch_cmd_start, block:block_rq_*")
    return events


def trace_boot(
    lab: Lab, kernel: Kernel, arm: Arm, job: Job, results: Path, *, phase_seen: PhaseSeen
) -> tuple[Trace, ...]:
    """Boot once with the events of ``job.trace`` recorded during each load, below ``results``. One trace per load.

    Raises CannotJudge when the kernel or QEMU lacks a requirement or the boot fails, Misuse when the kernel has
    no such event.
    """
    if reasons := unmet(lab, kernel, arm.topology, arm.queue):
        raise CannotJudge("; ".join(reasons), remedy="choose another kernel or another arm")
    prepared = prepare_job(lab, kernel, arm.topology, job)
    folder = results / FOLDER / new_run_id(datetime.now(UTC), kernel.release)
    with writing(folder):
        folder.mkdir(parents=True)
    record = run_job(lab, prepared, folder, phase_seen=phase_seen)
    save_boot(record)
    _check(record, kernel)
    return tuple(_trace(record, load.name) for load in job.loads)


def _check(record: BootRecord, kernel: Kernel) -> None:
    if record.outcome is Outcome.BYE:
        return
    if record.unfit[:1] == (NO_EVENT,):
        event = record.unfit[1]
        raise Misuse(
            f"{kernel.release} has no trace event {event}{_like(event, record)}",
            remedy=f"see out/available_events in {record.folder} for the events of this kernel",
        )
    raise CannotJudge(f"the traced boot failed ({record.outcome}): {record.detail}", remedy=f"see {record.folder}")


def _like(event: str, record: BootRecord) -> str:
    known = record.files.get("available_events", b"").decode(errors="replace").split()
    system = event.partition(":")[0]
    return nearest(event, known if ":" in event else {name.partition(":")[0] for name in known} - {system})


def _trace(record: BootRecord, load: str) -> Trace:
    name = TRACE_FILE.format(load=load)
    path = record.folder / name.removesuffix(".gz")
    try:
        text = gzip.decompress(record.files[name])
    except (KeyError, OSError, EOFError, zlib.error) as error:
        raise LabBroken(f"the trace of load {load} did not arrive: {error}", remedy=f"see {record.folder}") from error
    write_atomic(path, text)
    counts = _COUNTS.search(text)
    if counts is None:
        raise LabBroken(f"{path} has no ftrace header", remedy="report this as a bug of blklab")
    return Trace(load, path, int(counts[1]), int(counts[2]))
