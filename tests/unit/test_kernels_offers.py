# SPDX-License-Identifier: GPL-2.0-only
"""Which kernels the suites offer, by excerpts of their package lists of 2026-11-22, and ranges of them."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request

import pytest

from lab.base.cache import Cache
from lab.base.errors import CannotJudge, Misuse
from lab.base.units import silent
from lab.kernels import debian, store
from lab.kernels.offers import SUITES, Offer, expand, offers
from lab.packages import apt, sources
from lab.packages.apt import Archive, Package
from lab.packages.store import Pin, Pinned, write_pin
from tests.unit.kernel_samples import Repository, bzimage

RECORDED = Path(__file__).with_name("package_indexes")
BACKPORTS = "trixie-backports"

needs_apt = pytest.mark.skipif(
    any(shutil.which(tool) is None for tool in ("apt-get", "dpkg-deb", "gpg")), reason="needs apt, dpkg and gpg"
)


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


@pytest.fixture
def repository(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Repository]:
    """The recorded suites, without a file in the pool."""
    made = Repository(tmp_path / "archive", tmp_path_factory.mktemp("g") / "h")
    made.make_key()
    monkeypatch.setenv("BLKLAB_DEBIAN_MIRROR", made.uri)
    monkeypatch.setenv("BLKLAB_DEBIAN_SECURITY_MIRROR", made.uri)
    monkeypatch.setenv("BLKLAB_DEBIAN_KEYRING", str(made.keyring))
    for path in RECORDED.glob("*.txt"):
        made.record(path.stem, path.read_text())
    made.publish(*(path.stem for path in RECORDED.glob("*.txt")))
    yield made
    made.stop()


@needs_apt
def test_the_offers_of_all_suites_that_answer(repository: Repository, cache: Cache) -> None:
    repository.publish("sid")
    told: list[str] = []
    listed = offers(cache, told.append)
    assert [(one.series, one.version, one.suite) for one in listed] == [
        ("5.10", "5.10.262-1", "bullseye-security"),
        ("6.1", "6.1.170-3", "bookworm"),
        ("6.1", "6.1.176-1", "bookworm"),
        ("6.1", "6.1.180-1~deb11u1", "bullseye-security"),
        ("6.17", "6.17.13-1~bpo13+1", BACKPORTS),
        ("6.18", "6.18.15-1~bpo13+1", BACKPORTS),
        ("7.0", "7.0.13-1~bpo13+1", BACKPORTS),
        ("7.2", "7.2.12-1~bpo13+1", BACKPORTS),
    ]
    assert not any(one.cached or one.built for one in listed)
    failed = {line.split()[0] for line in told if "is not listed" in line}
    assert failed == set(SUITES) - {"sid", *(path.stem for path in RECORDED.glob("*.txt"))}


@needs_apt
@pytest.mark.parametrize(
    ("version", "parts"),
    [
        ("6.17.13-1~bpo13+1", ["image"]),
        ("6.18.15-1~bpo13+1", ["image"]),
        ("7.2.12-1~bpo13+1", ["image", "base", "binary", "modules"]),
    ],
)
def test_the_parts_of_recorded_kernels(repository: Repository, cache: Cache, version: str, parts: list[str]) -> None:
    archive = Archive(cache, sources.debian())
    image = next(one for one in debian.offered(archive, BACKPORTS) if one.version == version)
    chosen = debian.with_parts(archive, image)
    assert [package.name.split("-")[1] for package in chosen] == parts
    assert {package.version for package in chosen} == {version}


@needs_apt
def test_a_recorded_kernel_whose_parts_are_not_listed(repository: Repository, cache: Cache) -> None:
    archive = Archive(cache, sources.debian())
    image = next(one for one in debian.offered(archive, BACKPORTS) if one.version == "7.0.13-1~bpo13+1")
    path = r"pool/main/l/linux/linux-base-7\.0\.13\+deb13-amd64_7\.0\.13-1~bpo13\+1_amd64\.deb"
    with pytest.raises(CannotJudge, match=f"its pool has no {path}"):
        debian.with_parts(archive, image)


@needs_apt
def test_a_cached_kernel_is_offered_with_the_date_of_its_build(repository: Repository, cache: Cache) -> None:
    for version, suite in (("6.1.176-1", "bookworm"), ("6.11.2-1~bpo12+1", "bookworm-backports")):
        pin = Pin(f"debian-{version}", (Pinned(suite, "linux-image-x-amd64", version, version),))
        write_pin(cache, pin)
        banner = f"x (builder) #1 SMP Debian {version} (2026-07-02)"
        cache.entry(store.KIND, pin.digest, partial(_image, banner))
    cached = [one for one in offers(cache, silent) if one.cached]
    assert cached == [
        Offer("6.1.176-1", "bookworm", cached=True, built="2026-07-02"),
        Offer("6.11.2-1~bpo12+1", "bookworm-backports", cached=True, built="2026-07-02"),
    ]
    for one in cache.entries():
        if one.kind == store.KIND:
            cache.discard(one.kind, one.key)
    left = {one.version for one in offers(cache, silent) if not one.cached}
    assert "6.1.176-1" in left and "6.11.2-1~bpo12+1" not in left, "neither a suite nor the cache has the other"


@needs_apt
def test_the_date_of_a_build_is_read_once_from_the_head_of_its_package(
    repository: Repository, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1782950400")
    deb = repository.add(BACKPORTS, "linux-image-9.9.9+deb13-amd64", "9.9.9-1")
    repository.publish(BACKPORTS)
    dates = {one.version: one.built for one in offers(cache, silent, dates=True)}
    assert dates.pop("9.9.9-1") == "2026-07-02"
    assert set(dates.values()) == {""}, "the pool does not have the others"
    deb.write_bytes(b"!<arch>")
    assert offers(cache, silent, dates=True)[-1].built == "2026-07-02"


def test_a_server_that_does_not_answer_is_asked_for_one_date(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def refuse(request: Request, timeout: float) -> None:
        asked.append(request.full_url)
        raise URLError("refused")

    monkeypatch.setattr(apt, "urlopen", refuse)
    monkeypatch.setenv("BLKLAB_DEBIAN_MIRROR", "http://127.0.0.1:9/debian")
    archive = Archive(cache, sources.debian())
    package = Package(BACKPORTS, "linux-image-x", "1-1", "00", 1, "", "pool/x.deb")
    assert [archive.built_on(package), archive.built_on(replace(package, sha256="11"))] == ["", ""]
    assert asked == ["http://127.0.0.1:9/debian/pool/x.deb"]


def _image(banner: str, into: Path) -> None:
    (into / "image").write_bytes(bzimage(b"", banner))


LISTED = tuple(
    Offer(version, BACKPORTS) for version in ("6.1.176-1", "6.12.94-1", "6.12.107-1", "6.18.5-1", "7.0.13-1", "7.3.4-1")
)


@pytest.mark.parametrize(
    ("text", "specs"),
    [
        ("debian:6.12 .. debian:7.0", ["debian:6.12", "debian:6.18", "debian:7.0"]),
        ("debian:6.2 .. debian:6.13", ["debian:6.2", "debian:6.12", "debian:6.13"]),
        ("distro debian:6.18 .. debian:6.18 distro", ["distro", "debian:6.18"]),
        ("debian:all tree:../linux", [*(one.spec for one in LISTED), "tree:../linux"]),
    ],
)
def test_ranges(text: str, specs: list[str]) -> None:
    assert expand(text, lambda: LISTED) == tuple(specs)


def test_plain_specs_ask_nobody() -> None:
    assert expand("debian:6.1 path:../x", lambda: pytest.fail("asked")) == ("debian:6.1", "path:../x")


@pytest.mark.parametrize(
    "text",
    [
        "debian:7.0 .. debian:6.12",
        "debian:6.12..debian:7.0",
        "debian:6.12 ..",
        ".. debian:7.0",
        "debian:6.12 .. 7.0",
        "distro .. debian:7.0",
        "debian:6.12.94-1 .. debian:7.0",
    ],
)
def test_texts_that_are_no_range(text: str) -> None:
    with pytest.raises(Misuse, match="is not a range of kernels"):
        expand(text, lambda: LISTED)
