# SPDX-License-Identifier: GPL-2.0-only
"""The steps of a guest as values; ``runner.sh`` and ``further.sh`` interpret them."""

import shlex
from dataclasses import dataclass, fields
from typing import ClassVar


@dataclass(frozen=True)
class Step:
    """One line of tab-separated fields. The runner never evaluates a field.

    ``verb`` is the first field, the others are those of the class. ``typed`` is the line that a kernel developer would
    type, with the fields in braces; ``{quoted}`` is ``value`` quoted for a shell.
    """

    verb: ClassVar[str]
    typed: ClassVar[str] = ""

    def fields(self) -> tuple[str, ...]:
        """The verb and its arguments; ``lab.guest.job`` refuses tabs, newlines and empty fields."""
        return (self.verb, *(str(getattr(self, field.name)) for field in fields(self)))

    def shell(self) -> str:
        """The same step as the line that a kernel developer would type."""
        return self.typed.format(**vars(self), quoted=shlex.quote(str(getattr(self, "value", ""))))


def seconds(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e9:.6f}"
