# SPDX-License-Identifier: GPL-2.0-only
"""Archives: mirrors as hosts name them, versions in their order, and packages that follow a release."""

import threading
from pathlib import Path

import pytest

from lab.base.errors import LabBroken, Misuse
from lab.packages import sources
from lab.packages.apt import following
from lab.packages.sources import paragraphs

ONE_LINE = """\
# deb http://mirror.example/debian stretch main
deb cdrom:[Debian 12]/ bookworm main
deb [arch=amd64 signed-by=/k.gpg] http://mirror.example/debian/ bookworm main contrib # main archive
deb-src http://mirror.example/sources bookworm main
deb http://security.example/debian-security bookworm-security main
deb http://vendor.example/apt bookworm main
deb http://vendor.example/apt bookworm non-free
"""
DEB822 = """\
Types: deb
# Types: deb-src
URIs: http://off.example/debian
Suites: bookworm
Components: main
Enabled: no

Types: deb deb-src
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main
 contrib

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main
"""


@pytest.fixture
def host(tmp_path: Path) -> Path:
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "debian-archive-keyring.gpg").touch()
    (tmp_path / "ubuntu-archive-keyring.gpg").touch()
    return tmp_path


def debian(host: Path, **environ: str) -> sources.Distribution:
    return sources.debian(host, host, environ)


def test_one_line_style(host: Path) -> None:
    (host / "sources.list").write_text(ONE_LINE)
    assert list(sources.host_sources(host)) == [
        ("http://mirror.example/debian", "bookworm"),
        ("http://security.example/debian-security", "bookworm-security"),
        ("http://vendor.example/apt", "bookworm"),
    ]
    found = debian(host)
    assert found.uri("trixie") == "http://mirror.example/debian"
    assert found.uri("bullseye-security") == "http://security.example/debian-security"
    assert found.keyring == host / "debian-archive-keyring.gpg"


def test_deb822_style(host: Path) -> None:
    (host / "sources.list.d/debian.sources").write_text(DEB822)
    (host / "sources.list.d/debian.sources.save").write_text(DEB822.replace("mirror", "stale"))
    suites = [suite for _, suite in sources.host_sources(host)]
    assert suites == ["bookworm", "bookworm-updates", "bookworm-security"]
    assert debian(host).main == "http://mirror.example/debian"
    assert debian(host).security == "http://mirror.example/debian-security"


@pytest.mark.parametrize(
    "uri",
    [
        "mirror+file:/etc/apt/mirrors/debian.list",
        "http://snapshot.example/archive/debian/20250520T000000Z",
        "file:/srv/mirror/debian",
    ],
)
def test_archives_of_other_shapes(host: Path, uri: str) -> None:
    (host / "sources.list").write_text(f"deb {uri} trixie main\n")
    assert debian(host).uri("forky") == uri


@pytest.mark.parametrize(
    "line", ["", "deb http://vendor.example/apt bookworm main\n", "deb http://x/ubuntu noble main\n"]
)
def test_no_debian_mirror_names_the_variables(host: Path, line: str) -> None:
    (host / "sources.list").write_text(line)
    assert not debian(host).has("bookworm")
    with pytest.raises(Misuse) as caught:
        debian(host).uri("bookworm")
    assert "BLKLAB_DEBIAN_MIRROR=" in caught.value.remedy
    assert "BLKLAB_ARCHIVE_BOOKWORM=" in caught.value.remedy
    with pytest.raises(Misuse, match="bookworm-security") as caught:
        debian(host).uri("bookworm-security")
    assert "BLKLAB_DEBIAN_SECURITY_MIRROR=" in caught.value.remedy


def test_variables_override(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (host / "sources.list").write_text(ONE_LINE)
    found = debian(host, BLKLAB_DEBIAN_MIRROR="file:/a", BLKLAB_DEBIAN_SECURITY_MIRROR="file:/b")
    assert (found.uri("sid"), found.uri("bookworm-security")) == ("file:/a", "file:/b")
    monkeypatch.setenv("BLKLAB_ARCHIVE_BOOKWORM_BACKPORTS", "file:/c")
    assert found.uri("bookworm-backports") == "file:/c"
    assert found.uri("bookworm") == "file:/a"


@pytest.mark.parametrize(
    "uri", ["file:/a\nTrusted: yes", "file:/a b", "mirror", "/a", "file:/a\t[trusted=yes]", "file:/é"]
)
def test_a_variable_that_is_no_address_writes_no_source(host: Path, monkeypatch: pytest.MonkeyPatch, uri: str) -> None:
    (host / "sources.list").write_text(ONE_LINE)
    for suite, variable in (("sid", "BLKLAB_DEBIAN_MIRROR"), ("bookworm-security", "BLKLAB_DEBIAN_SECURITY_MIRROR")):
        with pytest.raises(Misuse, match=variable):
            debian(host, **{variable: uri}).uri(suite)
    monkeypatch.setenv("BLKLAB_ARCHIVE_SID", uri)
    with pytest.raises(Misuse, match="BLKLAB_ARCHIVE_SID"):
        debian(host).uri("sid")


def test_the_keyring_is_demanded(host: Path) -> None:
    (host / "debian-archive-keyring.gpg").unlink()
    with pytest.raises(LabBroken) as caught:
        debian(host)
    assert "apt install debian-archive-keyring" in caught.value.remedy
    (host / "debian-archive-keyring.pgp").touch()
    assert debian(host).keyring.suffix == ".pgp"
    with pytest.raises(Misuse, match="not a file"):
        debian(host, BLKLAB_DEBIAN_KEYRING=str(host / "absent"))


def test_ubuntu(host: Path) -> None:
    text = "deb http://mirror.example/ubuntu/ noble main\ndeb http://security.example/ubuntu noble-security main\n"
    (host / "sources.list").write_text(text)
    found = sources.ubuntu(host, host, {})
    assert found.uri("noble-updates") == "http://mirror.example/ubuntu"
    assert found.uri("noble-security") == "http://security.example/ubuntu"


def test_a_field_may_have_several_lines() -> None:
    text = "# a comment\nPackage: a\nDepends: b,\n c\n\n\nPackage: d\nUrl: http://x:1\n"
    assert list(paragraphs(text)) == [{"package": "a", "depends": "b,\nc"}, {"package": "d", "url": "http://x:1"}]


def test_a_download_is_followed_by_the_size_of_its_files(tmp_path: Path) -> None:
    folders = tmp_path / "archives", tmp_path / "partial"
    folders[0].mkdir()
    (folders[0] / "earlier.deb").write_bytes(bytes(700_000))
    said: list[str] = []
    told = threading.Event()

    def tell(text: str) -> None:
        said.append(text)
        told.set()

    with following(tell, "fio", 2_000_000, folders, every=0.001):
        folders[1].mkdir()
        (folders[1] / "fio.deb").write_bytes(bytes(500_000))
        told.clear()
        assert told.wait(60)
        told.clear()
        assert told.wait(60)
    assert said[-1].startswith("fio: 0.5 of 2.0 MB, about ")
    ended = len(said)
    assert not told.wait(0.02) or len(said) == ended


def test_a_short_download_prints_nothing(tmp_path: Path) -> None:
    said: list[str] = []
    with following(said.append, "fio", 10, (tmp_path,)):
        (tmp_path / "fio.deb").write_bytes(bytes(10))
    assert said == []
