# SPDX-License-Identifier: GPL-2.0-only
"""What every test may use."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# The same examples on every run: a failure can be repeated, and a green run says the same twice.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

# A shell without job control starts background jobs with SIGINT ignored, nohup ignores SIGHUP; children inherit both.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

_HERE = Path(__file__).parent
_HANG, _LONG_HANG = 3600, 8 * 3600
"""Seconds after which a test that boots hangs, and one that takes minutes: several times what it needs on a host with
a load of 8. How fast it is decides nothing."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that boot kernels."""
    for item in items:
        if item.path.is_relative_to(_HERE / "vm"):
            item.add_marker(pytest.mark.vm)
            slow = item.get_closest_marker("slow") is not None
            item.add_marker(pytest.mark.timeout(_LONG_HANG if slow else _HANG))


@pytest.fixture(scope="session")
def checkout() -> Path:
    """The folder that holds the sources under test."""
    return _HERE.parent


@pytest.fixture(autouse=True, scope="session")
def host_tools() -> Iterator[None]:
    """The host's compiler and depmod: no test but those that boot kernels downloads the lab's own.

    Its terminal has a cursor, whatever the one that starts the tests is.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BLKLAB_TOOLS", "host")
        patch.setenv("TERM", "xterm")
        yield
