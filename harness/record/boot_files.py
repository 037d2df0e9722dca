# SPDX-License-Identifier: GPL-2.0-only
"""A boot's record on disk: boot.json beside the raw artefacts it vouches for."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.base.files import read_json, write_atomic, write_json, writing
from harness.base.plain import from_plain
from lab.base.digest import canonical, digest_bytes
from lab.base.errors import LabBroken
from lab.base.reading import read_regular
from lab.base.record import BootRecord, Outcome

SCHEMA = 1
NAME = "boot.json"
ARTEFACTS = "out"
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True)
class _Document:
    """boot.json without its checksum."""

    schema: int
    outcome: Outcome
    detail: str
    warnings: tuple[str, ...]
    files: Mapping[str, str]
    digest: str | None
    fingerprint: Mapping[str, str]
    wall: Mapping[str, float]
    virtual: Mapping[str, float]


def save_boot(record: BootRecord) -> None:
    """Write ``out/<file>`` for every measured file, then boot.json, which makes the boot count.

    Raises LabBroken when the folder cannot be written.
    """
    artefacts = record.folder / ARTEFACTS
    with writing(artefacts):
        artefacts.mkdir(parents=True, exist_ok=True)
    for name, data in record.files.items():
        if not _FILE_NAME.fullmatch(name):
            raise LabBroken(f"the guest named a file {name!r}", remedy="report this as a bug of blklab")
        path = artefacts / name
        if not path.is_file() or path.read_bytes() != data:
            write_atomic(path, data)
    body = {
        "schema": SCHEMA,
        "outcome": str(record.outcome),
        "detail": record.detail,
        "warnings": list(record.warnings),
        "files": {name: digest_bytes(data) for name, data in record.files.items()},
        "digest": record.digest,
        "fingerprint": dict(record.fingerprint),
        "wall": dict(record.wall),
        "virtual": dict(record.virtual),
    }
    write_json(record.folder / NAME, {**body, "checksum": digest_bytes(canonical(body))})


def load_boot(folder: Path) -> BootRecord | None:
    """The record of a complete boot; None when boot.json or a file it names is missing, altered or no regular file."""
    body = read_json(folder / NAME)
    if not isinstance(body, dict) or body.get("schema") != SCHEMA:
        return None
    checksum = body.pop("checksum", None)
    if checksum != digest_bytes(canonical(body)):
        return None
    try:
        document = from_plain(_Document, body)
    except ValueError:
        return None
    files = _files(folder / ARTEFACTS, document.files)
    if files is None:
        return None
    return BootRecord(
        folder=folder,
        outcome=document.outcome,
        detail=document.detail,
        warnings=document.warnings,
        files=files,
        digest=document.digest,
        fingerprint=document.fingerprint,
        wall=document.wall,
        virtual=document.virtual,
    )


def _files(artefacts: Path, digests: Mapping[str, str]) -> dict[str, bytes] | None:
    files = {}
    for name, digest in digests.items():
        if not _FILE_NAME.fullmatch(name):
            return None
        try:
            data = read_regular(artefacts / name)
        except OSError:
            return None
        if digest_bytes(data) != digest:
            return None
        files[name] = data
    return files
