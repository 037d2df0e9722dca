# SPDX-License-Identifier: GPL-2.0-only
"""Steps that break the guest on purpose, for selftests."""

from dataclasses import dataclass

HOST_NOISE = "host-noise"
FAULTS = (
    "oops",
    "hang",
    "hung-task",
    "oom",
    "io-error",
    "flood",
    "lose-runner",
    "lose-handler",
    "corrupt-result",
    "truncate-result",
    "omit-result",
    HOST_NOISE,
)
"""Faults of ``Inject``, which prove that the lab detects them."""


@dataclass(frozen=True)
class Inject:
    """Break the guest on purpose, ``after`` nanoseconds from now; only selftests do this."""

    fault: str
    after: int

    def fields(self) -> tuple[str, ...]:
        return ("inject", self.fault, f"{self.after / 1e9:.6f}")

    def shell(self) -> str:
        return f"# selftest: {self.fault} after {self.after / 1e9:.6f} s"


LOSE_DISK = "lose-disk"
"""The fault of ``Lose``: the disk of the first LUN disappears."""


@dataclass(frozen=True)
class Lose:
    """Remove a disk from the guest, ``after`` nanoseconds from now; only selftests do this."""

    lun: str
    after: int

    def fields(self) -> tuple[str, ...]:
        return ("lose", self.lun, f"{self.after / 1e9:.6f}")

    def shell(self) -> str:
        return f"# selftest: {self.lun} is lost after {self.after / 1e9:.6f} s"
