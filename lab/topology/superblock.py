# SPDX-License-Identifier: GPL-2.0-only
"""The room that md keeps for itself on the members of an array, and what arrays of a level lack."""

from collections.abc import Iterator, Mapping

from lab.topology.ranges import in_ranges

_PARITY = ("raid4", "raid5", "raid6")
_OF_PARITY = tuple(f"md/{key}" for key in ("stripe_cache_size", "preread_bypass_threshold", "group_thread_cnt"))
"""raid5_attrs of drivers/md/raid5.c. What else there is belongs to md_redundancy_group of drivers/md/md.c."""


def array_reasons(level: str, bitmap: str, chunk: int, settings: Mapping[str, str]) -> Iterator[str]:
    """What an array of ``level`` lacks of a ``bitmap`` and of ``settings``, attributes such as md/stripe_cache_size."""
    largest = int(settings.get("queue/max_sectors_kb", "0"))
    if level == "raid0" and largest > chunk >> 10:
        yield f"queue.max_sectors_kb {largest} exceeds {chunk >> 10}, its chunk, the largest request of raid0"
    if level == "raid0" and bitmap != "none":
        yield "raid0 has no bitmap"
    for key in (key for key in settings if key.startswith("md/")):
        levels = _PARITY if key in _OF_PARITY else (*_PARITY, "raid1", "raid10")
        if level not in levels:
            yield f"{key.replace('/', '.')}: {level} has no such attribute, {in_ranges(levels)} have"


def superblocks(size: int, chunk: int) -> int:
    """Bytes that an array keeps at the start of a member of ``size`` bytes: superblock, bitmap, room for a reshape.

    validate_geometry1 and choose_bm_space in super1.c of mdadm 4.4, for metadata 1.2; without a chunk it is 0.
    """
    room, bitmap = 128 << 20, 4 << 10
    while room << 10 > size and room > chunk:
        room //= 2
    for least, space in ((8 << 30, 32 << 10), (200 << 30, 64 << 10)):
        bitmap = space if size > least else bitmap
    return -(-((12 << 10) + bitmap + room) // (1 << 20)) << 20
