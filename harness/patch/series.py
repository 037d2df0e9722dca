# SPDX-License-Identifier: GPL-2.0-only
"""Patches from an mbox or a folder, applied as commits on a base, without a work tree."""

import email
import email.policy
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from email.errors import MessageError
from email.message import EmailMessage
from itertools import accumulate
from pathlib import Path

from harness.bisect.repository import Repository
from harness.patch.sources import Sources
from lab.base.digest import canonical, digest_bytes
from lab.base.errors import CannotJudge, Misuse
from lab.base.process import Finished, run
from lab.base.reading import LIMIT, real
from lab.base.units import printable, shortened
from lab.kernels import mutants
from lab.kernels.model import Release
from lab.kernels.mutants import mutation
from lab.kernels.tree import KernelSource
from lab.yaml.strict import names, read_bytes

_FROM = re.compile(rb"^From \S+ .*[0-9][0-9]:[0-9][0-9]:[0-9][0-9] [0-9]{4}$", re.MULTILINE)
_DIFF = re.compile(r"^(?:diff --git |--- (?:a/|/dev/null))", re.MULTILINE)
_NUMBERED = re.compile(r"\[[^\]]*?([0-9]+)/([0-9]+)\]")
_PREFIX = re.compile(r"^(?:\s*\[[^\]]*\])*\s*")
_HUNK = re.compile(r"^@@ -([0-9]+)(?:,[0-9]+)? \+([0-9]+)")
_FAILED = re.compile(r"error: patch failed: (?P<file>.+):(?P<line>[0-9]+)")
_ABSENT = re.compile(r"error: (?P<file>\S+): (?:does not exist in index|already exists in index)")
_CORRUPT = re.compile(r"(?:corrupt patch at|patch fragment without header at) line (?P<line>[0-9]+)")
_STDIN = Path("-")
_MESSAGE_ID = re.compile(r"<?(?P<id>[^\s<>/@{}]+@[^\s<>/@{}]+)>?")
_WITHOUT_B4 = "pipx install b4 where it is missing, or save the mails as a file and name it"
_MOST, _MOST_MAILS = 500, 10_000
_WHEN = "1700000000 +0000"
"""A commit of the same content has the same id each time, so earlier runs are found."""


@dataclass(frozen=True)
class Patch:
    """``line`` is where ``text`` begins in ``file``, 0 where a mail encodes it, so that lines have no counterpart."""

    file: Path
    line: int
    text: str = field(repr=False)
    subject: str
    author: str = ""
    message_id: str = ""

    def place(self, offset: int) -> str:
        """``file:line`` of a line of the text, which counts from 1."""
        return f"{self.file}:{self.line + offset - 1}" if self.line else f"{self.file} (line {offset} of its patch)"

    def place_of(self, file: str, number: int) -> str:
        """``file:line`` here of a line of the patched ``file``; empty if the patch does not have it."""
        inside, line = False, 0
        for offset, text in enumerate(self.text.splitlines(), start=1):
            if text.startswith("+++ "):
                inside = text[4:].split("\t")[0].endswith(f"/{file}")
            elif hunk := _HUNK.match(text):
                line = int(hunk[2])
            elif inside and line and text[:1] in ("+", " "):
                if line == number:
                    return self.place(offset)
                line += 1
        return ""

    @property
    def diff(self) -> str:
        """The text without the words of its mail."""
        begins = _DIFF.search(self.text)
        return self.text[begins.start() :] if begins else ""

    @property
    def title(self) -> str:
        return _PREFIX.sub("", self.subject)


def read_series(*paths: Path, optional: bool = False) -> tuple[Patch, ...]:
    """The patches of files (mbox, mail or diff; ``-`` is standard input), of a folder's *.patch, *.diff, *.mbox and
    *.eml, or of the thread of a Message-ID, which b4 fetches, in their order.

    Mails without a diff, such as a cover letter, are left out. Raises Misuse where there is no patch, unless
    ``optional``.
    """
    patches = [patch for path in paths for file in _files(path) for patch in _patches(file)]
    named = names("standard input" if path == _STDIN else str(path) for path in paths)
    if not patches and not optional:
        raise Misuse(f"{named} has no patch", remedy="name an mbox, or the folder of git format-patch")
    if len(patches) > _MOST:
        raise Misuse(f"{named} has {len(patches)} patches, more than {_MOST}", remedy="name a part of them")
    return tuple(_in_order(patches))


def _files(path: Path) -> Sequence[Path]:
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.iterdir() if file.suffix in (".patch", ".diff", ".mbox", ".eml"))


def _in_order(patches: Sequence[Patch]) -> list[Patch]:
    """By [PATCH 2/3] where every patch has such a number and none twice, as mails of a thread are in no order."""
    numbers = [_NUMBERED.search(patch.subject) for patch in patches]
    keys = [int(match[1]) for match in numbers if match]
    if len(set(keys)) != len(patches):
        return list(patches)
    return [patch for _, patch in sorted(zip(keys, patches, strict=True), key=lambda pair: pair[0])]


def _patches(file: Path) -> Iterator[Patch]:
    if file == _STDIN:
        file, data = Path("standard input"), sys.stdin.buffer.read(LIMIT + 1)
        if len(data) > LIMIT:
            raise Misuse(f"{file} has more than {LIMIT >> 20} MiB", remedy="name a part of the series")
    elif not file.exists() and (message_id := _message_id(file)):
        data = run(["b4", "am", "-o-", message_id], hint=_WITHOUT_B4).stdout
    else:
        data = read_bytes(file, "patch", LIMIT)
    starts = [match.start() for match in _FROM.finditer(data)] or [0]
    if len(starts) > _MOST_MAILS:
        raise Misuse(f"{file} has {len(starts)} mails, more than {_MOST_MAILS}", remedy="name a part of them")
    line = data.count(b"\n", 0, starts[0]) + 1
    for start, end in zip(starts, [*starts[1:], len(data)], strict=True):
        patch = _patch(file, line, data[start:end])
        if _DIFF.search(patch.text):
            yield patch
        line += data.count(b"\n", start, end)


