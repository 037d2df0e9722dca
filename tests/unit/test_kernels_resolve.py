# SPDX-License-Identifier: GPL-2.0-only
"""From a spec to a kernel: packaged ones out of an archive made on the spot, local ones, and what suites offer."""

import os
import shutil
from collections.abc import Collection
from pathlib import Path

import pytest

from lab.base.cache import Cache
from lab.base.errors import CannotJudge, LabBroken, Misuse
from lab.base.units import silent
from lab.kernels import debian, store, ubuntu
from lab.kernels.binaries import module_closure
from lab.kernels.debian import SUITES, Offer, expand, offers
from lab.kernels.model import Kernel, Release
from lab.kernels.resolve import demand, resolve
from lab.packages import sources
from lab.packages.apt import Archive, Package
from lab.packages.store import Pin, archive_of, write_pin
from tests.unit.kernel_samples import Repository, bzimage, elf, install_kernel, module, needs_apt, needs_depmod


def add_old(repository: Repository, suite: str, abi: str, version: str) -> None:
    tree = repository.root.parent / f"kernel-{abi}"
    install_kernel(tree, f"{abi}-amd64")
    repository.add(suite, f"linux-image-{abi}-amd64", version, tree)


def add_split(repository: Repository, suite: str, version: str, unlisted: Collection[str] = ()) -> None:
    """The packages from 6.19 on: an empty image that depends on binary, modules and base."""
    release = f"{version}+deb14-amd64"
    whole = repository.root.parent / f"whole-{version}"
    install_kernel(whole, release, split=True, modules="usr/lib/modules")
    folder = whole / "usr/lib/modules" / release
    parts = {"binary": ["vmlinuz"], "modules": ["kernel"], "base": sorted({"config", *store.TABLES})}
    for part, names in parts.items():
        into = repository.root.parent / f"{part}-{version}"
        (into / "usr/lib/modules" / release).mkdir(parents=True)
        for name in names:
            (folder / name).rename(into / "usr/lib/modules" / release / name)
        repository.add(suite, f"linux-{part}-{release}", f"{version}-1", into, listed=part not in unlisted)
    needs = ", ".join(f"linux-{part}-{release} (= {version}-1)" for part in parts)
    repository.add(suite, f"linux-image-{release}", f"{version}-1", depends=f"kmod, linux-base (>= 4.3~), {needs}")


def assert_complete(kernel: Kernel, release: str) -> None:
    assert kernel.release == release
    assert kernel.version.text == release
    assert kernel.image.read_bytes().startswith(bzimage(b"", release)[:0x200])
    assert kernel.vmlinux is not None and kernel.vmlinux.read_bytes() == elf()
    assert kernel.config["CONFIG_BLOCK"] == "y"
    assert kernel.config["CONFIG_LOCALVERSION"] == "-a"
    assert "CONFIG_X" not in kernel.config
    assert kernel.has("BLK_DEV_NULL_BLK")
    assert not kernel.has("X")
    closure = module_closure(kernel, ["null_blk", "mq-deadline", "absent"])
    assert [path.name for path in closure.load] == ["null_blk.ko"]
    assert closure.load[0].read_bytes().startswith(module())
    assert closure.missing == ("absent",), "mq-deadline is built in"


@needs_apt
def test_a_series_takes_its_newest_in_the_first_suite(repository: Repository, cache: Cache) -> None:
    for abi, version in (("6.1.0-9", "6.1.27-1"), ("6.1.0-50", "6.1.176-1"), ("6.1.0-50-cloud", "6.1.176-1")):
        add_old(repository, "bookworm", abi, version)
    repository.add("bookworm", "linux-image-amd64", "6.1.176-1", depends="linux-image-6.1.0-50-amd64 (= 6.1.176-1)")
    repository.publish("bookworm", "bookworm-security")
    kernel = resolve("debian:6.1", cache)
    assert_complete(kernel, "6.1.0-50-amd64")
    assert kernel.origin == "Debian bookworm, linux-image-6.1.0-50-amd64 6.1.176-1"
    exact = resolve("debian:6.1.27-1", cache)
    assert_complete(exact, "6.1.0-9-amd64")
    assert exact.digest != kernel.digest
    assert resolve("debian:6.1.27", cache).digest == exact.digest
    with pytest.raises(CannotJudge, match=r"no kernel 6\.1\.2 in Debian's bookworm, bookworm-security") as caught:
        resolve("debian:6.1.2", cache)
    assert "BLKLAB_ARCHIVE_BOOKWORM=" in caught.value.remedy
    with pytest.raises(CannotJudge, match=r"no kernel 6\.1\.99-1 \(any more\) in Debian's bookworm"):
        resolve("debian:6.1.99-1", cache)
    assert resolve("debian:bookworm", cache).digest == kernel.digest


