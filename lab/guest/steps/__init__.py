# SPDX-License-Identifier: GPL-2.0-only
"""The steps of a guest as values; ``runner.sh`` and ``further.sh`` interpret them."""

from typing import Protocol


class Step(Protocol):
    """One line of tab-separated fields. The runner never evaluates a field."""

    def fields(self) -> tuple[str, ...]:
        """The verb and its arguments; ``lab.guest.job`` refuses tabs, newlines and empty fields."""

    def shell(self) -> str:
        """The same step as the line that a kernel developer would type."""
