# SPDX-License-Identifier: GPL-2.0-only
"""A mistake in an expression of a scenario file, with its position."""


class ExpressionError(ValueError):
    """``offset`` counts characters of the expression from 0."""

    def __init__(self, offset: int, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.offset = offset
        self.message = message
        self.remedy = remedy
