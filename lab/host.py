# SPDX-License-Identifier: GPL-2.0-only
"""Facts about the host, read fresh each time."""

from pathlib import Path

_MEMINFO = Path("/proc/meminfo")


def memory_available() -> int:
    """Bytes that new processes may still use."""
    fields = dict(line.split(":", 1) for line in _MEMINFO.read_text().splitlines())
    return int(fields["MemAvailable"].split()[0]) << 10
