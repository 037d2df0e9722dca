# SPDX-License-Identifier: GPL-2.0-only
"""How a long operation says what it is waiting for."""

from collections.abc import Callable

Tell = Callable[[str], None]
"""Receives one line of plain text."""


def silent(_: str) -> None:
    """Discard it."""
