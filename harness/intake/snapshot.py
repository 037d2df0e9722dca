# SPDX-License-Identifier: GPL-2.0-only
"""What collect.sh collected: from this machine, from a folder or from a tar archive made elsewhere.

The content comes from outside and is not trusted: only regular files of bounded number and size are read.
"""

import os
import re
import stat
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PurePosixPath

from lab.base.errors import LabBroken, Misuse, no_such_folder
from lab.base.process import run
from lab.base.reading import read_regular
from lab.base.units import printable

SCRIPT = Path(__file__).parent / "collect.sh"
MOST_FILES = 100_000
MOST_BYTES = 64 << 20
MOST_OF_FILE = 1 << 20
_FORMAT = "format 1"
_SECONDS = 300.0
_LONGEST_LINE = 200
_PART = re.compile(r"[A-Za-z0-9._:!-]{1,80}")
_AGAIN = "make it again: blklab capture --script >collect.sh; sh collect.sh"


@dataclass(frozen=True)
class Snapshot:
    """Files of a capture by their path, such as ``block/sda/queue/scheduler``. ``source`` names it in messages."""

    source: str
    files: Mapping[str, str]

    def text(self, path: str) -> str:
        """The content without surrounding space; empty for a file that was not collected."""
        return self.files.get(path, "").strip()

    def line(self, path: str) -> str:
        """The first line of an attribute, empty if it is longer than attributes are."""
        first = self.text(path).partition("\n")[0]
        return first if len(first) <= _LONGEST_LINE else ""

    def number(self, path: str) -> int | None:
        """The content as an integer; None for anything else."""
        text = self.text(path)
        return int(text) if re.fullmatch(r"-?[0-9]{1,19}", text) else None

    def rows(self, path: str) -> Iterator[list[str]]:
        """The lines of a file, each as the words between its tabs."""
        return (line.split("\t") for line in self.text(path).splitlines())

    def below(self, folder: str) -> tuple[str, ...]:
        """The names directly below a folder, in natural order: nvme2 before nvme10."""
        start = f"{folder}/"
        found = {path[len(start) :].partition("/")[0] for path in self.files if path.startswith(start)}
        return tuple(sorted(found, key=natural))


def natural(name: str) -> tuple[tuple[int, str], ...]:
    """A key that sorts numbers in names by value, and sdaa after sdz."""
    words = re.findall(r"\d+|\D+", name)
    return tuple((int(word), "") if word.isdigit() else (len(word), word) for word in words)


def collected(root: Path | None, disks: Sequence[str], *, identities: bool) -> Snapshot:
    """A snapshot of this machine, or of the folder ``root`` with its ``sys`` and ``proc``. Raises Misuse."""
    if root is not None and not (root / "sys" / "block").is_dir():
        raise Misuse(f"{root} has no folder sys/block", remedy="name a folder with sys and proc, or use --from")
    with tempfile.TemporaryDirectory(prefix="blklab-capture-") as name:
        # The script is given the whole path, so it works wherever it is called.
        env = {**os.environ, "IDENTITIES": str(int(identities)), "DISKS": " ".join(disks)}
        env["ROOT"] = str(root.absolute()) if root else ""
        try:
            run(("sh", str(SCRIPT), "--folder", name), env=env, timeout=_SECONDS)
        except LabBroken as error:
            said = error.message.partition("collect.sh: ")[2] or error.message
            raise Misuse(said, remedy="with blklab: --disk sda --disk sdb; else see the message") from error
        return read_folder(Path(name), shown=str(root or "this machine"))


def opened(path: Path) -> Snapshot:
    """A snapshot made elsewhere: a folder, or an archive of one. Raises Misuse."""
    return read_folder(path, shown=str(path)) if path.is_dir() else _read_archive(path)


def read_folder(folder: Path, *, shown: str) -> Snapshot:
    """The files of a folder that collect.sh wrote, or of the only folder in it. Raises Misuse."""
    if not folder.is_dir():
        raise no_such_folder(folder, "capture")
    found = _Found(shown)
    for path in _walk(folder, found):
        inside = str(path.relative_to(folder))
        try:
            found.add(inside, read_regular(path, MOST_OF_FILE))
        except OSError as error:
            raise Misuse(f"{shown}: {inside}: {error.strerror}", remedy=_AGAIN) from error
    return found.snapshot()


def _walk(folder: Path, found: "_Found") -> Iterator[Path]:
    """Regular files below a folder, without following links."""
    todo = [folder]
    while todo:
        for entry in sorted(os.scandir(todo.pop()), key=lambda entry: entry.name):
            mode = entry.stat(follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                todo.append(Path(entry.path))
            elif stat.S_ISREG(mode):
                yield Path(entry.path)
            else:
                found.refuse(str(Path(entry.path).relative_to(folder)), "is not a regular file")


def _read_archive(path: Path) -> Snapshot:
    found = _Found(str(path))
    try:
        # Not compressed, so that no header of the archive is larger than the archive.
        with tarfile.open(fileobj=BytesIO(read_regular(path, MOST_BYTES)), mode="r:") as archive:
            for member in archive:
                _read_member(archive, member, found)
    except OSError as error:
        raise Misuse(f"{path} cannot be read: {error.strerror or error}", remedy="check the path") from error
    except (tarfile.TarError, ValueError) as error:
        remedy = f"remove a compression with gunzip or xz -d, or {_AGAIN}"
        raise Misuse(f"{path} is not a whole tar archive: {error}", remedy=remedy) from error
    return found.snapshot()


def _read_member(archive: tarfile.TarFile, member: tarfile.TarInfo, found: "_Found") -> None:
    name = member.name.removeprefix("./")
    if member.isdir():
        found.count(name)
        return
    if not member.isreg() or member.issparse():
        found.refuse(name, "is not a regular file")
    if member.size > MOST_OF_FILE:
        found.refuse(name, f"is larger than {MOST_OF_FILE >> 20} MiB")
    content = archive.extractfile(member)
    found.add(name, content.read(MOST_OF_FILE) if content else b"")


class _Found:
    """Files as they are found, until there are too many of them."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._files: dict[str, str] = {}
        self._count = self._bytes = 0

    def count(self, name: str) -> None:
        self._count += 1
        if self._count > MOST_FILES:
            self.refuse(name, f"is file number {self._count}, at most {MOST_FILES} are read")

    def add(self, name: str, data: bytes) -> None:
        self.count(name)
        parts = PurePosixPath(name).parts
        if name.startswith("/") or any(part == ".." or not _PART.fullmatch(part) for part in parts):
            self.refuse(name, "has a name that collect.sh does not write")
        self._bytes += len(data)
        if self._bytes > MOST_BYTES:
            self.refuse(name, f"makes more than {MOST_BYTES >> 20} MiB of files")
        self._files["/".join(parts)] = printable(data.decode("ascii", "backslashreplace"))

    def refuse(self, name: str, reason: str) -> None:
        shown = name.encode("utf-8", "backslashreplace").decode()
        raise Misuse(f"{self._source}: {printable(shown)[:200]} {reason}", remedy=_AGAIN)

    def snapshot(self) -> Snapshot:
        """Raises Misuse for files that are no capture."""
        tops = {path.partition("/")[0] for path in self._files}
        if "about" not in self._files and len(tops) == 1:
            start = f"{tops.pop()}/"
            self._files = {path.removeprefix(start): text for path, text in self._files.items()}
        if not self._files.get("about", "").startswith(_FORMAT):
            message = f'{self._source}: its file about does not start with "{_FORMAT}": it is no capture'
            raise Misuse(message, remedy=_AGAIN)
        return Snapshot(self._source, self._files)
