# SPDX-License-Identifier: GPL-2.0-only
"""The private apt against a signed archive made on the spot."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from lab.base import contents
from lab.base.cache import Cache
from lab.base.errors import CannotJudge, LabBroken
from lab.packages.apt import Archive
from lab.packages.sources import Distribution
from lab.packages.store import newest, unpacked
from tests.unit.kernel_samples import Repository

pytestmark = pytest.mark.skipif(
    any(shutil.which(tool) is None for tool in ("apt-get", "dpkg-deb", "gpg")), reason="needs apt, dpkg and gpg"
)
SUITE = "trixie"


def distribution(repository: Repository) -> Distribution:
    return Distribution("debian", repository.uri, "", repository.keyring)


def archive(repository: Repository, cache: Cache) -> Archive:
    return Archive(cache, distribution(repository))


def tree(root: Path, text: str) -> Path:
    (root / "usr").mkdir(parents=True)
    (root / "usr/file").write_text(text)
    return root


def publish(repository: Repository, version: str, tmp_path: Path) -> Path:
    deb = repository.add(SUITE, "tool", version, tree(tmp_path / f"tree-{version}", version), depends="a (= 1) | b, c")
    repository.publish(SUITE)
    return deb


def test_finds_and_fetches(repository: Repository, cache: Cache, tmp_path: Path) -> None:
    publish(repository, "1.9-1", tmp_path)
    publish(repository, "1.10-1", tmp_path)
    apt = archive(repository, cache)
    assert [one.version for one in apt.search(SUITE, "tool")] == ["1.10-1", "1.9-1"]
    assert apt.search(SUITE, "absent") == ()
    assert apt.find(SUITE, "tool").depends == "a (= 1) | b, c"
    older, newer = apt.find(SUITE, "tool", "1.9-1"), apt.newest(SUITE, ["tool"])["tool"]
    assert newer.version == "1.10-1"
    assert [deb.stat().st_size for deb in apt.fetch([newer, older], tmp_path / "into")] == [newer.size, older.size]


def test_a_version_that_vanished(repository: Repository, cache: Cache, tmp_path: Path) -> None:
    publish(repository, "1-1", tmp_path)
    with pytest.raises(CannotJudge, match="no tool 9-1") as caught:
        archive(repository, cache).find(SUITE, "tool", "9-1")
    with pytest.raises(CannotJudge, match="no spanner"):
        archive(repository, cache).newest(SUITE, ["tool", "spanner"])
    assert "BLKLAB_ARCHIVE_TRIXIE=" in caught.value.remedy


def test_a_suite_that_vanished(repository: Repository, cache: Cache, tmp_path: Path) -> None:
    publish(repository, "1-1", tmp_path)
    with pytest.raises(CannotJudge) as caught:
        archive(repository, cache).search("gone-suite", "tool")
    assert "BLKLAB_ARCHIVE_GONE_SUITE=" in caught.value.remedy


def test_another_key_is_refused(repository: Repository, cache: Cache, tmp_path: Path) -> None:
    publish(repository, "1-1", tmp_path)
    other = Repository(tmp_path / "other", repository._home.parent / "o")
    other.make_key()
    other.publish(SUITE)
    other.stop()
    with pytest.raises(LabBroken, match="does not verify the signature") as caught:
        Archive(cache, replace(distribution(repository), keyring=other.keyring)).search(SUITE, "tool")
    assert "BLKLAB_DEBIAN_KEYRING=" in caught.value.remedy


def test_a_package_with_other_contents_is_refused(repository: Repository, cache: Cache, tmp_path: Path) -> None:
    deb = publish(repository, "1-1", tmp_path)
    apt = archive(repository, cache)
    found = apt.find(SUITE, "tool")
    contents = bytearray(deb.read_bytes())
    contents[-1] ^= 1
    deb.write_bytes(contents)
    with pytest.raises(LabBroken):
        apt.fetch([found], tmp_path / "into")


def test_no_network_names_the_mirror_variable(repository: Repository, cache: Cache, tmp_path: Path) -> None:
    publish(repository, "1-1", tmp_path)
    # Port 9 of the loopback interface: nothing listens to "discard" any more.
    unreachable = replace(distribution(repository), main="http://127.0.0.1:9/debian")
    with pytest.raises(LabBroken, match="cannot be fetched") as caught:
        Archive(cache, unreachable).search(SUITE, "tool")
    assert "BLKLAB_DEBIAN_MIRROR=" in caught.value.remedy


def test_the_host_hooks_do_not_run(
    repository: Repository, cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(repository, "1-1", tmp_path)
    host = tmp_path / "host.conf"
    host.write_text(
        f'APT::Update::Post-Invoke {{ "touch {tmp_path}/hook"; }};\nAcquire::http::Proxy "http://p.example";\n'
    )
    monkeypatch.setenv("APT_CONFIG", str(host))
    assert archive(repository, cache).search(SUITE, "tool")
    assert not (tmp_path / "hook").exists()
    (configuration,) = cache.root.glob("apt/*/apt.conf")
    assert 'Acquire::http::Proxy "http://p.example";' in configuration.read_text()


def read(repository: Repository, cache: Cache, *, refresh: bool = False) -> str:
    made = unpacked(cache, lambda: archive(repository, cache), "tools", newest((SUITE, "tool")), refresh=refresh)
    assert {item.name for item in made.folder.iterdir()} == {"usr", contents.NAME}
    return (made.folder / "usr/file").read_text()


def test_a_pin_stays_until_refreshed(repository: Repository, cache: Cache, tmp_path: Path) -> None:
    publish(repository, "1-1", tmp_path)
    assert read(repository, cache) == "1-1"
    publish(repository, "2-1", tmp_path)
    assert read(repository, cache) == "1-1"
    assert read(repository, cache, refresh=True) == "2-1"
    assert read(repository, cache) == "2-1"


def test_lists_are_renewed_before_a_version_is_missing(repository: Repository, cache: Cache, tmp_path: Path) -> None:
    publish(repository, "1-1", tmp_path)
    assert archive(repository, cache).find(SUITE, "tool").version == "1-1"
    publish(repository, "2-1", tmp_path)
    assert archive(repository, cache).find(SUITE, "tool").version == "1-1"
    made = unpacked(cache, lambda: archive(repository, cache), "exact", lambda apt: [apt.find(SUITE, "tool", "2-1")])
    assert made.pin.packages[0].version == "2-1"


def test_a_pinned_and_unpacked_package_needs_no_archive(repository: Repository, cache: Cache, tmp_path: Path) -> None:
    publish(repository, "1-1", tmp_path)
    read(repository, cache)
    shutil.rmtree(repository.root)

    def refuse() -> Archive:
        raise AssertionError("asked for the archive")

    assert unpacked(cache, refuse, "tools", newest((SUITE, "tool"))).pin.packages[0].version == "1-1"


def test_a_pruned_pin_is_fetched_again_exactly(repository: Repository, cache: Cache, tmp_path: Path) -> None:
    publish(repository, "1-1", tmp_path)
    read(repository, cache)
    publish(repository, "2-1", tmp_path)
    cache.close()
    cache.prune()
    assert read(repository, cache) == "1-1"


def test_a_pinned_version_that_vanished_cannot_be_judged(repository: Repository, cache: Cache, tmp_path: Path) -> None:
    publish(repository, "1-1", tmp_path)
    read(repository, cache)
    repository.drop(SUITE)
    publish(repository, "2-1", tmp_path)
    cache.close()
    cache.prune()
    with pytest.raises(CannotJudge, match="no tool 1-1"):
        read(repository, cache)


def test_a_broken_pin_is_named(repository: Repository, cache: Cache) -> None:
    path = cache.write_text("pins", "tools.json", "{")
    with pytest.raises(LabBroken, match=str(path)):
        read(repository, cache)
