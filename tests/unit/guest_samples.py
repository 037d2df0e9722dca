# SPDX-License-Identifier: GPL-2.0-only
"""What a guest that does everything right sends, line by line."""

import base64
import hashlib
from collections.abc import Mapping

FILES = {
    "readback": b"queue.scheduler[p0]\t/sys/x\tnone\n",
    "solo.json": b'{"a": 1}',
    "kmsg": b"blklab: ready\nquiet\n",
}
GREETING = ("BLKLAB 2", "READY 6.1.0-50-amd64 0.83")
PHASES = ("PHASE 1.10 rest", "PHASE 66.12 load solo")


def file_lines(name: str, data: bytes) -> tuple[str, ...]:
    """A file as busybox's base64 writes it: lines of 76."""
    encoded = base64.b64encode(data).decode()
    rows = (encoded[at : at + 76] for at in range(0, len(encoded), 76))
    return (f"FILE {name} {len(data)} {hashlib.sha256(data).hexdigest()}", *rows)


def sent(files: Mapping[str, bytes]) -> tuple[str, ...]:
    rows = (line for name, data in files.items() for line in file_lines(name, data))
    return ("PHASE 70.5 send", *rows, f"END {len(files)} 71.25")


def transcript(files: Mapping[str, bytes] = FILES) -> list[str]:
    return [*GREETING, *PHASES, *sent(files), "BYE"]
