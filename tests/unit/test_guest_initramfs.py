# SPDX-License-Identifier: GPL-2.0-only
import stat
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.guest.initramfs import ArchiveEntry, archive, folder, regular, symlink

TRAILER = "TRAILER!!!"


@dataclass(frozen=True)
class Member:
    """What a reader of the "newc" format finds, by the kernel's own description of it."""

    name: str
    mode: int
    data: bytes
    number: int
    links: int
    other: tuple[int, ...]


def members(data: bytes) -> list[Member]:
    """Every member up to the end; asserts alignment and magic as init/initramfs.c does."""
    found, at = [], 0
    while at < len(data):
        assert at % 4 == 0
        assert data[at : at + 6] == b"070701"
        ino, mode, uid, gid, links, mtime, size, major, minor, rmajor, rminor, length, check = (
            int(data[at + 6 + 8 * field : at + 14 + 8 * field], 16) for field in range(13)
        )
        name = data[at + 110 : at + 110 + length]
        assert name.endswith(b"\0")
        start = at + (110 + length + 3) // 4 * 4
        at = start + (size + 3) // 4 * 4
        other = (uid, gid, mtime, major, minor, rmajor, rminor, check)
        found.append(Member(name[:-1].decode(), mode, data[start : start + size], ino, links, other))
    return found


def test_members_are_sorted_below_their_folders_owned_by_root_and_without_times() -> None:
    made = members(archive({"b": regular(b"data"), "a": folder(), "c": symlink("b")}))
    assert [member.name for member in made] == ["a", "b", "c", TRAILER]
    assert {member.other for member in made} == {(0,) * 8}
    assert [member.number for member in made] == [1, 2, 3, 0]
    assert [member.data for member in made] == [b"", b"data", b"b", b""]
    names = [member.name for member in members(archive({"x/y/z": regular(b""), "x-y": regular(b"")}))]
    assert names == ["x", "x-y", "x/y", "x/y/z", TRAILER]


def test_modes_and_explicit_folders_are_kept() -> None:
    entries = {"d": folder(), "f": regular(b""), "l": symlink("f"), "p": regular(b"", executable=True)}
    modes = {member.name: member.mode for member in members(archive(entries))}
    assert stat.filemode(modes["d"]) == "drwxr-xr-x"
    assert stat.filemode(modes["f"]) == "-rw-r--r--"
    assert stat.filemode(modes["l"]) == "lrwxrwxrwx"
    assert stat.filemode(modes["p"]) == "-rwxr-xr-x"
    made = members(archive({"x": ArchiveEntry(stat.S_IFDIR | 0o700), "x/y": regular(b"")}))
    assert stat.filemode(made[0].mode) == "drwx------"


def test_archives_can_be_concatenated() -> None:
    both = archive({"init": regular(b"1")}) + archive({"job/script": regular(b"2")})
    assert [member.name for member in members(both)] == ["init", TRAILER, "job", "job/script", TRAILER]


@pytest.mark.parametrize("size", range(9))
def test_every_alignment(size: int) -> None:
    data = b"x" * size
    made = members(archive({"n" * (size + 1): regular(data)}))
    assert (made[0].name, made[0].data) == ("n" * (size + 1), data)


names = st.text(st.characters(categories=("L", "N"), include_characters="-_."), min_size=1, max_size=9).filter(
    lambda name: name not in (".", "..")
)


@given(st.dictionaries(names, st.binary(max_size=50)))
def test_every_request_completes_in_any_order(files: dict[str, bytes]) -> None:
    entries = {f"job/{name}": regular(data) for name, data in files.items()}
    made = archive(entries)
    assert {m.name: m.data for m in members(made) if stat.S_ISREG(m.mode)} == {f"job/{n}": d for n, d in files.items()}
    assert archive(dict(reversed(entries.items()))) == made
