# SPDX-License-Identifier: GPL-2.0-only
"""The private apt against a signed archive made on the spot."""

import shutil
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Thread

import pytest

from lab.base import contents
from lab.base.cache import Cache
from lab.base.errors import CannotJudge, LabBroken
from lab.base.process import progress
from lab.base.units import silent
from lab.packages import apt
from lab.packages.apt import Archive, Package
from lab.packages.sources import Distribution
from lab.packages.store import unpacked
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
    older, newer = apt.find(SUITE, "tool", "1.9-1"), apt.newest(SUITE, ["tool"])[0]
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
    with pytest.raises(LabBroken, match=r"cannot be fetched") as caught:
        Archive(cache, unreachable).search(SUITE, "tool")
    assert "BLKLAB_DEBIAN_MIRROR=" in caught.value.remedy


@pytest.fixture
def mirror() -> Iterator[Callable[[bytes, bytes], str]]:
    """The address of a server that answers each request with bytes, and then with others again and again."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve(first: bytes, then: bytes) -> None:
        with suppress(OSError):
            while True:
                Thread(target=answer, args=(listening.accept()[0], first, then), daemon=True).start()

    def answer(client: socket.socket, first: bytes, then: bytes) -> None:
        with client, suppress(OSError):
            client.recv(1 << 16)
            client.sendall(first)
            while then:
                client.sendall(then)
                time.sleep(0.2)

    def start(first: bytes, then: bytes = b"") -> str:
        Thread(target=serve, args=(first, then), daemon=True).start()
        return f"http://127.0.0.1:{listening.getsockname()[1]}/debian"

    yield start
    listening.close()


SLOW = b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n"


@pytest.mark.parametrize("parts", [(b"HTTP/1.1 200 OK\r\n", b"X-Header: x\r\n"), (SLOW, b"x")])
def test_a_mirror_without_an_end_is_left(
    parts: tuple[bytes, bytes],
    mirror: Callable[[bytes, bytes], str],
    repository: Repository,
    cache: Cache,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """65 and 5 bytes a second; what the headers fill is no file yet. Each look is after 3 s instead of a minute."""
    monkeypatch.setattr(apt, "_PATIENCE", 3.0)
    monkeypatch.setattr(apt, "progress", partial(progress, every=1.0))
    told: list[str] = []
    slow = replace(distribution(repository), main=mirror(*parts))
    with pytest.raises(LabBroken, match=r"cannot be fetched .* less than 1 kB a second arrived") as caught:
        Archive(cache, slow, told.append).search(SUITE, "tool")
    assert "BLKLAB_DEBIAN_MIRROR=" in caught.value.remedy
    assert "package lists of trixie: 1 s" in told


@pytest.mark.parametrize("status", ["403 Forbidden", "503 Service Unavailable", "407 Proxy Authentication Required"])
def test_a_mirror_that_refuses_did_not_move(
    status: str, mirror: Callable[[bytes, bytes], str], repository: Repository, cache: Cache
) -> None:
    refusing = mirror(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode(), b"")
    with pytest.raises(LabBroken, match=f"{refusing} refuses to send a file of trixie: .*{status[:3]}") as caught:
        Archive(cache, replace(distribution(repository), main=refusing)).search(SUITE, "tool")
    assert "moved" not in caught.value.remedy


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


def newest_tool(offered: Archive) -> list[Package]:
    return offered.newest(SUITE, ["tool"])


def read(cache: Cache, *, refresh: bool = False) -> str:
    made = unpacked(cache, "tools", newest_tool, silent, refresh=refresh)
    assert {item.name for item in made.folder.iterdir()} == {"usr", contents.NAME}
    return (made.folder / "usr/file").read_text()


def test_a_pin_stays_until_refreshed(repository: Repository, cache: Cache, tmp_path: Path) -> None:
    publish(repository, "1-1", tmp_path)
    assert read(cache) == "1-1"
    publish(repository, "2-1", tmp_path)
    assert read(cache) == "1-1"
    assert read(cache, refresh=True) == "2-1"
    assert read(cache) == "2-1"


def test_lists_are_renewed_before_a_version_is_missing(repository: Repository, cache: Cache, tmp_path: Path) -> None:
    publish(repository, "1-1", tmp_path)
    assert archive(repository, cache).find(SUITE, "tool").version == "1-1"
    publish(repository, "2-1", tmp_path)
    assert archive(repository, cache).find(SUITE, "tool").version == "1-1"
    made = unpacked(cache, "exact", lambda apt: [apt.find(SUITE, "tool", "2-1")], silent)
    assert made.pin.packages[0].version == "2-1"


def test_a_pinned_and_unpacked_package_needs_no_archive(repository: Repository, cache: Cache, tmp_path: Path) -> None:
    publish(repository, "1-1", tmp_path)
    read(cache)
    shutil.rmtree(repository.root)
    assert read(cache) == "1-1"


def test_a_pruned_pin_is_fetched_again_exactly(repository: Repository, cache: Cache, tmp_path: Path) -> None:
    publish(repository, "1-1", tmp_path)
    read(cache)
    publish(repository, "2-1", tmp_path)
    cache.close()
    cache.prune()
    assert read(cache) == "1-1"


def test_a_pinned_version_that_vanished_cannot_be_judged(repository: Repository, cache: Cache, tmp_path: Path) -> None:
    publish(repository, "1-1", tmp_path)
    read(cache)
    repository.drop(SUITE)
    publish(repository, "2-1", tmp_path)
    cache.close()
    cache.prune()
    with pytest.raises(CannotJudge, match="no tool 1-1"):
        read(cache)
