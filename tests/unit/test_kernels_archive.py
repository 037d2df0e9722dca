# SPDX-License-Identifier: GPL-2.0-only
"""What git reads: a source archive without its being unpacked, a work tree, and a commit that was built before."""

import os
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from lab.base.cache import Cache
from lab.base.errors import LabBroken
from lab.base.units import silent
from lab.kernels import tree
from lab.kernels.git import Checkout
from tests.unit.tree_samples import commit, fake_tools, git, write_source

_IMPORT = """
import sys
from pathlib import Path
from harness.cli import _terminable, Terminated
from lab.base.cache import Cache
from lab.base.units import silent
from lab.kernels.git import Checkout
try:
    with _terminable():
        root, archive = map(Path, sys.argv[1:])
        Cache(root).entry("sources", "x", lambda into: Checkout(into).tree_of_archive(archive, silent))
except Terminated:
    sys.exit(143)
"""


def source(tmp_path: Path) -> Path:
    folder = write_source(tmp_path / "linux-source-6.12")
    # As in Debian's source packages, whose .gitignore leaves out everything but debian/.
    (folder / ".gitignore").write_text("/*\n!/debian/\n")
    (folder / "scripts/kconfig/merge_config.sh").chmod(0o755)
    (folder / 'block/li"nk\\').symlink_to("blk.c")
    (folder / "block/\u00e4 b.h").write_bytes(b"\0\xff\n")
    (folder / "empty").mkdir()
    return folder


def archived(folder: Path) -> Path:
    archive = folder.parent / "source.tar.xz"
    with tarfile.open(archive, "w:xz") as tar:
        tar.add(folder, folder.name)
    return archive


def test_the_tree_of_an_archive_is_that_of_the_folder(tmp_path: Path) -> None:
    folder = source(tmp_path)
    archive = archived(folder)
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    tree = Checkout(tmp_path / "one").tree_of_archive(archive, silent)
    assert tree == Checkout(tmp_path / "two").tree_of_folder(folder)
    packs = [path.suffix for path in (tmp_path / "one/git/objects").rglob("*") if path.is_file()]
    assert {".idx", ".pack"} <= set(packs) <= {".idx", ".pack", ".rev"}, "no loose object"


def test_a_cut_archive_is_named(tmp_path: Path) -> None:
    archive = archived(source(tmp_path))
    archive.write_bytes(archive.read_bytes()[:-40])
    (tmp_path / "one").mkdir()
    with pytest.raises(LabBroken, match=r"source\.tar\.xz cannot be read"):
        Checkout(tmp_path / "one").tree_of_archive(archive, silent)


def test_sigterm_takes_effect_while_an_archive_is_read(tmp_path: Path) -> None:
    data = archived(source(tmp_path)).read_bytes()
    pipe = tmp_path / "slow.tar.xz"
    os.mkfifo(pipe)
    process = subprocess.Popen([sys.executable, "-c", _IMPORT, str(tmp_path / "cache"), str(pipe)])
    with pipe.open("wb") as slow:
        # The reader has opened it, and waits for the rest.
        slow.write(data[: len(data) // 2])
        slow.flush()
        process.send_signal(signal.SIGTERM)
        # The rest never comes: only the signal ends it.
        assert process.wait(timeout=60) == 143
    assert list((tmp_path / "cache/.fill/sources").iterdir()) == []


def test_what_git_tracks_is_source_though_a_gitignore_names_it(tmp_path: Path) -> None:
    """As in a repository that was made from Debian's source package: its Makefile was said to name no version."""
    source = write_source(tmp_path / "linux")
    commit(source, "a source")
    (source / ".gitignore").write_text("/*\n!/debian/\n")
    (source / "block/gone.c").write_text("int gone;\n")
    git(source, "add", "--force", ".gitignore", "block/gone.c")
    (source / "block/gone.c").unlink()
    (source / "block/blk.c").write_text("int second;\n")
    (source / "block/new.o").write_text("ignored")
    folder = tmp_path / "own"
    folder.mkdir()
    own = Checkout(folder, (source / ".git/objects",))
    tree = own.tree_of_folder(source)
    assert own.file(tree, "Makefile") is not None and own.file(tree, "block/blk.c") == "int second;"
    assert own.file(tree, "block/gone.c") is None and own.file(tree, "block/new.o") is None
    (source / ".gitignore").unlink()
    (source / "block/new.o").unlink()
    plain = own.tree_of_folder(source)
    git(source, "update-index", "--split-index")
    assert own.tree_of_folder(source) == plain != tree


@pytest.mark.timeout(60)
def test_a_kernel_of_the_cache_does_not_wait_for_builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_tools(tmp_path, monkeypatch)
    source = write_source(tmp_path / "linux")
    commit(source, "first")
    named, cache = tree.read_source(f"{source}@HEAD", tmp_path / "mutants"), Cache(tmp_path / "cache")
    first, said = tree.built(named, cache), list[str]()
    (workspace,) = (cache.root / "trees").iterdir()
    with cache.workspace("trees", workspace.name):
        again = tree.built(named, cache, tell=said.append)
    assert (again.digest, again.origin, again.build) == (first.digest, first.origin, first.build)
    assert (first.fresh, again.fresh, said) == (True, False, [])
