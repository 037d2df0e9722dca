# SPDX-License-Identifier: GPL-2.0-only
"""Whether the files of a run are those that were written, and each boot is the boot of its cell."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from harness.base.files import json_bytes, read_json
from harness.base.plain import identity
from harness.record.boot_files import NAME, Damaged, read_boot
from harness.record.store import CHECKSUMS, PLAN, RESOLVED, PlannedCell, RunFolder, digest_of_plan
from lab.base.digest import digest_bytes
from lab.base.errors import CannotJudge
from lab.base.record import BootRecord

_VERSION = re.compile(rb"^\[[^\]]*\] Linux version (\S+)", re.MULTILINE)
_WORDS = frozenset({"sentence", "reason", "reasons", "that", "known", "in_words", "because", "diagnosed", "killers"})
"""Keys of a verdict whose values are text for readers."""
_FIGURES = "figures"
_CHECKSUMS_SINCE = 2
"""Schema of run.json."""


class Altered(CannotJudge):
    """A file of a run is missing, or is not the one that was written. The message names it and the mismatch."""


def altered(run: RunFolder, file: str, what: str) -> Altered:
    return Altered(f"{run.path.name}: {file}: {what}", remedy="restore the file, or run the scenario again")


def check_plan(run: RunFolder) -> None:
    """Compare run.json and scenario.json with their checksums and with each other. Raises Altered."""
    plain = read_json(run.path / PLAN)
    checksums = plain.get(CHECKSUMS)
    if checksums is None and plain["schema"] >= _CHECKSUMS_SINCE:
        raise altered(run, PLAN, "has no checksums")
    if checksums is not None:
        found = {PLAN: digest_of_plan(plain), RESOLVED: digest_bytes((run.path / RESOLVED).read_bytes())}
        for file, digest in found.items():
            if digest != checksums.get(file):
                raise altered(run, file, f"checksum is {digest[:12]}, {PLAN} names {str(checksums.get(file))[:12]}")
    digest = identity(run.scenario)
    if digest != run.facts.scenario_digest:
        raise altered(
            run, RESOLVED, f"digest of the scenario is {digest[:12]}, {PLAN} names {run.facts.scenario_digest[:12]}"
        )
    planned = {cell.boot for cell in run.facts.cells}
    for record in sorted((run.path / "boots").glob(f"[0-9]*/{NAME}")):
        if record.parent.name not in planned:
            raise altered(run, PLAN, f"names no cell for boots/{record.parent.name}")


def boot_of(run: RunFolder, cell: PlannedCell) -> BootRecord | None:
    """The record of a cell; None when it was not made. Raises Altered when it is damaged or another cell's."""
    folder = run.boot_folder(cell)
    where = f"boots/{cell.boot}"
    if not (folder / NAME).exists():
        if run.facts.rule is None and run.stored_verdict() is not None:
            raise altered(run, f"{where}/{NAME}", "is missing, and the run has a verdict")
        return None
    try:
        record = read_boot(folder)
    except Damaged as damage:
        raise altered(run, f"{where}/{damage.file}", damage.what) from damage
    wanted = {
        "scenario": run.facts.scenario_digest,
        "kernel": run.facts.kernel.digest,
        "arm": cell.arm,
        "seed": str(cell.seed),
    }
    for key, value in wanted.items():
        found = record.fingerprint.get(key, "nothing")
        if found != value:
            raise altered(run, f"{where}/{NAME}", f"fingerprint has {key} {found[:64]}, the cell has {value[:64]}")
    version = _VERSION.search(record.files.get("kmsg", b""))
    if version and version[1].decode("utf-8", "replace") != run.facts.kernel.release:
        booted = version[1].decode("utf-8", "replace")
        raise altered(run, PLAN, f"kernel release is {run.facts.kernel.release}, {where} booted {booted}")
    return record


def differences(stored: Any, fresh: Any, path: str = "") -> Iterator[str]:
    """What two verdict documents disagree about.

    Text for readers is not compared, nor are figures that only one of them has: later versions read more of a boot.
    """
    if isinstance(stored, Mapping) and isinstance(fresh, Mapping):
        named = path.endswith(_FIGURES)
        for key in sorted(stored.keys() & fresh.keys() if named else stored.keys() | fresh.keys()):
            if key not in _WORDS:
                yield from differences(stored.get(key), fresh.get(key), f"{path}.{key}" if path else key)
    elif isinstance(stored, list) and isinstance(fresh, list) and len(stored) == len(fresh):
        for number, pair in enumerate(zip(stored, fresh, strict=True)):
            yield from differences(*pair, f"{path}[{number}]")
    elif json_bytes(stored) != json_bytes(fresh):
        yield f"{path}: stored {_short(stored)}, judged {_short(fresh)}"


def _short(value: Any) -> str:
    return json_bytes(value).decode().split("\n")[0][:60]
