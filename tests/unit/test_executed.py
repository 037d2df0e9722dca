# SPDX-License-Identifier: GPL-2.0-only
"""Executed functions by load, from the addresses that a plugin of QEMU wrote."""

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from lab.base.cache import Cache
from lab.base.errors import CannotJudge, LabBroken
from lab.executed import functions_of, loaded_modules
from lab.guest.steps import Step
from lab.guest.steps.device import Module
from lab.guest.steps.load import RunLoad, Sampling
from lab.native.programs import EXECUTED, plugin
from lab.profile import Symbol
from lab.session import PreparedJob

SYMBOLS = (
    Symbol(0xFFFFFFFF81000000, "blk_mq_submit_bio"),
    Symbol(0xFFFFFFFF81000100, "dd_insert.isra.0"),
    Symbol(0xFFFFFFFF81000200, "dd_dispatch"),
)
WATCHED = Sampling(10**7, 0, 10**9, {})


@dataclass(frozen=True)
class FakeModules:
    modules: Path


@dataclass(frozen=True)
class FakeJob:
    steps: tuple[Step, ...]
    kernel: FakeModules


def job(folder: Path, *steps: Step) -> PreparedJob:
    return cast(PreparedJob, FakeJob(steps, FakeModules(folder)))


def test_blocks_are_those_of_the_function_before_their_address(tmp_path: Path) -> None:
    (tmp_path / "window.0").write_text("ffffffff81000010\nffffffff81000104\nffffffffc0000000\nffffffff80000000\n")
    (tmp_path / "window.1").write_text("ffffffff81000200\n")
    found = functions_of(
        job(tmp_path, RunLoad("solo", "", WATCHED), RunLoad("short", "", None), RunLoad("both", "", WATCHED)),
        tmp_path,
        SYMBOLS,
    )
    assert found == {"solo": {"blk_mq_submit_bio", "dd_insert"}, "both": {"dd_dispatch"}}


def test_modules_count_where_their_symbols_are_known(tmp_path: Path) -> None:
    (tmp_path / "window.0").write_text("ffffffffc0000010\n")
    known = (*SYMBOLS, Symbol(0xFFFFFFFFC0000000, "nvme_queue_rq", "nvme_core"))
    assert functions_of(job(tmp_path, RunLoad("solo", "", WATCHED)), tmp_path, known) == {"solo": {"nvme_queue_rq"}}


def test_a_load_without_its_file_is_no_measurement(tmp_path: Path) -> None:
    with pytest.raises(LabBroken, match="saw no window of load solo"):
        functions_of(job(tmp_path, RunLoad("solo", "", WATCHED)), tmp_path, SYMBOLS)
    with pytest.raises(CannotJudge, match="no load of this cell has a sampled window"):
        functions_of(job(tmp_path), tmp_path, SYMBOLS)


def test_built_in_modules_are_not_loaded(tmp_path: Path) -> None:
    (tmp_path / "kernel").mkdir()
    (tmp_path / "kernel" / "null_blk.ko.xz").touch()
    assert loaded_modules(job(tmp_path, Module("null_blk"), Module("dm-mod"))) == {"null_blk"}


@pytest.mark.parametrize("version", [(7, 2, 22), (9, 0, 0), (10, 0, 2)])
def test_the_plugin_is_built_for_the_interface_of_its_qemu(version: tuple[int, ...], tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    library = plugin(cache, version, EXECUTED)
    names = subprocess.run(["nm", "-D", "--defined-only", str(library)], check=True, capture_output=True, text=True)
    assert names.stdout.split()[2::3] == ["qemu_plugin_install", "qemu_plugin_version"]
    cache.close()
