# SPDX-License-Identifier: GPL-2.0-only
"""Values of fio's options, by "Parameter types" of its HOWTO (3.42) with kb_base=1024."""

import re

_SIZES = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40, "p": 50}
_TIMES = {
    "d": 86400 * 10**9,
    "h": 3600 * 10**9,
    "m": 60 * 10**9,
    "s": 10**9,
    "sec": 10**9,
    "ms": 10**6,
    "msec": 10**6,
    "us": 10**3,
    "usec": 10**3,
}


def fio_integer(text: str) -> int:
    """A decimal or 0x number without a unit. Raises ValueError."""
    if not re.fullmatch(r"\d{1,18}|0[xX][0-9a-fA-F]{1,15}", text):
        raise ValueError(f'"{text}" is not a whole number')
    return int(text, 16 if text[:2].lower() == "0x" else 10)


def fio_size(text: str) -> int:
    """Bytes; with a unit k, m, g, t or p these are powers of 1024, and ki, mi ... powers of 1000. Raises ValueError."""
    found = re.fullmatch(r"(0x[0-9a-f]+|\d+)([kmgtp]?)(i?)b?", text.lower())
    if found is None or (found[3] and not found[2]):
        raise ValueError(f'"{text}" is not a size')
    power = _SIZES[found[2]]
    return fio_integer(found[1]) * (1000 ** (power // 10) if found[3] else 1 << power)


def fio_time(text: str, unit: str = "s") -> int:
    """Nanoseconds; a bare number is in ``unit``. Raises ValueError."""
    found = re.fullmatch(r"(\d+)([a-z]*)", text.lower())
    if found is None or (found[2] or unit) not in _TIMES:
        raise ValueError(f'"{text}" is not a time')
    return fio_integer(found[1]) * _TIMES[found[2] or unit]


def fio_flag(text: str) -> bool:
    """A boolean; an option without a value is true. Raises ValueError."""
    if text not in ("", "0", "1", "true", "false"):
        raise ValueError(f'"{text}" is not 0 or 1')
    return text in ("", "1", "true")
