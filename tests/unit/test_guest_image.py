# SPDX-License-Identifier: GPL-2.0-only
from dataclasses import replace
from pathlib import Path

import pytest

from lab.base import contents
from lab.base.cache import Cache
from lab.base.digest import digest_file
from lab.base.errors import CannotJudge
from lab.guest.image import base_image, job_archive, with_dependencies
from lab.guest.initramfs import regular
from lab.guest.payload import Payload
from lab.guest.steps import Step
from lab.guest.steps.device import Module
from lab.guest.steps.load import Pause
from lab.kernels.model import Kernel
from tests.unit.payload_samples import kernel
from tests.unit.test_guest_initramfs import members

PAYLOAD = Payload({"init": regular(b"#!/bin/sh\n", executable=True)}, {})
MODULES = {"a": "", "b": "a", "c-d": "b a", "e": ""}


@pytest.fixture
def samples(tmp_path: Path) -> Kernel:
    return kernel(tmp_path / "modules", MODULES, builtin=("f",))


def names(path: Path) -> list[str]:
    return [member.name for member in members(path.read_bytes())]


def test_modules_come_with_what_they_need(cache: Cache, samples: Kernel) -> None:
    image = base_image(cache, samples, PAYLOAD, ["c_d", "f"])
    assert names(image.path) == ["init", "modules", "modules/a.ko", "modules/b.ko", "modules/c_d.ko", "TRAILER!!!"]
    assert image.digest == digest_file(image.path)


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
        for member in members(base_image(cache, kernel, PAYLOAD, ["a"]).path.read_bytes())
        if member.name == "modules/a.ko"
    )
    assert (carried == path.read_bytes()) is kept
    assert (carried == plain) is not kept


def test_an_image_is_made_once_and_the_same_anywhere(cache: Cache, samples: Kernel, tmp_path: Path) -> None:
    first = base_image(cache, samples, PAYLOAD, ["c-d", "e"])
    stamp = first.path.stat().st_mtime_ns
    assert base_image(cache, samples, PAYLOAD, ["e", "c_d", "e"]) == first
    assert first.path.stat().st_mtime_ns == stamp
    elsewhere = base_image(Cache(tmp_path / "other"), samples, PAYLOAD, ["c-d", "e"])
    assert elsewhere.path.read_bytes() == first.path.read_bytes()


def test_other_modules_payloads_and_kernels_make_other_images(cache: Cache, samples: Kernel, tmp_path: Path) -> None:
    other_kernel = Kernel(**{**samples.__dict__, "digest": "o" * 64})
    other_payload = Payload({"init": regular(b"#!/bin/dash\n")}, {})
    made = {
        base_image(cache, *parts, modules).path
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
