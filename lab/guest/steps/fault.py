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
"""What ``Inject`` can do to a guest, to prove that the lab notices."""


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
"""A fault as those of ``lab.guest.steps.fault.FAULTS``, of the first LUN."""


@dataclass(frozen=True)
class Lose:
    """Take a disk away from the guest, ``after`` nanoseconds from now; only selftests do this."""

    lun: str
    after: int

    def fields(self) -> tuple[str, ...]:
        return ("lose", self.lun, f"{self.after / 1e9:.6f}")

    def shell(self) -> str:
        return f"# selftest: {self.lun} is lost after {self.after / 1e9:.6f} s"