@needs_apt
@pytest.mark.parametrize(
    ("suite", "old", "new"),
    [
        ("bullseye", "5.10.223-1", "5.10.262-1"),
        ("bookworm", "6.1.176-1", "6.1.192-2"),
        ("trixie", "6.12.107-1", "6.12.117-1"),
    ],
)
def test_the_newest_of_a_suite_and_its_security_updates(
    repository: Repository, cache: Cache, suite: str, old: str, new: str
) -> None:
    series = Release.parse(new).series
    add_old(repository, suite, f"{series}.0-32", old)
    add_old(repository, f"{suite}-security", f"{series}.0-46", new)
    repository.publish(suite, f"{suite}-security")
    assert resolve(f"debian:{series}", cache).release == f"{series}.0-46-amd64"


@needs_apt
def test_a_stable_release_is_found_in_the_suite_that_has_it(repository: Repository, cache: Cache) -> None:
    add_old(repository, "trixie", "6.12.0-1", "6.12.118-1")
    add_old(repository, "bookworm-backports", "6.12.57+deb12", "6.12.57-1~bpo12+1")
    repository.publish("trixie", "trixie-security", "bookworm-backports")
    stable, exact = (resolve(f"debian:{version}", cache) for version in ("6.12.57", "6.12.57-1~bpo12+1"))
    assert stable.digest == exact.digest and stable.origin.startswith("Debian bookworm-backports, ")


@needs_apt
@pytest.mark.parametrize(("series", "asked"), [("9.9", 1), ("8.1", 1), ("8.0", 4), ("7.3", 4)])
def test_a_series_that_sid_is_far_from_is_looked_for_nowhere_else(
    repository: Repository, cache: Cache, series: str, asked: int
) -> None:
    """Sid has 7.2; a backport may be ahead of it (7.3 was), and what follows 7.19 may be 8.0."""
    add_old(repository, "sid", "7.2.13+deb14", "7.2.13-1")
    repository.publish("sid", "forky", "trixie-backports", "bookworm-backports")
    told: list[str] = []
    said = "the newest of sid is 7.2.13-1" if asked == 1 else f"no kernel {series} in"
    with pytest.raises(CannotJudge, match=said) as caught:
        resolve(f"debian:{series}", cache, tell=told.append)
    assert caught.value.remedy
    assert len([line for line in told if line.startswith("updating")]) == asked


