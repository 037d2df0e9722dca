# SPDX-License-Identifier: GPL-2.0-only
"""The digest of measured results, and of the inputs behind them; defined here and nowhere else."""

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from lab.base.reading import open_regular
from lab.base.record import LINE_NAMES

WORDS: Mapping[str, bool] = {"words": True}
"""Metadata of a dataclass field that is text for readers: it changes nothing that is measured or judged."""
UNMEASURED = frozenset({"kmsg", LINE_NAMES})
"""Files of a boot that are evidence about it, not results of it."""
_known: dict[tuple[int, int, int, int], str] = {}


def digest_bytes(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def digest_file(path: Path) -> str:
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def known_digest(path: Path) -> str:
    """As ``digest_file``, but a file that does not change is read once per process. Raises OSError."""
    facts = path.stat()
    # Renaming a folder leaves its files' inodes alone, and nothing can set ctime back.
    key = (facts.st_dev, facts.st_ino, facts.st_ctime_ns, facts.st_size)
    if key not in _known:
        _known[key] = digest_file(path)
    return _known[key]


def digest_folder(folder: Path) -> str:
    """sha256 over the names and contents of its files, at any depth, but for Python's compiled ones. Raises OSError."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return digest_bytes("".join(f"{path.relative_to(folder)}\0{digest_file(path)}\n" for path in files).encode())


def canonical(value: Any) -> bytes:
    """JSON with sorted keys and no insignificant white space, as UTF-8."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def digest_results(files: Mapping[str, bytes]) -> str:
    """sha256 over the canonical JSON of every measured file: JSON files by value, others by text."""
    return digest_bytes(canonical({name: _content(name, files[name]) for name in files if name not in UNMEASURED}))


def _content(name: str, data: bytes) -> Any:
    if name.endswith(".json"):
        # A file that fio left half written, or with NaN in it, is still part of what was measured.
        with suppress(ValueError, RecursionError):
            value = json.loads(data)
            canonical(value)
            return value
    return data.decode("utf-8", "replace")
