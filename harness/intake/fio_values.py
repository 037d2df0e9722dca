# SPDX-License-Identifier: GPL-2.0-only
"""Values of fio's options, by "Parameter types" of its HOWTO (3.42) with kb_base=1024."""

import re

_MICROSECONDS = {"d": 86_400_000_000, "h": 3_600_000_000, "m": 60_000_000, "s": 1_000_000, "ms": 1000, "us": 1}


def fio_integer(text: str) -> int:
    """A decimal or 0x number without a unit. Raises ValueError."""
    if not re.fullmatch(r"\d{1,18}|0[xX][0-9a-fA-F]{1,15}", text):
        raise ValueError(f'"{text}" is not a whole number')
    return int(text, 16 if text[:2].lower() == "0x" else 10)


def fio_size(text: str) -> int:
    """Bytes; with a unit k, m, g, t or p these are powers of 1024, and ki, mi ... powers of 1000. Raises ValueError."""
    match = re.fullmatch(r"(0x[0-9a-f]+|\d+)(?:([kmgtp])(i?))?b?", text.lower())
    if match is None:
        raise ValueError(f'"{text}" is not a size')
    power = " kmgtp".index(match[2] or " ")
    return fio_integer(match[1]) * int((1000 if match[3] else 1024) ** power)


def fio_time(text: str, unit: str = "s") -> int:
    """Nanoseconds; a bare number is in ``unit``. Raises ValueError."""
    match = re.fullmatch(r"(\d+)(?:([dhm])|([mu]?s)(?:ec)?)?", text.lower())
    if match is None:
        raise ValueError(f'"{text}" is not a time')
    return fio_integer(match[1]) * _MICROSECONDS[match[2] or match[3] or unit] * 1000


def fio_flag(text: str) -> bool:
    """A boolean; an option without a value is true. Raises ValueError."""
    if text not in ("", "0", "1", "true", "false"):
        raise ValueError(f'"{text}" is not 0 or 1')
    return text in ("", "1", "true")
