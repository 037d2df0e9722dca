# SPDX-License-Identifier: GPL-2.0-only
"""Lines of a file while another process appends to it."""

from collections.abc import Iterator
from pathlib import Path

_CHUNK = 1 << 18


class Tail:
    """Follows ``path``, created empty. ``flooded`` turns true when more than ``limit`` bytes were written."""

    def __init__(self, path: Path, limit: int) -> None:
        # Created here, so that nothing from an earlier run in the same folder is read as new.
        path.write_bytes(b"")
        self._file = path.open("rb", buffering=0)
        self._limit = limit
        self._rest = bytearray()
        self.size = 0

    @property
    def flooded(self) -> bool:
        return self.size > self._limit

    def read(self, *, last: bool = False) -> Iterator[str]:
        """Complete lines written since the last call, without line ends; with ``last``, the unfinished one too."""
        while not self.flooded and (chunk := self._file.read(_CHUNK)):
            self.size += len(chunk)
            scanned = len(self._rest)
            self._rest += chunk
            yield from self._complete(scanned)
        if last and self._rest:
            yield _text(self._rest)
            self._rest.clear()

    def close(self) -> None:
        self._file.close()

    def _complete(self, scanned: int) -> Iterator[str]:
        end = self._rest.rfind(b"\n", scanned)
        if end < 0:
            return
        lines = self._rest[:end].split(b"\n")
        del self._rest[: end + 1]
        for line in lines:
            yield _text(line)


def _text(line: bytes | bytearray) -> str:
    return line.decode(errors="replace").rstrip("\r")
