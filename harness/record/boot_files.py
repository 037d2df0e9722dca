# SPDX-License-Identifier: GPL-2.0-only
"""A boot's record on disk: boot.json, with checksums of the raw artefacts in the same folder."""

import re
from dataclasses import fields, replace
from pathlib import Path

from harness.base.files import read_json, write_atomic, write_json, writing
from harness.base.plain import from_plain, to_plain
from lab.base.digest import canonical, digest_bytes
from lab.base.errors import LabBroken
from lab.base.reading import read_regular
from lab.base.record import BootRecord

SCHEMA = 1
NAME = "boot.json"
ARTEFACTS = "out"
_OWN = ("folder", "files")
"""Fields of a record that boot.json does not have as they are: instead of files, it names their digests."""
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
    digests = {name: digest_bytes(data) for name, data in record.files.items()}
    body = {field.name: to_plain(getattr(record, field.name)) for field in fields(BootRecord) if field.name not in _OWN}
    body |= {"schema": SCHEMA, "files": digests}
    write_json(record.folder / NAME, {**body, "checksum": digest_bytes(canonical(body))})


class Damaged(Exception):
    """A file of a boot is missing, or is not the one that was written."""

    def __init__(self, file: str, what: str) -> None:
        super().__init__(f"{file}: {what}")
        self.file = file
        self.what = what


def load_boot(folder: Path) -> BootRecord | None:
    """The record of a boot; None when boot.json or a file that it lists is missing or altered."""
    try:
        return read_boot(folder)
    except Damaged:
        return None


def read_boot(folder: Path) -> BootRecord:
    """The record of a complete boot. Raises Damaged."""
    body = read_json(folder / NAME)
    if not isinstance(body, dict):
        raise Damaged(NAME, "is missing or is not complete JSON")
    if body.get("schema") != SCHEMA:
        raise Damaged(NAME, f"has schema {body.get('schema')}; this version reads {SCHEMA}")
    checksum, found = body.pop("checksum", None), digest_bytes(canonical(body))
    if checksum != found:
        raise Damaged(NAME, f"checksum is {found[:12]}, the file names {str(checksum)[:12]}")
    try:
        digests = from_plain(dict[str, str], body.pop("files", None))
        del body["schema"]
        record = from_plain(BootRecord, {**body, "folder": str(folder), "files": {}})
    except ValueError as error:
        raise Damaged(NAME, str(error)) from error
    return replace(record, files={name: _file(folder / ARTEFACTS, name, sha) for name, sha in digests.items()})


def _file(artefacts: Path, name: str, digest: str) -> bytes:
    shown = f"{ARTEFACTS}/{name}"
    if not _FILE_NAME.fullmatch(name):
        raise Damaged(NAME, f"names a file {name[:64]!r}, which no guest can send")
    try:
        data = read_regular(artefacts / name)
    except FileNotFoundError as error:
        raise Damaged(shown, "is missing") from error
    except OSError as error:
        raise Damaged(shown, f"cannot be read: {error.strerror}") from error
    found = digest_bytes(data)
    if found != digest:
        raise Damaged(shown, f"checksum is {found[:12]}, {NAME} names {digest[:12]}")
    return data
