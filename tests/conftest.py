# SPDX-License-Identifier: GPL-2.0-only
"""What every test may use."""

from pathlib import Path

import pytest
from hypothesis import settings

# The same examples on every run: a failure can be repeated, and a green run says the same twice.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that boot kernels. With -n a worker takes a module at a time; one takes all of tests/vm.

    A guest uses all cores, and the tests of the wall clock would measure a second one as noise.
    """
    for item in items:
        booting = item.path.is_relative_to(_HERE / "vm")
        if booting:
            item.add_marker(pytest.mark.vm)
        item.add_marker(pytest.mark.xdist_group("vm" if booting else item.path.stem))


@pytest.fixture(scope="session")
def checkout() -> Path:
    """The folder that holds the sources under test."""
    return _HERE.parent
