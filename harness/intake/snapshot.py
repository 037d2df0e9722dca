# SPDX-License-Identifier: GPL-2.0-only
"""What collect.sh collected: on this machine, or elsewhere, in a tar archive.

The content comes from outside and is not trusted: only regular files of bounded number and size are read.
"""

import os
import re
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PurePosixPath

from lab.base.errors import LabBroken, Misuse
from lab.base.process import run
from lab.base.reading import read_regular
from lab.base.units import printable

SCRIPT = Path(__file__).parent / "collect.sh"
ARCHIVE = "blklab-capture.tar"
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
        names = {path[len(start) :].partition("/")[0] for path in self.files if path.startswith(start)}
        return tuple(sorted(names, key=natural))


def natural(name: str) -> tuple[tuple[int, str], ...]:
    """A key that sorts numbers in names by value, and sdaa after sdz."""
    words = re.findall(r"\d+|\D+", name)
    return tuple((int(word), "") if word.isdigit() else (len(word), word) for word in words)


def collect(root: Path | None, disks: Sequence[str]) -> Snapshot:
    """A snapshot of this machine, or of the folder ``root`` with its ``sys`` and ``proc``. Raises Misuse."""
    if root is not None and not (root / "sys" / "block").is_dir():
        raise Misuse(f"{root} has no folder sys/block", remedy="name a folder with sys and proc, or use --from")
    with tempfile.TemporaryDirectory(prefix="blklab-capture-") as name:
        # The script is given the whole path, so it works wherever it is called.
        env = {**os.environ, "DISKS": " ".join(disks)}
        env["ROOT"] = str(root.absolute()) if root else ""
        try:
            run(("sh", str(SCRIPT)), cwd=Path(name), env=env, timeout=_SECONDS)
        except LabBroken as error:
            message = error.message.partition("collect.sh: ")[2] or error.message
            raise Misuse(message, remedy="with blklab: --disk sda --disk sdb; else see the message") from error
        return read_snapshot(Path(name, ARCHIVE), source=str(root or "this machine"))


def read_snapshot(path: Path, *, source: str = "") -> Snapshot:
    """What collect.sh wrote, or the only folder in it. Raises Misuse."""
    source = source or str(path)
    files: dict[str, str] = {}
    size = 0
    for count, (name, data) in enumerate(_archive(path, source), 1):
        if count > MOST_FILES:
            raise _refusal(source, name, f"is file number {count}, at most {MOST_FILES} are read")
        if data is None:
            continue
        parts = PurePosixPath(name).parts
        if name.startswith("/") or any(part == ".." or not _PART.fullmatch(part) for part in parts):
            raise _refusal(source, name, "has a name that collect.sh does not write")
        size += len(data)
        if size > MOST_BYTES:
            raise _refusal(source, name, f"makes more than {MOST_BYTES >> 20} MiB of files")
        files["/".join(parts)] = printable(data.decode("ascii", "backslashreplace"))
    tops = {file.partition("/")[0] for file in files}
    if "about" not in files and len(tops) == 1:
        files = {file.partition("/")[2]: text for file, text in files.items()}
    if not files.get("about", "").startswith(_FORMAT):
        raise Misuse(f'{source}: its file about does not start with "{_FORMAT}": it is no capture', remedy=_AGAIN)
    return Snapshot(source, files)


def _archive(path: Path, source: str) -> Iterator[tuple[str, bytes | None]]:
    """Names and content of the members of an archive, without content for a folder."""
    try:
        # Not compressed, so that no header of the archive is larger than the archive.
        with tarfile.open(fileobj=BytesIO(read_regular(path, MOST_BYTES)), mode="r:") as archive:
            for member in archive:
                name = member.name.removeprefix("./")
                if not member.isdir() and (not member.isreg() or member.issparse()):
                    raise _refusal(source, name, "is not a regular file")
                if member.isreg() and member.size > MOST_OF_FILE:
                    raise _refusal(source, name, f"is larger than {MOST_OF_FILE >> 20} MiB")
                content = archive.extractfile(member)
                yield name, content.read(MOST_OF_FILE) if content else None
    except OSError as error:
        raise Misuse(f"{path} cannot be read: {error.strerror or error}", remedy="check the path") from error
    except (tarfile.TarError, ValueError) as error:
        remedy = f"remove a compression with gunzip or xz -d, or {_AGAIN}"
        raise Misuse(f"{path} is not a whole tar archive: {error}", remedy=remedy) from error


def _refusal(source: str, name: str, reason: str) -> Misuse:
    shown = name.encode("utf-8", "backslashreplace").decode()
    return Misuse(f"{source}: {printable(shown)[:200]} {reason}", remedy=_AGAIN)
