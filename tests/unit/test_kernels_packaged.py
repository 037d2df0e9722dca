# SPDX-License-Identifier: GPL-2.0-only
"""Kernels of a packaged source (out of an archive made on the spot) and mutants of it."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.base.cache import Cache
from lab.base.errors import CannotJudge, LabBroken, Misuse
from lab.base.host import Need
from lab.kernels import build, mutants, packaged
from lab.kernels.resolve import resolve
from tests.unit.kernel_samples import Repository, needs_apt, needs_depmod
from tests.unit.tree_samples import commit, fake_tools, write_fragments, write_source

PATCH = "Mutant: x\nKernels: 6.12\n\n--- a/block/blk.c\n+++ b/block/blk.c\n@@ -1 +1 @@\n-int blk;\n+int mutant;\n"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cache]:
    fake_tools(tmp_path, monkeypatch)
    fragments = write_fragments(tmp_path / "kconfigs")
    monkeypatch.setattr("lab.kernels.kconfig.FRAGMENTS", fragments[0].parent)
    monkeypatch.setattr("lab.kernels.kconfig.fragments", lambda: fragments)
    cache = Cache(tmp_path / "cache")
    yield cache
    cache.close()


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
    stock = resolve("source:6.12", cache)
    assert (stock.release, stock.mutant) == ("6.12.7-blklab", "")
    assert "Debian's linux-source-6.12 6.12.107-1" in stock.origin
    (tmp_path / "archive").rename(tmp_path / "gone")
    mutant = resolve("mutant:broken-blk", cache)
    assert mutant.mutant == "broken-blk"
    assert mutant.digest != stock.digest
    assert resolve("source:6.12+broken-blk", cache).digest == mutant.digest


@needs_depmod
def test_mutants_of_a_tree_of_ones_own(cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write_source(tmp_path / "linux")
    commit(source, "first")
    monkeypatch.setenv(packaged.TREE_VARIABLE, f"{source}@HEAD")
    assert packaged.base_spec() == f"tree:{source}@HEAD"
    with pytest.raises(CannotJudge, match=r"no-fair-tags\.patch does not apply"):
        resolve("mutant:no-fair-tags", cache)


@pytest.mark.parametrize("spec", ["source:six", "source:6.12+no-such", "mutant:no-such"])
def test_mistakes_are_misuse(spec: str, cache: Cache) -> None:
    with pytest.raises(Misuse):
        resolve(spec, cache)


def test_tools_that_builds_lack_are_named_with_the_line_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    need = Need("no-such-flex", "flex", "configure kernels")
    monkeypatch.setattr("lab.base.host.BUILD_NEEDS", (need,))
    with pytest.raises(LabBroken, match=r"no-such-flex \(to configure kernels\)") as caught:
        build.toolchain()
    assert "scripts/host-packages --build" in caught.value.remedy
