# SPDX-License-Identifier: GPL-2.0-only
"""A boot's record on disk: boot.json, with checksums of the raw artefacts in the same folder."""

import re
from pathlib import Path
from typing import Any

from harness.base.files import read_json, write_atomic, write_json, writing
from lab.base.digest import canonical, digest_bytes
from lab.base.errors import LabBroken
from lab.base.record import BootRecord, Outcome

SCHEMA = 1
NAME = "boot.json"
ARTEFACTS = "out"
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def save_boot(record: BootRecord) -> None:
    """Write ``out/<file>`` for every measured file, then boot.json, which makes the record valid.

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
    """The record of a boot; None when boot.json or a file that it lists is missing or altered."""
    body = read_json(folder / NAME)
    if not isinstance(body, dict) or body.get("schema") != SCHEMA:
        return None
    checksum = body.pop("checksum", None)
    if checksum != digest_bytes(canonical(body)):
        return None
    files = _files(folder / ARTEFACTS, body["files"])
    if files is None:
        return None
    return BootRecord(
        folder=folder,
        outcome=Outcome(body["outcome"]),
        detail=body["detail"],
        warnings=tuple(body["warnings"]),
        files=files,
        digest=body["digest"],
        fingerprint=body["fingerprint"],
        wall=body["wall"],
        virtual=body["virtual"],
    )


def _files(artefacts: Path, digests: dict[str, Any]) -> dict[str, bytes] | None:
    files = {}
    for name, digest in digests.items():
        try:
            data = (artefacts / name).read_bytes()
        except OSError:
            return None
        if digest_bytes(data) != digest:
            return None
        files[name] = data
    return files
