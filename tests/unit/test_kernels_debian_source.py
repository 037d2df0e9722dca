# SPDX-License-Identifier: GPL-2.0-only
"""Kernels of a packaged source (out of an archive made on the spot), mutants of it, and mainline's downloader."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.base.cache import Cache
from lab.base.errors import BlklabError, CannotJudge, LabBroken
from lab.base.host import Need
from lab.kernels import build, mutants, tree
from lab.kernels.model import Release
from lab.kernels.resolve import resolve
from tests.unit.kernel_samples import Repository, install_kernel, needs_apt, needs_depmod
from tests.unit.tree_samples import commit, fake_tools, write_source

PATCH = "Mutant: x\nKernels: 6.12\n\n--- a/block/blk.c\n+++ b/block/blk.c\n@@ -1 +1 @@\n-int blk;\n+int mutant;\n"
DOWNLOADER = """
import pathlib, shutil
class KernelDownloader:
    def __init__(self, version, arch):
        if version == "v6.99":
            raise FileNotFoundError("failed to retrieve content, error: 404")
        if version == "v6.98":
            raise OSError("Name or service not known")
        shutil.copytree({made!r}, pathlib.Path.home() / ".cache/virtme-ng" / version / arch)
"""


@pytest.fixture(autouse=True)
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_tools(tmp_path, monkeypatch)


@pytest.fixture
def archive(tmp_path: Path, repository: Repository) -> str:
    source = write_source(tmp_path / "plain/linux-source-6.12")
    (source / ".gitignore").write_text("/*\n!/debian/\n")
    package = tmp_path / "package"
    (package / "usr/src").mkdir(parents=True)
    tar = ["tar", "-C", str(source.parent), "-cJf", str(package / "usr/src/linux-source-6.12.tar.xz"), source.name]
    subprocess.run(tar, check=True)
    repository.add("trixie", "linux-source-6.12", "6.12.107-1", package)
    repository.publish("trixie", "trixie-security", "bookworm-backports")
    return repository.uri


@needs_apt
def test_a_packaged_source_and_its_mutants_without_the_network(
    archive: str, cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mutants").mkdir()
    (tmp_path / "mutants/broken-blk.patch").write_text(PATCH)
    known = mutants.catalogue(tmp_path / "mutants")
    monkeypatch.setattr("lab.kernels.mutants.catalogue", lambda *_: known)
    monkeypatch.setattr("lab.kernels.mutants.known_names", lambda: [*known])
    stock = resolve("source:6.12", cache)
    assert (stock.release, stock.mutant) == ("6.12.7-blklab", "")
    assert "Debian's linux-source-6.12 6.12.107-1" in stock.origin
    (tmp_path / "archive").rename(tmp_path / "gone")
    mutant = resolve("mutant:broken-blk", cache)
    assert mutant.mutant == "broken-blk"
    assert mutant.digest != stock.digest
    assert resolve("source:6.12+broken-blk", cache).digest == mutant.digest


@needs_apt
def test_a_release_without_a_source_package_and_one_that_is_not_here_yet(archive: str, cache: Cache) -> None:
    with pytest.raises(CannotJudge) as caught:
        resolve("source:6.18", cache)
    assert "tree:DIR@v6.18 of a git clone" in caught.value.remedy
    assert "linux-6.18.tar.xz of kernel.org" in caught.value.remedy
    assert tree.kept_source("source:6.12", cache) is None
    resolve("source:6.12", cache)
    kept = tree.kept_source("source:6.12", cache)
    assert kept is not None and kept.spec == "source:6.12"


@needs_depmod
def test_mutants_of_a_tree_of_ones_own(cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write_source(tmp_path / "linux")
    commit(source, "first")
    monkeypatch.setenv(tree.TREE_VARIABLE, f"{source}@HEAD")
    assert tree.base_spec() == f"tree:{source}@HEAD"
    with pytest.raises(CannotJudge, match=r"no-fair-tags\.patch does not apply"):
        resolve("mutant:no-fair-tags", cache)


def test_a_build_of_more_objects_than_make_told_of_names_no_total(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    how: Any = SimpleNamespace(release=Release.parse("6.12"))
    builder = build.Builder(tmp_path, tmp_path, tmp_path / "log", how, print)
    builder._expected = 252
    for done, said in ((189, "compiled 189 of 252 objects, about 3 s left"), (326, "compiled 326 objects")):
        monkeypatch.setattr(builder, "_compiled", lambda _, done=done: done)
        assert builder._line(0.0, 9.0) == said


@needs_depmod
def test_debugging_is_a_configuration_with_objects_of_its_own(
    cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kconfigs/debug").mkdir()
    (tmp_path / "kconfigs/debug/debug.config").write_text("CONFIG_BLK_DEV_NULL_BLK=y\n")
    (tmp_path / "mutants").mkdir()
    (tmp_path / "mutants/broken-blk.patch").write_text(PATCH)
    source = write_source(tmp_path / "linux+debug")
    head = commit(source, "only")
    specs = [f"{source}@{head}{suffix}" for suffix in ("", "+debug", "+broken-blk", "+broken-blk+debug")] + [
        f"{source}"
    ]
    built = [tree.built(tree.read_source(spec, tmp_path / "mutants"), cache) for spec in specs]
    assert [each.config["CONFIG_BLK_DEV_NULL_BLK"] for each in built] == ["m", "y", "m", "y", "m"]
    assert [each.mutant for each in built] == ["", "", "broken-blk", "broken-blk", ""]
    assert [", debugging, " in each.origin for each in built] == [False, True, False, True, False]
    assert len({each.build for each in built}) == len([*(cache.root / "trees").glob("*/objects-*")]) == 2
    monkeypatch.setenv(tree.TREE_VARIABLE, f"{source}@{head}")
    assert tree.named_source("mutant:no-fair-tags+debug", cache, print)


def test_tools_that_builds_lack_are_named_with_the_line_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    need = Need("no-such-flex", "flex", "configure kernels")
    monkeypatch.setattr("lab.base.host.BUILD_NEEDS", (need,))
    with pytest.raises(LabBroken, match=r"no-such-flex \(to configure kernels\)") as caught:
        build.toolchain()
    assert "scripts/host-packages --build" in caught.value.remedy


@pytest.fixture
def downloader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that goes by the name of virtme-ng's and fetches from a folder."""
    made = tmp_path / "mainline"
    install_kernel(made, "6.12.0-061200-generic")
    package = tmp_path / "site/virtme_ng"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "mainline.py").write_text(DOWNLOADER.format(made=str(made)))
    monkeypatch.syspath_prepend(str(package.parent))
    monkeypatch.setenv("PYTHONPATH", str(package.parent))


@needs_depmod
def test_a_mainline_kernel_by_virtme_ngs_downloader(cache: Cache, downloader: None) -> None:
    kernel = resolve("mainline:v6.12", cache)
    assert kernel.release == "6.12.0-061200-generic"
    assert (kernel.modules / "modules.dep").exists()
    assert not (kernel.image.parent / ".home").exists()


@pytest.mark.parametrize(
    ("tag", "kind", "says"), [("v6.99", CannotJudge, "has no v6.99"), ("v6.98", LabBroken, "fetched")]
)
def test_mainline_out_of_reach(cache: Cache, downloader: None, tag: str, kind: type[BlklabError], says: str) -> None:
    with pytest.raises(kind, match=says) as caught:
        resolve(f"mainline:{tag}", cache)
    assert "tree:PATH@REV" in caught.value.remedy


def test_mainline_without_virtme_ng(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "virtme_ng", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(LabBroken, match="virtme-ng, which fetches mainline kernels, is not installed"):
        resolve("mainline:v6.12", cache)
