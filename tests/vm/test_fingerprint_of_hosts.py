# SPDX-License-Identifier: GPL-2.0-only
"""A fingerprint contains nothing of the host: two that differ in everything but the downloaded packages are equal."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lab.base.cache import Cache
from lab.base.errors import BlklabError
from lab.kernels.resolve import resolve
from lab.packages import tools
from lab.session import open_lab
from tests.vm.linked_cache import linked_cache

pytestmark = pytest.mark.network
PROGRAM = Path(__file__).with_name("job_fingerprints.py")
CHECKOUT = PROGRAM.parents[2]
KERNEL = "debian:6.1"
SCENARIOS = ("shared-queue", "io-cost", "md-stripe-cache")
"""The modelled disk, control groups, and a program of further packages."""
DOWNLOADED = (tools.KIND, "kernels", "payload", "pins")
"""Kinds of cache entries that are taken over; what is compiled and packed from them is made anew."""
FOREIGN = (
    *("gcc", "cc", "cc1", "as", "ld", "cpp", "clang", "depmod", "kmod", "modinfo", "busybox", "cpio", "qboot"),
    *("fio", "mdadm", "dmsetup", "tc", "mkfs.ext4", "mkfs.xfs", "mkfs.btrfs", "qemu-system-x86_64", "qemu-img"),
)
"""Programs of the host, which fail here when they are started."""


@pytest.fixture(scope="module")
def downloaded() -> Path:
    """The cache with everything that the scenarios need."""
    try:
        cache = Cache.default()
        open_lab(cache)
        resolve(KERNEL, cache)
    except BlklabError as error:
        pytest.skip(f"no lab on this host: {error.message}")
    return cache.root


def fingerprints(words: tuple[str, ...], folder: Path, downloaded: Path, environment: Mapping[str, str]) -> Any:
    """What ``words`` followed by the program print, in ``folder``."""
    for name in ("home", "tmp", "work"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    own = {
        "BLKLAB_CACHE": str(linked_cache(folder / "cache", downloaded, DOWNLOADED).root),
        "PYTHONPATH": str(CHECKOUT),
        "HOME": str(folder / "home"),
        "TMPDIR": str(folder / "tmp"),
    }
    argv = [*words, sys.executable, str(PROGRAM), KERNEL, *SCENARIOS]
    done = subprocess.run(argv, env={**own, **environment}, cwd=folder / "work", check=False, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def failing_programs(folder: Path) -> str:
    folder.mkdir()
    for name in FOREIGN:
        (folder / name).write_text("#!/bin/sh\nexit 99\n")
        (folder / name).chmod(0o755)
    return str(folder)


def as_another_user() -> tuple[str, ...]:
    """Words that start a program as user 12345, with the permissions of this one; none where the kernel forbids it."""
    words = ("unshare", "--user", "--map-user=12345")
    allowed = (
        shutil.which("unshare") and subprocess.run([*words, "true"], check=False, capture_output=True).returncode == 0
    )
    return words if allowed else ()


def test_two_hosts_that_differ_have_the_same_fingerprints(tmp_path: Path, downloaded: Path) -> None:
    here = fingerprints(
        ("sh", "-c", 'umask 022; exec "$0" "$@"'),
        tmp_path / "here",
        downloaded,
        {"PATH": os.environ["PATH"], "LC_ALL": "C", "TZ": "UTC", "PYTHONHASHSEED": "1"},
    )
    elsewhere = fingerprints(
        (*as_another_user(), "sh", "-c", 'umask 077; exec "$0" "$@"'),
        tmp_path / "a place with a longer name" / "elsewhere",
        downloaded,
        {
            "PATH": f"{failing_programs(tmp_path / 'failing')}:{os.environ['PATH']}",
            "LC_ALL": "C.UTF-8",
            "LANG": "tr_TR.UTF-8",
            "TZ": "Pacific/Kiritimati",
            "PYTHONHASHSEED": "2",
            "CPATH": "/nowhere",
            "LIBRARY_PATH": "/nowhere",
            "GCC_EXEC_PREFIX": "/nowhere/",
            "SOURCE_DATE_EPOCH": "1",
            "QEMU_AUDIO_DRV": "none",
        },
    )
    assert here.keys() == elsewhere.keys()
    assert len(here) >= len(SCENARIOS)
    assert {name: elsewhere[name] for name in here if here[name] != elsewhere[name]} == {}


@pytest.mark.parametrize("word", ["BLKLAB_TOOLS", "BLKLAB_QEMU"])
def test_programs_of_the_host_show_in_the_fingerprint(word: str, tmp_path: Path, downloaded: Path) -> None:
    """The comparison can fail."""
    if not all(shutil.which(name) for name in ("gcc", "depmod", "qemu-system-x86_64")):
        pytest.skip("needs gcc, depmod and QEMU of the host")
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
    own = fingerprints((), tmp_path / "own", downloaded, environment)
    assert fingerprints((), tmp_path / "host", downloaded, {**environment, word: "host"}) != own
