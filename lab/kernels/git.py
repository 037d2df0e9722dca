# SPDX-License-Identifier: GPL-2.0-only
"""Kernel sources as git trees: the content of a folder or commit, patched and checked out elsewhere.

A user's repository is only read: objects that are made here (of a folder's content, of patches) go
into a repository of the lab's own, which borrows the user's objects.
"""

import lzma
import os
import re
import shutil
import stat
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from lab.base.errors import CannotJudge, LabBroken, Misuse
from lab.base.process import BOUND, Finished, progress, run, time_left
from lab.base.reading import real
from lab.base.units import Tell

_INSTALL = "apt-get install git"
_GIT_ENDINGS = (0, 1, 128)
"""Success, refusal, fatal error; with any other status git did not run."""
_SEE_DISK = "see what git says; blklab doctor shows how much space is left"
_LACKS_OBJECTS = re.compile(
    r"(?:unable|failed|cannot) (?:to )?read|not a tree object|not a valid object name|failed to unpack tree object|"
    r"could not get object info|is corrupt|bad object|needed a single revision",
    re.IGNORECASE,
)
# The user's own settings would decide which files are taken and how they are written.
_SETTINGS = {
    "core.compression": "1",
    "core.fsync": "none",
    "core.excludesFile": os.devnull,
    "core.attributesFile": os.devnull,
    "fastimport.unpackLimit": "1",
    "checkout.workers": "0",
    "core.autocrlf": "false",
    "core.fileMode": "true",
    "core.untrackedCache": "false",
    "gc.auto": "0",
    "advice.detachedHead": "false",
}

_VERSION = re.compile(r"^VERSION *= *[0-9]+\nPATCHLEVEL *=", re.MULTILINE)
_HEAD = 4096
"""Of the Makefile; its first lines name the version."""
_IMPORTED = "refs/blklab/imported"
_PRODUCTS = (".config", "vmlinux", "include/config", "include/generated")


def is_repository(folder: Path) -> bool:
    """Whether ``folder`` is the top of a git work tree, or a bare repository."""
    return (folder / ".git").exists() or ((folder / "HEAD").is_file() and (folder / "objects").is_dir())


def build_folders(folder: Path) -> Iterator[Path]:
    """Where a kernel is built that is worked on in ``folder``: KBUILD_OUTPUT, the folder of objects (``make O=``) that
    this is, the top of the tree."""
    if named := os.environ.get("KBUILD_OUTPUT"):
        yield Path(named).absolute()
    if objects := _folder_of_objects(real(folder)):
        yield objects
    if top := kernel_tree(folder):
        yield top


def _folder_of_objects(folder: Path) -> Path | None:
    return next((parent for parent in (folder, *folder.parents) if (parent / "source/Kbuild").is_file()), None)


def kernel_tree(folder: Path) -> Path | None:
    """The top of the git work tree of a kernel that ``folder`` is in, or that is built there; None outside of one."""
    folder = real(folder)
    objects = _folder_of_objects(folder)
    parents = (real(objects / "source"),) if objects else (folder, *folder.parents)
    top = next((parent for parent in parents if (parent / ".git").exists()), None)
    makefile = top / "Makefile" if top else None
    if makefile is None or not makefile.is_file():
        return None
    with makefile.open(errors="replace") as file:
        return top if _VERSION.search(file.read(_HEAD)) else None


def commit_of(folder: Path, revision: str) -> str:
    """The full hash of ``revision``. Raises Misuse when the repository has no such commit."""
    if revision.startswith("-"):
        raise Misuse(f'"{revision}" is not a revision', remedy="name a commit, a tag or a branch")
    done = run(
        ["git", "-C", str(folder), "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}"],
        accept=(0, 1, 128),
        hint=_INSTALL,
    )
    if done.returncode:
        words = done.stderr.decode(errors="replace").strip()
        raise Misuse(f"{folder} has no commit {revision}" + (f"\n{words}" if words else ""), remedy="see git log there")
    return done.stdout.decode().strip()


