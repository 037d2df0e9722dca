# SPDX-License-Identifier: GPL-2.0-only
"""What tests take from this host: kernels and the console script."""

import subprocess
import sys
from pathlib import Path

import pytest

from lab.base.cache import Cache
from lab.base.errors import BlklabError
from lab.kernels.model import Kernel
from lab.kernels.resolve import resolve

CHECKOUT = Path(__file__).parents[2]


def kernel_or_skip(spec: str) -> Kernel:
    """The kernel; without it the test is skipped."""
    try:
        return resolve(spec, Cache.default())
    except BlklabError as error:
        pytest.skip(f"{spec} cannot be had here: {error.message}")


def blklab(*words: str) -> "subprocess.CompletedProcess[str]":
    """``blklab WORDS`` to its end, whatever its status is."""
    command = [sys.executable, "-m", "harness", *words]
    return subprocess.run(command, cwd=CHECKOUT, check=False, capture_output=True, text=True)
