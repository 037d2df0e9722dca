# SPDX-License-Identifier: GPL-2.0-only
"""Steps that break the guest on purpose, for selftests."""

from dataclasses import dataclass

from lab.guest.steps import Delayed

HOST_NOISE = "host-noise"
FAULTS = (
    *("oops", "hang", "hung-task", "oom", "io-error", "flood", "lose-runner", "lose-handler"),
    *("corrupt-result", "truncate-result", "omit-result", HOST_NOISE),
)
"""Faults of ``Inject``, which prove that the lab detects them."""


@dataclass(frozen=True)
class Inject(Delayed):
    """Break the guest on purpose, ``after`` nanoseconds from now; only selftests do this."""

    verb, sent = "inject", ("fault", "seconds")
    fault: str
    after: int


LOSE_DISK = "lose-disk"
"""The fault of ``Lose``: the disk of the first LUN disappears."""


@dataclass(frozen=True)
class Lose(Delayed):
    """Remove a disk from the guest, ``after`` nanoseconds from now; only selftests do this."""

    verb, sent = "lose", ("lun", "seconds")
    lun: str
    after: int
