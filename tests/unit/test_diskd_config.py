# SPDX-License-Identifier: GPL-2.0-only
"""The language in which the in-guest disks are told their model, on the host."""

import shutil
import subprocess
from pathlib import Path

import pytest

from lab.native.programs import DIALECT, WARNINGS
from tests.unit.diskd_library import SOURCES

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
SHOW = Path(__file__).parents[1] / "diskd" / "show.c"


@pytest.fixture(scope="session")
def show(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("show") / "show"
    parts = [str(SOURCES / name) for name in ("ahead.c", "config.c", "level.c", "model.c", "share.c")]
    command = ["gcc", *DIALECT, *WARNINGS, f"-I{SOURCES}", "-o", str(program), str(SHOW), *parts]
    subprocess.run(command, check=True)
    return program


def understood(show: Path, text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([show], input=text, capture_output=True, text=True, check=False)


def test_everything_that_can_be_said(show: Path) -> None:
    text = """\
memory 1073741824
link port 1200000000 0
link slot 2000000000 500
disk a 1073741824 80000000 8500000
disk b 1073741824 80000000 0 rotation=8333333 ncq=32 zone=1000000:70000000 zone=900000000:40000000
disk c 512 1 0 ncq=256 look_ahead=2097152
disk d 512 1 5 ncq=2 coalesce=16
disk e 1024 1000 0 buffer=768
backstore a0 a lab00000 5001405100000000 port slot
backstore a1 a lab00000 5001405100000000 slot
backstore b0 b lab00001 5001405100000001
backstore c0 c lab00002 5001405100000002 port slot port slot
more a slot
more b
"""
    assert understood(show, text).stdout == text


def test_as_many_backstores_as_a_topology_may_have(show: Path) -> None:
    disks = "".join(f"disk d{number} 512 1 0\n" for number in range(256))
    paths = "".join(f"backstore p{number} d{number} s{number} {number + 1:x}\n" for number in range(256))
    assert understood(show, disks + paths).stdout == disks + paths
    assert understood(show, disks + paths + "backstore q d0 s 1\n").stderr == "line 513\n"


@pytest.mark.parametrize(
    "line",
    [
        "memory 0",
        "memory 1 2",
        "disk b 1024 1 0 buffer=1",
        "disk b 1024 1 0 buffer=2 buffer=2",
        "disk b 1024 1 5 buffer=2",
        "disk b 1024 1 0 buffer=2 ncq=2",
        "disk b 1024 1 0 buffer=2 look_ahead=512",
        "disk b 1024 1 0 buffer=2 coalesce=2",
        "disk b 1024 1 0 coalesce=1",
        "disk b 1024 1 0 coalesce=2 coalesce=2",
        "disk b 1024 1 0 look_ahead=0",
        "disk b 1024 1 0 look_ahead=512 look_ahead=512",
        "disk b 1024 1 0 rotation",
        "disk b 1024 1 0 rotation=0",
        "disk b 1024 1 0 rotation=1 rotation=2",
        "disk b 1024 1 0 ncq=0",
        "disk b 1024 1 0 ncq=257",
        "disk b 1024 1 0 zone=5",
        "disk b 1024 1 0 zone=0:5",
        "disk b 1024 1 0 zone=5:0",
        "disk b 1024 1 0 zone=5:1 zone=5:2",
        "disk b 1024 1 0 depth=5",
        "disk b 1024 1 0 " + " ".join(f"zone={n}:1" for n in range(1, 17)),
        "disk b 1024 1",
        "backstore p a s 1 l l l l l",
        "backstore p a s 1 m",
        "more a",
        "backstore p a s 1\nmore b",
        "backstore p a s 1\nmore a m",
        "backstore p a s 1\nmore a l l l l l",
        "backstore p a s 1" + 16 * "\nmore a",
        "link m 1",
    ],
)
def test_what_is_wrong_is_told_by_its_line(show: Path, line: str) -> None:
    done = understood(show, f"link l 1 0\ndisk a 1024 1 0\n{line}\nbackstore a a s 1\n")
    assert (done.returncode, done.stderr) == (1, f"line {3 + line.count(chr(10))}\n")


@pytest.mark.parametrize(
    ("offset", "length", "pieces"),
    [
        (0, 512, ["a 0 512"]),
        (1024, 512, ["b 0 512"]),
        (512, 1024, ["a 512 512", "b 0 512"]),
        (0, 4096, ["a 0 1024", "b 0 2048", "c 0 1024"]),
        (4096, 0, ["c 1024 0"]),
    ],
)
def test_a_transfer_goes_to_the_disks_that_it_lies_on(show: Path, offset: int, length: int, pieces: list[str]) -> None:
    disks = "disk a 1024 1 0\ndisk b 2048 1 0\ndisk c 1024 1 0\n"
    command, text = [str(show), str(offset), str(length)], disks + "backstore all a s 1\nmore b\nmore c\n"
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    assert [line.removeprefix("piece ") for line in done.stdout.splitlines() if line.startswith("piece")] == pieces
