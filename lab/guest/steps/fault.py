# SPDX-License-Identifier: GPL-2.0-only
"""Steps that break the guest on purpose, for selftests."""

from lab.guest.steps import Delayed, Step

HOST_NOISE = "host-noise"
FAULTS = (
    *("oops", "hang", "hung-task", "oom", "io-error", "flood", "lose-runner", "lose-handler"),
    *("corrupt-result", "truncate-result", "omit-result", HOST_NOISE),
)
"""Faults of ``Inject``, which prove that the lab detects them."""


class Inject(Delayed, Step):
    """Break the guest on purpose, ``after`` nanoseconds from now; only selftests do this."""

    verb, sent, typed = "inject", ("fault", "seconds"), "# selftest: {0.fault} after {0.seconds} s"
    fault: str
    after: int


LOSE_DISK = "lose-disk"
"""The fault of ``Lose``: the disk of the first LUN disappears."""


class Lose(Delayed, Step):
    """Remove a disk from the guest, ``after`` nanoseconds from now; only selftests do this."""

    verb, sent, typed = "lose", ("lun", "seconds"), "# selftest: {0.lun} is lost after {0.seconds} s"
    lun: str
    after: int
