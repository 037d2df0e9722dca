# SPDX-License-Identifier: GPL-2.0-only
"""The lab of this host, a kernel on it, and a cluster of workers."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.base.cache import Cache
from lab.base.errors import BlklabError
from lab.kernels.model import Kernel
from lab.kernels.resolve import resolve
from lab.session import Lab, open_lab
from tests.process.dask_cluster import Cluster

KERNEL = "debian:6.1"


@pytest.fixture(autouse=True, scope="package")
def lab_tools() -> Iterator[None]:
    """The lab's own compiler and depmod: figures depend on them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("BLKLAB_TOOLS", raising=False)
        yield


@pytest.fixture(scope="module")
def lab() -> Lab:
    try:
        return open_lab(Cache.default())
    except BlklabError as error:
        pytest.skip(f"no lab on this host: {error.message}")


@pytest.fixture(scope="module")
def machine(lab: Lab) -> tuple[Lab, Kernel]:
    try:
        return lab, resolve(KERNEL, lab.cache)
    except BlklabError as error:
        pytest.skip(f"{KERNEL} cannot be had here: {error.message}")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    pytest.importorskip("distributed")
    started = Cluster(tmp_path, {**os.environ})
    yield started
    started.stop()
