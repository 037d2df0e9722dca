# SPDX-License-Identifier: GPL-2.0-only
"""Snapshots of guests that wait for their job, one for each kernel, archive and machine: made once, kept in the cache.

They only save time: a guest that goes on from one leaves the same bytes as a guest that booted. So whatever goes wrong
with a snapshot, the guest boots.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.base.cache import Cache
from lab.base.contents import demand_intact
from lab.base.digest import canonical, digest_bytes
from lab.base.errors import LabBroken
from lab.qemu import snapshot
from lab.qemu.argv import CONSOLE_FILE, MachineSpec
from lab.qemu.machine import Limits

KIND = "snapshot"
_INPUTS = ("kernel", "base", "qemu", "steady", "argv")
"""Entries of a boot's fingerprint that determine the state in which its guest waits for a job."""
_tried_in_vain: set[tuple[Path, str]] = set()


@dataclass(frozen=True)
class WarmGuest:
    """``state`` is what a machine is restored from, ``console`` what its kernel had said until then."""

    key: str
    state: Path
    console: Path


def key_of(fingerprint: Mapping[str, str]) -> str:
    """The name in the cache of the snapshot that a boot with this fingerprint can go on from."""
    return digest_bytes(canonical([[fingerprint[name] for name in _INPUTS], snapshot.key_words()]))


def prepared_guest(
    cache: Cache, fingerprint: Mapping[str, str], spec: MachineSpec, limits: Limits, abort: threading.Event | None
) -> WarmGuest | None:
    """The snapshot for ``spec``; taken when the cache has none. None where that failed in this process before."""
    key = key_of(fingerprint)
    if (cache.root, key) in _tried_in_vain:
        return None
    try:
        folder = cache.entry(KIND, key, lambda into: snapshot.save(spec, into, limits, abort), abort)
    except LabBroken:
        if abort is None or not abort.is_set():
            _tried_in_vain.add((cache.root, key))
        return None
    guest = WarmGuest(key, folder / snapshot.STATE_FILE, folder / CONSOLE_FILE)
    try:
        demand_intact(guest.console)
        demand_intact(guest.state)
    except LabBroken:
        cache.discard(KIND, key)
        return None
    return guest


def complete_console(guest: WarmGuest, folder: Path) -> None:
    """Put what the kernel had said before the snapshot in front of what it said in ``folder``. Raises OSError."""
    console = folder / CONSOLE_FILE
    console.write_bytes(guest.console.read_bytes() + console.read_bytes())


def refuse(cache: Cache, guest: WarmGuest) -> None:
    """Remove a snapshot from which QEMU did not start; this process takes no other one for the same machine."""
    _tried_in_vain.add((cache.root, guest.key))
    cache.discard(KIND, guest.key)
