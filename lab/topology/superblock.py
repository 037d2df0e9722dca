# SPDX-License-Identifier: GPL-2.0-only
"""The room that md keeps for itself on the members of an array."""


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
