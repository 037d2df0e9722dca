# SPDX-License-Identifier: GPL-2.0-only
"""The lock of the lab's own packages, against a signed archive made on the spot."""

import shutil
from pathlib import Path

import pytest

from lab.base.cache import Cache
from lab.base.units import silent
from lab.guest import payload
from lab.native.programs import COMPILER
from lab.packages import apt, lock
from lab.packages.apt import Archive
from lab.packages.sources import debian
from lab.packages.tools import HOST_TOOLS
from tests.unit.kernel_samples import Repository, needs_apt


def publish(repository: Repository, version: str, tmp_path: Path) -> None:
    tree = tmp_path / f"tree-{version}"
    (tree / "usr").mkdir(parents=True)
    (tree / "usr/file").write_text(version)
    repository.add(lock.SUITE, "tool", version, tree)
    repository.publish(lock.SUITE)


def write(cache: Cache) -> None:
    lock.write(Archive(cache, debian()), ["tool"])


@pytest.fixture(autouse=True)
def current_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apt, "_FRESH", 0.0)


def version_used(cache: Cache) -> str:
    entry = lock.fetch(cache, lock.pin_name("own", ["tool"]), ["tool"], "tool", silent, kind="tools")
    return (entry.folder / "usr/file").read_text()


def test_the_lock_names_the_packages_of_every_toolset_and_no_other() -> None:
    makers = (maker.packages for maker in payload.MAKERS.values())
    lists = (payload.PACKAGES, HOST_TOOLS.packages, COMPILER.packages, *makers)
    assert set(lock.packages()) == {name for names in lists for name in names}
    assert "://" not in lock.FILE.read_text()


@needs_apt
@pytest.mark.usefixtures("own_lock")
class TestWithAnArchive:
    def test_a_newer_package_changes_nothing(self, repository: Repository, cache: Cache, tmp_path: Path) -> None:
        publish(repository, "1-1", tmp_path)
        write(cache)
        publish(repository, "2-1", tmp_path)
        assert version_used(cache) == "1-1"
        assert lock.state(cache) == f"own.lock {lock.digest()}"

    def test_another_lock_is_another_pin(self, repository: Repository, cache: Cache, tmp_path: Path) -> None:
        publish(repository, "1-1", tmp_path)
        write(cache)
        assert version_used(cache) == "1-1"
        publish(repository, "2-1", tmp_path)
        write(cache)
        assert version_used(cache) == "2-1"

    def test_a_package_that_is_only_in_the_pool_is_used(
        self, repository: Repository, cache: Cache, tmp_path: Path
    ) -> None:
        publish(repository, "1-1", tmp_path)
        write(cache)
        repository.drop(lock.SUITE)
        publish(repository, "2-1", tmp_path)
        assert version_used(cache) == "1-1"
        assert not lock.departures(cache)

    def test_the_newest_is_used_and_named_where_the_locked_one_is_gone(
        self, repository: Repository, cache: Cache, tmp_path: Path
    ) -> None:
        publish(repository, "1-1", tmp_path)
        write(cache)
        repository.drop(lock.SUITE)
        shutil.rmtree(repository.root / "pool")
        publish(repository, "2-1", tmp_path)
        assert version_used(cache) == "2-1"
        assert lock.departures(cache) == ("tool 2-1",)
        assert lock.state(cache) == f"own.lock {lock.digest()} except tool 2-1"
