# SPDX-License-Identifier: GPL-2.0-only
import re
import stat
from pathlib import Path

import pytest

from lab.base.cache import Cache
from lab.base.contents import note
from lab.base.errors import CannotJudge, LabBroken
from lab.base.units import silent
from lab.guest import payload
from lab.native.elf import needed_libraries
from lab.packages import lock
from lab.packages.apt import Package
from lab.packages.store import Pin, Unpacked, write_pin
from tests.unit.payload_samples import SMALL_PROGRAM, lay_out

GUEST = Path(payload.__file__).parent


@pytest.fixture
def root(tmp_path: Path) -> Path:
    lay_out(tmp_path / "root")
    return tmp_path / "root"


def test_what_is_in_it_with_the_libraries_it_needs(root: Path) -> None:
    made = payload.assemble(root, {"fio": "3.39"})
    assert made.versions == {"fio": "3.39"}
    assert made.entries["init"].data == (GUEST / "init").read_bytes()
    assert made.entries["runner.sh"].data == (GUEST / "runner.sh").read_bytes()
    assert made.entries["bin/sh"] == payload.symlink("busybox")
    programs = ("init", "bin/busybox", "bin/fio", "bin/dmsetup", f"lib64/{payload.LOADER}")
    assert all(made.entries[name].mode & stat.S_IXUSR for name in programs)
    assert all(f"lib64/{name}" in made.entries for name in payload.LIBRARIES)
    made = payload.assemble(root, {})
    for name, entry in made.entries.items():
        if entry.data.startswith(b"\x7fELF") and name not in ("bin/busybox", f"lib64/{payload.LOADER}"):
            assert {f"lib64/{needed}" for needed in needed_libraries(entry.data)} <= made.entries.keys()


OWN = """break case cd command continue do done echo elif else esac exec exit export fi for if kill printf read return
set shift test then trap until wait while"""


def test_every_program_that_the_guest_calls_is_there(root: Path) -> None:
    """Words at the place of a command in init and runner.sh, but for the shell's own and their functions."""
    own = set(re.findall(r"\w+", OWN))
    entries = payload.assemble(root, {}).entries
    scripts = ("init", "runner.sh", *(f"verbs/{path.name}" for path in (GUEST / "verbs").iterdir()))
    texts = {script: (GUEST / script).read_text() for script in scripts}
    functions = set(re.findall(r"^(\w+)\(\)", "\n".join(texts.values()), re.MULTILINE))
    for script, whole in texts.items():
        text = re.sub(r"(?m)(^|\s)#.*$|'[^']*'|\$\(\(.*?\)\)", "", whole)
        place = r"(?:^|[;|&(]|\bdo\b|\bthen\b|\) )[ \t]*"
        commands = set(re.findall(place + r"([a-z][a-z0-9_]*)(?=[ \t;]|$)", text, re.MULTILINE))
        assert {"insmod", "fio"} <= commands or script != "runner.sh"
        missing = {word for word in commands - own - functions if f"bin/{word}" not in entries}
        assert not missing, script


SPIN, BRIEF_SPIN = (bytes.fromhex(f"4881f9{word}768e") for word in ("ff871300", "ff310000"))


@pytest.mark.parametrize(("loops", "brief"), [(SPIN, BRIEF_SPIN), (SPIN * 2, SPIN * 2), (b"", b"")])
def test_fio_calibrates_briefly_but_on_the_wall_clock(
    root: Path, monkeypatch: pytest.MonkeyPatch, cache: Cache, loops: bytes, brief: bytes
) -> None:
    (root / "usr/bin/fio").write_bytes(SMALL_PROGRAM.read_bytes() + loops)
    note(root)
    monkeypatch.setattr(payload, "_tree", lambda *_: Unpacked(root, Pin("x", ())))
    guest, packaged = payload.fetch(cache, silent), payload.assemble(root, {})
    assert guest.entries["bin/fio"].data.endswith(brief)
    assert payload.with_whole_calibration(guest).entries == packaged.entries
    assert {name for name in packaged.entries if packaged.entries[name] != guest.entries[name]} == (
        {"bin/fio"} if loops != brief else set()
    )


def test_the_digest_is_that_of_the_bytes(root: Path) -> None:
    made = payload.assemble(root, {"fio": "1"})
    assert payload.assemble(root, {"fio": "2"}).digest == made.digest
    (root / "usr/bin/busybox").write_bytes(b"another")
    note(root)
    assert payload.assemble(root, {}).digest != made.digest


def test_a_file_that_is_not_there_is_named(root: Path) -> None:
    (root / "usr/bin/fio").unlink()
    with pytest.raises(LabBroken, match="usr/bin/fio is missing") as caught:
        payload.assemble(root, {})
    assert f"rm -r {root}" in caught.value.remedy


def test_a_program_that_was_modified_does_not_reach_a_guest(root: Path) -> None:
    with (root / "usr/bin/fio").open("ab") as file:
        file.write(b"x")
    with pytest.raises(LabBroken, match="usr/bin/fio is damaged"):
        payload.assemble(root, {})


def test_a_payload_that_its_archive_lacks_is_an_error_of_the_lab(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def vanished(*arguments: object, **options: object) -> None:
        raise CannotJudge("trixie has no fio", remedy="name an archive")

    monkeypatch.setattr(lock, "unpacked", vanished)
    with pytest.raises(LabBroken, match="guest payload cannot be fetched: trixie has no fio") as caught:
        payload.fetch(Cache(tmp_path), silent)
    assert (caught.value.exit_code, caught.value.remedy) == (128, "name an archive")


def test_a_pinned_payload_needs_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BLKLAB_DEBIAN_MIRROR", "http://127.0.0.1:1")
    cache = Cache(tmp_path)
    pin = Pin(payload.PIN, (Package(lock.SUITE, "fio", "3.39-1", "0" * 64),))
    cache.entry("payload", pin.digest, lay_out)
    write_pin(cache, pin)
    told: list[str] = []
    made = payload.fetch(cache, told.append)
    assert (made.versions, told) == ({"fio": "3.39-1"}, [])
    assert made.entries["bin/busybox"].data == SMALL_PROGRAM.read_bytes()
