# SPDX-License-Identifier: GPL-2.0-only
"""The lab of this host, and a kernel on it."""

import pytest

from lab.base.cache import Cache
from lab.base.errors import BlklabError
from lab.kernels.model import Kernel
from lab.kernels.resolve import resolve
from lab.session import Lab, open_lab

KERNEL = "debian:6.1"


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