@needs_apt
def test_keys_of_ubuntu_that_the_host_lacks_come_from_debian(
    repository: Repository, cache: Cache, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    keys = tmp_path / "keys/usr/share/keyrings"
    keys.mkdir(parents=True)
    repository.add("noble", "hello", "1")
    repository.publish("noble")
    shutil.copy(os.environ["BLKLAB_UBUNTU_KEYRING"], keys / "ubuntu-archive-keyring.gpg")
    repository.add("trixie", "ubuntu-keyring", "2023.11.28.1-0.2", tmp_path / "keys")
    repository.publish("trixie")
    monkeypatch.delenv("BLKLAB_UBUNTU_KEYRING")
    monkeypatch.setitem(sources.DISTRIBUTIONS, "ubuntu", lambda: sources.ubuntu(keyrings=tmp_path / "none"))
    archive = archive_of("ubuntu", cache, silent)
    assert archive.distribution.keyring.is_relative_to(cache.root)
    assert archive.find("noble", "hello").version == "1"


@needs_apt
def test_split_packages(repository: Repository, cache: Cache) -> None:
    add_split(repository, "forky", "7.2.12")
    repository.publish("forky")
    kernel = resolve("debian:7.2", cache)
    assert_complete(kernel, "7.2.12+deb14-amd64")
    assert not (kernel.modules / "vmlinuz").exists()


@needs_apt
def test_parts_that_the_suite_lists_no_more_come_from_its_pool(repository: Repository, cache: Cache) -> None:
    add_split(repository, "trixie-backports", "7.0.13", unlisted=("modules", "base"))
    repository.publish("sid", "forky", "trixie-backports")
    told: list[str] = []
    kernel = resolve("debian:7.0", cache, tell=told.append)
    assert_complete(kernel, "7.0.13+deb14-amd64")
    assert "(modules and base from the pool, with a checksum that no list signs)" in kernel.origin
    assert any("linux-modules" in line and "does not list it any more" in line for line in told)
    cache.close()
    shutil.rmtree(cache.root / "kernels")
    assert resolve("debian:7.0", Cache(cache.root)).digest == kernel.digest


@needs_apt
def test_a_file_of_the_pool_that_is_another_package(repository: Repository, cache: Cache) -> None:
    add_split(repository, "trixie-backports", "7.0.13", unlisted=("modules",))
    repository.publish("sid", "forky", "trixie-backports")
    other = repository.add("trixie-backports", "other", "1", listed=False)
    other.rename(next((repository.root / "pool").glob("linux-modules-*")))
    with pytest.raises(LabBroken, match="'package': 'other'"):
        resolve("debian:7.0", cache)


@needs_apt
def test_a_whole_image_needs_no_base_of_its_version(repository: Repository, cache: Cache) -> None:
    """6.18.15 of trixie-backports: its linux-base-* is documentation, and not listed any more."""
    release, version = "6.18.15+deb13-amd64", "6.18.15-1~bpo13+1"
    whole = repository.root.parent / "whole"
    install_kernel(whole, release, modules="usr/lib/modules")
    depends = f"kmod, linux-base (>= 4.12~), linux-base-{release} (= {version})"
    repository.add("trixie-backports", f"linux-image-{release}", version, whole, depends)
    repository.publish("sid", "forky", "trixie-backports")
    kernel = resolve("debian:6.18", cache)
    assert_complete(kernel, release)
    assert kernel.origin == f"Debian trixie-backports, linux-image-{release} {version}"


@needs_apt
def test_pinned_kernels_need_no_archive(repository: Repository, cache: Cache) -> None:
    add_old(repository, "bookworm", "6.1.0-9", "6.1.27-1")
    repository.publish("bookworm", "bookworm-security")
    first = resolve("debian:6.1", cache)
    add_old(repository, "bookworm", "6.1.0-50", "6.1.176-1")
    repository.publish("bookworm", "bookworm-security")
    assert resolve("debian:6.1", Cache(cache.root)) == first
    assert resolve("debian:6.1", cache, refresh=True).release == "6.1.0-50-amd64"
    shutil.rmtree(repository.root)
    assert resolve("debian:6.1", cache).release == "6.1.0-50-amd64"


@needs_apt
def test_ubuntu_splits_modules_off(repository: Repository, cache: Cache) -> None:
    def tree(name: str) -> Path:
        made = repository.root.parent / name
        made.mkdir()
        return made

    release = "6.8.0-31-generic"
    whole, image, extra = tree("whole"), tree("image"), tree("extra")
    install_kernel(whole, release)
    (image / "boot").mkdir()
    (whole / f"boot/vmlinuz-{release}").rename(image / f"boot/vmlinuz-{release}")
    drivers = f"lib/modules/{release}/kernel/drivers"
    (extra / drivers).mkdir(parents=True)
    (whole / drivers / "null_blk.ko").rename(extra / drivers / "null_blk.ko")
    for suite, wanted in (("noble", "6.8.0-11-generic"), ("noble-updates", release)):
        version = wanted.removesuffix("-generic").replace("-", ".", 1).replace("6.8.0.", "6.8.0-") + ".1"
        repository.add(suite, "linux-image-generic", version, depends=f"linux-image-{wanted}, linux-firmware")
    repository.add("noble-updates", f"linux-image-{release}", "6.8.0-31.31", image, f"linux-modules-{release}")
    repository.add("noble-updates", f"linux-modules-{release}", "6.8.0-31.31", whole)
    repository.add("noble-updates", f"linux-modules-extra-{release}", "6.8.0-31.31", extra)
    repository.publish("noble", "noble-updates")
    choose = ubuntu.default_of("noble")
    kernel = debian.fetched("distro", "distro-ubuntu-noble", choose, "ubuntu", cache, refresh=False, tell=print)
    assert_complete(kernel, release)
    assert kernel.spec == "distro"
    assert "Ubuntu noble-updates" in kernel.origin
    # The same packages by series, in the newest release that has it.
    repository.publish(*(f"{name}{pocket}" for name in ubuntu.RELEASES[1:] for pocket in ("", "-updates")))
    assert resolve("ubuntu:6.8", cache).digest == resolve("ubuntu:noble", cache).digest == kernel.digest
    with pytest.raises(CannotJudge, match=r"no kernel 4\.15 in Ubuntu's noble, jammy, focal, bionic, xenial"):
        resolve("ubuntu:4.15", cache)


@needs_depmod
@pytest.mark.parametrize(("split", "modules"), [(False, "lib/modules"), (True, "usr/lib/modules")])
def test_an_unpacked_package(cache: Cache, tmp_path: Path, split: bool, modules: str) -> None:
    install_kernel(tmp_path / "k", "6.1.0-50-amd64", split=split, modules=modules)
    kernel = resolve(f"path:{tmp_path}/k", cache)
    assert_complete(kernel, "6.1.0-50-amd64")
    shutil.rmtree(tmp_path / "k")
    assert kernel.image.exists()


@pytest.mark.parametrize("spec", ["foo", "debian", "debian:", "path:", "host:x", "distro:x", "6.1"])
def test_unknown_specs_list_the_forms(spec: str) -> None:
    with pytest.raises(Misuse) as caught:
        demand(spec)
    for form in ("debian:6.1", "distro", "path:DIR", "host"):
        assert form in caught.value.remedy


MISSPELT = (
    *("debian:6.1 ", "debian:Trixie", "debian:../x", "debian:6.1.x", "ubuntu:4.15.0-213", "source:x", "mainline:6.12"),
    *("mutant:no-such", "mutant:debug", "source:6.12+no-such", "mainline:v6", "path:/no/such", "tree:/no/such"),
)


@pytest.mark.parametrize("spec", MISSPELT)
def test_misspelt_specs_are_refused_before_anything_is_fetched(spec: str) -> None:
    with pytest.raises(Misuse):
        demand(spec)


@pytest.mark.parametrize("spec", ["", "host", "distro", "debian:6.1", "ubuntu:noble", "source:6.12", "mainline:v6.12"])
def test_every_form_of_a_spec_is_known(spec: str) -> None:
    assert demand(spec) == spec


RECORDED = Path(__file__).with_name("package_indexes")
BACKPORTS = "trixie-backports"


@pytest.fixture
def suites(repository: Repository) -> Repository:
    """The recorded suites, without a file in the pool."""
    for path in RECORDED.glob("*.txt"):
        repository.record(path.stem, path.read_text())
    repository.publish(*(path.stem for path in RECORDED.glob("*.txt")))
    return repository


@needs_apt
def test_the_offers_of_all_suites_that_answer(suites: Repository, cache: Cache) -> None:
    suites.publish("sid")
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
    assert not any(one.cached for one in listed)
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
def test_the_parts_of_recorded_kernels(suites: Repository, cache: Cache, version: str, parts: list[str]) -> None:
    archive = Archive(cache, sources.debian())
    image = next(one for one in archive.search(BACKPORTS, debian.IMAGES) if one.version == version)
    chosen = debian.with_parts(archive, image)
    assert [package.name.split("-")[1] for package in chosen] == parts
    assert {package.version for package in chosen} == {version}


@needs_apt
def test_a_recorded_kernel_whose_parts_are_not_listed(suites: Repository, cache: Cache) -> None:
    archive = Archive(cache, sources.debian())
    image = next(one for one in archive.search(BACKPORTS, debian.IMAGES) if one.version == "7.0.13-1~bpo13+1")
    path = r"pool/main/l/linux/linux-base-7\.0\.13\+deb13-amd64_7\.0\.13-1~bpo13\+1_amd64\.deb"
    with pytest.raises(CannotJudge, match=rf"without its linux-base-7\.0\.13.*its pool has no {path}") as caught:
        debian.with_parts(archive, image)
    assert "BLKLAB_ARCHIVE_TRIXIE_BACKPORTS=" in caught.value.remedy


@needs_apt
def test_a_cached_kernel_is_offered(suites: Repository, cache: Cache) -> None:
    for version, suite in (("6.1.176-1", "bookworm"), ("6.11.2-1~bpo12+1", "bookworm-backports")):
        pin = Pin(f"debian-{version}", (Package(suite, "linux-image-x-amd64", version, version),))
        write_pin(cache, pin)
        cache.entry(store.KIND, pin.digest, lambda into: None)
    cached = [one for one in offers(cache, silent) if one.cached]
    assert cached == [
        Offer("6.1.176-1", "bookworm", cached=True),
        Offer("6.11.2-1~bpo12+1", "bookworm-backports", cached=True),
    ]
    for one in cache.entries():
        if one.kind == store.KIND:
            cache.discard(one.kind, one.key)
    left = {one.version for one in offers(cache, silent) if not one.cached}
    assert "6.1.176-1" in left and "6.11.2-1~bpo12+1" not in left, "neither a suite nor the cache has the other"


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
    assert expand("debian:6.1 .. debian:6.12", lambda: LISTED, lenient=False)
    with pytest.raises(CannotJudge, match=r"have no kernel 99\.9") as absent:
        expand("debian:6.1 .. debian:99.9", lambda: LISTED, lenient=False)
    assert "name one of" in absent.value.remedy
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
