# SPDX-License-Identifier: GPL-2.0-only
"""What every unit test may use."""

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="package")
def host_tools() -> Iterator[None]:
    """The host's compiler and depmod: these tests download nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BLKLAB_TOOLS", "host")
        yield
