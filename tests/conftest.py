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
    for item in items:
        if item.path.is_relative_to(_HERE / "vm"):
            item.add_marker(pytest.mark.vm)


@pytest.fixture(scope="session")
def checkout() -> Path:
    """The folder that holds the sources under test."""
    return _HERE.parent