def _message_id(path: Path) -> str:
    """The Message-ID that was named by itself or in an address of the web; empty for another path."""
    parts = path.parts if len(path.parts) == 1 or path.parts[:1] in (("http:",), ("https:",)) else ()
    return next((match["id"] for part in parts if (match := _MESSAGE_ID.fullmatch(part))), "")


def _patch(file: Path, line: int, data: bytes) -> Patch:
    """Raises Misuse for a mail that Python's parser cannot read; what it raises then depends on its version."""
    try:
        return _read_mail(file, line, data)
    except (AttributeError, LookupError, MessageError, RecursionError, TypeError, ValueError) as error:
        what = str(error) or type(error).__name__
        raise Misuse(f"{file}:{line}: this is no mail ({what})", remedy="keep its diff alone") from error


def _read_mail(file: Path, line: int, data: bytes) -> Patch:
    mail = email.message_from_bytes(data, policy=email.policy.default)
    plain = not mail.is_multipart() and mail.get("Content-Transfer-Encoding", "8bit").lower() in ("7bit", "8bit")
    if plain or not isinstance(mail, EmailMessage):
        text, first = data.decode(errors="surrogateescape"), line
    else:
        body = mail.get_body(("plain",))
        raw = body.get_payload(decode=True) if body else b""
        text, first = (raw if isinstance(raw, bytes) else b"").decode(errors="surrogateescape"), 0
    subject = shortened(printable(" ".join(str(mail.get("Subject", "")).split()) or file.stem))
    return Patch(file, first, text, subject, str(mail.get("From", "")), str(mail.get("Message-ID", "")).strip())


def branch_folder(results: Path, source: KernelSource) -> Path:
    return results / "series" / digest_bytes(canonical([source.spec, str(source.path)]))[:12]


class Branch:
    """Commits on the base ``source`` in the bare repository ``folder``/clone.git, which borrows the tree's objects."""

    def __init__(self, source: KernelSource, folder: Path) -> None:
        if not source.revision and not source.git_tree:
            raise Misuse(f"{source.spec} has no revision", remedy="--base TREE@REV, or source:6.12")
        folder.mkdir(parents=True, exist_ok=True)
        self._repository = Repository(source.path, real(folder) / "clone.git")
        self.folder = self._repository.folder
        self.base, self.debug = self._base(source), source.debug

    def _base(self, source: KernelSource) -> str:
        commit = self._repository.resolve(source.revision) if source.revision else ""
        base = commit or self._repository.committed(source.git_tree, source.title, _WHEN)
        if not source.mutant:
            return base
        release = Release.parse(Sources(self.folder, base, base).series())
        change = mutation(source.mutant, release, mutants.catalogue()).patch
        return self.applied(_patch(change, 1, change.read_bytes()), base)

    def applied(self, patch: Patch, onto: str) -> str:
        """A commit with the patch on ``onto``. Raises CannotJudge, with the patch's line, when it does not apply."""
        index = {"GIT_INDEX_FILE": str(self.folder / "patch.index")}
        self._repository.git("read-tree", onto, extra=index)
        text = patch.text.encode(errors="surrogateescape")

        def apply(*words: str) -> Finished:
            told = ("apply", "--cached", "--whitespace=nowarn", *words, "-")
            return self._repository.git(*told, extra={**index, "LC_ALL": "C"}, stdin=text, accept=(0, 1, 128))

        done = apply()
        if done.returncode and not apply("--check", "--reverse").returncode:
            what = f"{patch.place(1)}: {patch.title} is already applied in {onto[:12]}"
            raise CannotJudge(what, remedy="name a base without it")
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip()
            raise CannotJudge(
                f"{_where(patch, said)}: {patch.title} does not apply to {onto[:12]}\n{said}",
                remedy="name the base that the series was made for, or rebase it",
            )
        tree = self._repository.text("write-tree", extra=index).strip()
        return self._repository.committed(tree, patch.title, _WHEN, onto)

    def diff(self, old: str, new: str) -> str:
        return self._repository.text("diff", "--no-renames", "--no-ext-diff", old, new)

    def with_all(self, series: Sequence[Patch]) -> tuple[str, ...]:
        """The commits of the patches in their order, each on the one before. Raises what ``applied`` raises."""
        return tuple(accumulate(series, lambda onto, patch: self.applied(patch, onto), initial=self.base))[1:]


def _where(patch: Patch, said: str) -> str:
    """The line of the patch that git refuses."""
    lines = patch.text.splitlines()
    if match := _CORRUPT.search(said):
        return patch.place(min(int(match["line"]), len(lines)))
    match = _FAILED.search(said) or _ABSENT.search(said)
    file, wanted = (match["file"], match.groupdict().get("line")) if match else ("", None)
    inside = False
    for number, line in enumerate(lines, start=1):
        if line.startswith(("--- ", "+++ ")):
            inside = inside if line.startswith("+++ ") and inside else line[4:].split("\t")[0].endswith(f"/{file}")
            if inside and wanted is None:
                return patch.place(number)
        hunk = _HUNK.match(line)
        if inside and hunk and hunk[1] == wanted:
            return patch.place(number)
    return patch.place(1)
