# SPDX-License-Identifier: GPL-2.0-only
"""Boots of earlier runs for a new one: under the virtual clock the same fingerprint gives the same bytes."""

import secrets
import shutil
from collections.abc import Mapping

from harness.base.files import writing
from harness.record.boot_files import load_boot
from harness.record.store import PlannedCell, RunFacts, RunFolder, Store
from lab.base.record import BootRecord


def adopt(store: Store, run: RunFolder, cell: PlannedCell, fingerprint: Mapping[str, str]) -> bool:
    """Copy the cell's boot from another run of the scenario that made exactly this one; whether there was any.

    Boots of a run that is going on are taken too, once they are complete. Raises LabBroken.
    """
    return any(
        _copied(run, cell, record)
        for other in reversed(store.runs_like(run))
        for twin in other.facts.cells
        if _alike(cell, twin) and (record := other.boot(twin)) is not None and _same(record, fingerprint)
    )


def may_adopt(facts: RunFacts) -> bool:
    """Not where every boot counts by itself: on the wall clock, or when repetitions are to be compared."""
    return facts.rule is None and not any(cell.repeat for cell in facts.cells)


def _alike(cell: PlannedCell, twin: PlannedCell) -> bool:
    return not twin.skip and (twin.arm, twin.seed) == (cell.arm, cell.seed)


def _same(record: BootRecord, fingerprint: Mapping[str, str]) -> bool:
    return not record.outcome.spoilt_by_host and dict(record.fingerprint) == dict(fingerprint)


def _copied(run: RunFolder, cell: PlannedCell, record: BootRecord) -> bool:
    """It appears under its name only when all of it is there."""
    target = run.boot_folder(cell)
    aside = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    with writing(target):
        try:
            shutil.copytree(record.folder, aside, symlinks=True)
            shutil.rmtree(target, ignore_errors=True)
            aside.rename(target)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    return load_boot(target) is not None