def tree_and_makefile(folder: Path, revision: str) -> tuple[str, str]:
    """The id of the tree of ``revision`` in the repository at ``folder``, and the text of its Makefile."""
    words = (("rev-parse", "--verify", f"{revision}^{{tree}}"), ("cat-file", "blob", f"{revision}:Makefile"))
    tree, makefile = (run(["git", "-C", str(folder), *each], accept=(0, 128), hint=_INSTALL).stdout for each in words)
    return tree.decode().strip(), makefile.decode(errors="replace")


def objects_of(folder: Path) -> Path:
    """Where the repository at ``folder`` keeps its objects (shared by its linked worktrees)."""
    said = run(["git", "-C", str(folder), "rev-parse", "--git-path", "objects"], hint=_INSTALL).stdout.decode().strip()
    return real(folder / said)


def lender_of(objects: Path) -> Path:
    """The store that the others along the chain of (first) alternates borrow from; itself when it borrows nothing."""
    seen = [objects]
    while (alternates := seen[-1] / "info" / "alternates").is_file():
        named = next((line for line in alternates.read_text().splitlines() if line and not line.startswith("#")), "")
        lender = real(seen[-1] / named)
        if not named or lender in seen:
            break
        seen.append(lender)
    return seen[-1]


class Checkout:
    """A lab-owned repository in ``folder`` with one work tree, ``folder``/src, to one user at a time.

    ``borrowed`` are object stores of other repositories, which are read and never written.
    """

    def __init__(self, folder: Path, borrowed: Sequence[Path] = ()) -> None:
        self.source = folder / "src"
        self._git = folder / "git"
        self._borrowed = borrowed
        if not (self._git / "HEAD").is_file():
            run(["git", "init", "-q", "--bare", str(self._git)], hint=_INSTALL)
        self.source.mkdir(exist_ok=True)
        # The folder has one user, so a lock is the remains of a killed process.
        for stale in self._git.glob("*.lock"):
            stale.unlink()

    def tree_of_folder(self, folder: Path) -> str:
        """The id of the content of ``folder``; of a git work tree what git tracks, and what no .gitignore leaves out.

        Raises Misuse for an unpacked source in which a kernel was built: its products are no source.
        """
        if is_repository(folder):
            self._copy_index(folder)
            self._run("add", "--all", ".", index="import", work_tree=folder)
            return self._run("write-tree", index="import")
        products = [name for name in _PRODUCTS if (folder / name).exists()]
        if products:
            raise Misuse(f"{folder} holds products of a build: {', '.join(products)}", remedy="make mrproper there")
        # Debian's .gitignore leaves the source itself out.
        self._run("add", "--all", "--force", ".", index="import", work_tree=folder)
        return self._run("write-tree", index="import")

    def _copy_index(self, folder: Path) -> None:
        """Start from the index that git has there: with the time stamps of what it knows, and what it tracks though
        a .gitignore names it. Not from one in two files (core.splitIndex), nor from none.
        """
        own = self._git / "import"
        own.unlink(missing_ok=True)
        named = run(["git", "-C", str(folder), "rev-parse", "--git-path", "index"], hint=_INSTALL).stdout.decode()
        index = folder / named.strip()
        if index.is_file() and not any(index.parent.glob("sharedindex.*")):
            shutil.copyfile(index, own)

    def tree_of_archive(self, archive: Path, tell: Tell) -> str:
        """The id of the content of a tar.xz file, less the folder in which everything is.

        Nothing is unpacked: git reads the files from the archive into one pack, which an interrupt leaves at once.
        """
        size = archive.stat().st_size
        words = ("fast-import", "--quiet", "--force", "--depth=0")
        try:
            with archive.open("rb") as file:

                def line(seconds: float) -> str:
                    done = file.tell()
                    return f"{archive.name}: {done / 1e6:.0f} of {size / 1e6:.0f} MB{time_left(done, size, seconds)}"

                with progress(tell, line):
                    self._git_command(words, stdin=_import_stream(file))
        except (tarfile.TarError, lzma.LZMAError, EOFError, ValueError) as error:
            raise LabBroken(f"{archive} cannot be read: {error}", remedy="fetch it again") from error
        return self.tree_of_commit(_IMPORTED)

    def tree_of_commit(self, commit: str) -> str:
        return self._run("rev-parse", "--verify", f"{commit}^{{tree}}")

    def patched(self, tree: str, patch: Path) -> str:
        """The id of ``tree`` with ``patch`` applied. Raises CannotJudge when it does not apply."""
        self._run("read-tree", tree, index="patch")
        words = ("apply", "--cached", "--whitespace=nowarn", str(real(patch)))
        done = self._git_command(words, index="patch", accept=(0, 1))
        if done.returncode:
            raise CannotJudge(
                f"{patch.name} does not apply to this source:\n{done.stderr.decode(errors='replace').strip()}",
                remedy="write it for this version, or narrow the range of kernels that it names",
            )
        return self._run("write-tree", index="patch")

    def file(self, tree: str, path: str) -> str | None:
        """The text of a file of ``tree``, None when it has no such file."""
        listed = self._run("ls-tree", "--name-only", tree, "--", path)
        return self._run("cat-file", "blob", f"{tree}:{path}") if listed else None

    def differing(self, old: str, new: str) -> list[str]:
        """The paths of files that differ between two trees."""
        return self._run("diff-tree", "-r", "--name-only", "--no-renames", "-z", old, new).rstrip("\0").split("\0")

    def check_out(self, tree: str) -> None:
        """Make ``source`` hold exactly ``tree``; files that are the same already keep their time stamps."""
        whole = self._git / "whole"
        clean = whole.exists()
        whole.unlink(missing_ok=True)
        self._run("read-tree", "--reset", "-u", tree, index="index", work_tree=self.source)
        if not clean:
            # A checkout that was killed may have left files that its tree does not have.
            self._run("clean", "-ffdxq", index="index", work_tree=self.source)
        whole.touch()

    def _run(self, *words: str, index: str = "", work_tree: Path | None = None) -> str:
        return self._git_command(words, index, work_tree).stdout.decode(errors="replace").strip()

    def _git_command(
        self,
        words: Sequence[str],
        index: str = "",
        work_tree: Path | None = None,
        accept: Sequence[int] = (0,),
        stdin: Iterable[bytes] | None = None,
    ) -> Finished:
        settings = [word for name, value in _SETTINGS.items() for word in ("-c", f"{name}={value}")]
        done = run(
            [*BOUND, "git", *settings, *words],
            cwd=work_tree or self._git,
            env=self._environment(index, work_tree),
            stdin=stdin,
            accept=_GIT_ENDINGS,
            hint=_INSTALL,
        )
        said = done.stderr.decode(errors="replace").strip()
        if done.returncode and _LACKS_OBJECTS.search(said):
            stores = ", ".join(map(str, self._borrowed or [self._git]))
            raise LabBroken(
                f"git objects are missing or damaged in {stores}: {said}",
                remedy="run git fsck there; a shallow or partial clone has to fetch what it lacks",
            )
        if done.returncode not in accept:
            raise LabBroken(f"git {' '.join(words)} failed ({done.returncode}): {said}", remedy=_SEE_DISK)
        return done

    def _environment(self, index: str, work_tree: Path | None) -> dict[str, str]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        environment |= {"GIT_DIR": str(self._git), "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
        environment["LC_ALL"] = "C"
        if self._borrowed:
            environment["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = os.pathsep.join(map(str, self._borrowed))
        if index:
            environment["GIT_INDEX_FILE"] = str(self._git / index)
        if work_tree is not None:
            environment["GIT_WORK_TREE"] = str(work_tree)
        return environment


def _import_stream(file: BinaryIO) -> Iterator[bytes]:
    """What git fast-import reads for a commit with the files of a tar.xz archive."""
    yield f"commit {_IMPORTED}\ncommitter blklab <> 0 +0000\ndata 0\n".encode()
    with lzma.open(file) as plain, tarfile.open(fileobj=plain, mode="r|") as members:
        for member in members:
            name = member.name.partition("/")[2]
            if member.isdir() or not name:
                continue
            if member.issym():
                mode, data = "120000", os.fsencode(member.linkname)
            elif member.isfile() and (content := members.extractfile(member)) is not None:
                mode, data = ("100755" if member.mode & stat.S_IXUSR else "100644"), content.read()
            else:
                raise ValueError(f"{member.name} is neither a file nor a symlink")
            quoted = re.sub(r'([\\"])', r"\\\1", name).replace("\n", r"\n")
            yield f'M {mode} inline "{quoted}"\ndata {len(data)}\n'.encode(errors="surrogateescape") + data + b"\n"
