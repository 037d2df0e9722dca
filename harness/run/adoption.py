# SPDX-License-Identifier: GPL-2.0-only
"""Reuse of boots of other runs: under the virtual clock equal fingerprints give equal bytes."""

import secrets
import shutil
from collections.abc import Mapping

from harness.base.files import writing
from harness.record.boot_files import load_boot
from harness.record.store import PlannedCell, RunFolder, Store
from lab.base.record import BootRecord


def adopt(store: Store, run: RunFolder, cell: PlannedCell, fingerprint: Mapping[str, str]) -> bool:
    """Copy the cell's boot from another run with the same fingerprint. Return whether there was one.

    Complete boots of a run in progress qualify too. Raises LabBroken.
    """
    return any(
        _copied(run, cell, record)
        for other in reversed(store.runs_like(run))
        for twin in other.facts.cells
        if _alike(cell, twin) and (record := other.boot(twin)) is not None and _same(record, fingerprint)
    )


def _alike(cell: PlannedCell, twin: PlannedCell) -> bool:
    return not twin.skip and (twin.arm, twin.seed) == (cell.arm, cell.seed)


def _same(record: BootRecord, fingerprint: Mapping[str, str]) -> bool:
    return not record.outcome.invalidated_by_host and dict(record.fingerprint) == dict(fingerprint)


def _copied(run: RunFolder, cell: PlannedCell, record: BootRecord) -> bool:
    """Copy aside, then rename, so that a partial copy never has the boot's name."""
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
