# SPDX-License-Identifier: GPL-2.0-only
"""Guest archives: modules with what they need, jobs, and the format that the kernel reads."""

import stat
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.base import contents
from lab.base.cache import Cache
from lab.base.digest import digest_file
from lab.base.errors import CannotJudge
from lab.guest.image import base_image, job_archive, with_dependencies
from lab.guest.payload import ArchiveEntry, Payload, archive, folder, regular, symlink
from lab.guest.steps import Step
from lab.guest.steps.device import Module
from lab.guest.steps.load import Pause
from lab.kernels.model import Kernel
from tests.unit.payload_samples import kernel

PAYLOAD = Payload({"init": regular(b"#!/bin/sh\n", executable=True)}, {})
MODULES = {"a": "", "b": "a", "c-d": "b a", "e": ""}


@pytest.fixture
def samples(tmp_path: Path) -> Kernel:
    return kernel(tmp_path / "modules", MODULES, builtin=("f",))


def names(path: Path) -> list[str]:
    return [member.name for member in members(path.read_bytes())]


def test_modules_come_with_what_they_need(cache: Cache, samples: Kernel) -> None:
    image = base_image(cache, samples, PAYLOAD, ["c_d", "f"])
    assert names(image) == ["init", "modules", "modules/a.ko", "modules/b.ko", "modules/c_d.ko", "TRAILER!!!"]
    assert contents.lasting_digest(image) == digest_file(image)


@pytest.mark.parametrize(("enforced", "kept"), [("y", True), ("n", False)])
def test_modules_go_unsigned_where_the_kernel_takes_them(
    cache: Cache, samples: Kernel, enforced: str, *, kept: bool
) -> None:
    path = samples.modules / "a.ko"
    plain = path.read_bytes()
    path.write_bytes(plain + bytes(8) + bytes(4) + b"~Module signature appended~\n")
    contents.note(samples.modules)
    kernel = replace(samples, config={**samples.config, "CONFIG_MODULE_SIG_FORCE": enforced})
    (carried,) = (
        member.data
        for member in members(base_image(cache, kernel, PAYLOAD, ["a"]).read_bytes())
        if member.name == "modules/a.ko"
    )
    assert (carried == path.read_bytes()) is kept
    assert (carried == plain) is not kept


def test_an_image_is_made_once_and_the_same_anywhere(cache: Cache, samples: Kernel, tmp_path: Path) -> None:
    first = base_image(cache, samples, PAYLOAD, ["c-d", "e"])
    stamp = first.stat().st_mtime_ns
    assert base_image(cache, samples, PAYLOAD, ["e", "c_d", "e"]) == first
    assert first.stat().st_mtime_ns == stamp
    elsewhere = base_image(Cache(tmp_path / "other"), samples, PAYLOAD, ["c-d", "e"])
    assert elsewhere.read_bytes() == first.read_bytes()


def test_other_modules_payloads_and_kernels_make_other_images(cache: Cache, samples: Kernel, tmp_path: Path) -> None:
    other_kernel = Kernel(**{**samples.__dict__, "digest": "o" * 64})
    other_payload = Payload({"init": regular(b"#!/bin/dash\n")}, {})
    made = {
        base_image(cache, *parts, modules)
        for parts in ((samples, PAYLOAD), (samples, other_payload), (other_kernel, PAYLOAD))
        for modules in (["a"], ["b"])
    }
    assert len(made) == 6


def test_steps_get_their_dependencies_once_and_keep_their_parameters(samples: Kernel) -> None:
    steps: list[Step] = [
        Module("f"),
        Module("b", "x=1"),
        Pause(1),
        Module("c-d", "y=2"),
        Module("b", "x=1"),
        Module("e"),
    ]
    assert with_dependencies(samples, steps) == (
        Module("a"),
        Module("b", "x=1"),
        Pause(1),
        Module("c_d", "y=2"),
        Module("e"),
    )


def test_a_module_that_the_kernel_lacks(cache: Cache, samples: Kernel) -> None:
    with pytest.raises(CannotJudge, match=r"6\.1\.0-50-amd64 has no module nosuch, neither"):
        base_image(cache, samples, PAYLOAD, ["nosuch", "a", "neither"])
    with pytest.raises(CannotJudge, match="nosuch"):
        with_dependencies(samples, [Module("nosuch")])


def test_the_job_lies_in_its_folder() -> None:
    made = members(job_archive({"script": b"x\n", "deadline": b"9\n"}))
    assert [member.name for member in made] == ["job", "job/deadline", "job/script", "TRAILER!!!"]


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
    found = [member.name for member in members(archive({"x/y/z": regular(b""), "x-y": regular(b"")}))]
    assert found == ["x", "x-y", "x/y", "x/y/z", TRAILER]


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


NAMES = st.text(st.characters(categories=("L", "N"), include_characters="-_."), min_size=1, max_size=9).filter(
    lambda name: name not in (".", "..")
)


@given(st.dictionaries(NAMES, st.binary(max_size=50)))
def test_every_request_completes_in_any_order(files: dict[str, bytes]) -> None:
    entries = {f"job/{name}": regular(data) for name, data in files.items()}
    made = archive(entries)
    assert {m.name: m.data for m in members(made) if stat.S_ISREG(m.mode)} == {f"job/{n}": d for n, d in files.items()}
    assert archive(dict(reversed(entries.items()))) == made
