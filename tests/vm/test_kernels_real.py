# SPDX-License-Identifier: GPL-2.0-only
"""The kernels of four Debian releases, fetched from the host's mirror into its own cache."""

import time

import pytest

from lab.base.cache import Cache
from lab.kernels.binaries import module_closure, read_module
from lab.kernels.resolve import resolve

pytestmark = pytest.mark.network
MODULES = ("null_blk", "tcm_loop", "target_core_iblock", "scsi_debug", "sd_mod", "dm_mod", "bfq", "kyber-iosched")
ELF = b"\x7fELF"
RESOLVED_WITHIN = 0.1  # seconds of CPU time


@pytest.mark.parametrize("series", ["5.10", "6.1", "6.12", "7.2"])
def test_a_packaged_kernel_is_complete(series: str) -> None:
    cache = Cache.default()
    kernel = resolve(f"debian:{series}", cache)
    assert kernel.version.series == series
    assert kernel.has("BLK_DEV_NULL_BLK")
    assert kernel.vmlinux is not None
    with kernel.vmlinux.open("rb") as vmlinux:
        assert vmlinux.read(4) == ELF
    closure = module_closure(kernel, [*MODULES, "mq-deadline"])
    assert not closure.missing
    assert all(read_module(path).startswith(ELF) for path in closure.load)
    started = time.process_time()
    assert resolve(f"debian:{series}", Cache(cache.root)) == kernel
    assert time.process_time() - started < RESOLVED_WITHIN
