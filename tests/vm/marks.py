# SPDX-License-Identifier: GPL-2.0-only
"""Marks of tests that boot kernels; tests/conftest.py marks each as one of ``vm``."""

import pytest

from lab.base import host


def building() -> list[pytest.MarkDecorator]:
    """Of tests that build kernels."""
    absent = bool(host.missing_needs(host.BUILD_NEEDS))
    reason = "needs scripts/host-packages --build"
    return [
        pytest.mark.network,
        pytest.mark.slow,
        pytest.mark.skipif(absent, reason=reason),
    ]
