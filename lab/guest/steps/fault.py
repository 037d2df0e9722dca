# SPDX-License-Identifier: GPL-2.0-only
"""Steps that break the guest on purpose, for selftests."""

from dataclasses import dataclass

from lab.guest.steps import Step, seconds

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
class Inject(Step):
    """Break the guest on purpose, ``after`` nanoseconds from now; only selftests do this."""

    fault: str
    after: int

    def fields(self) -> tuple[str, ...]:
        return ("inject", self.fault, seconds(self.after))

    def shell(self) -> str:
        return f"# selftest: {self.fault} after {seconds(self.after)} s"


LOSE_DISK = "lose-disk"
"""The fault of ``Lose``: the disk of the first LUN disappears."""


@dataclass(frozen=True)
class Lose(Step):
    """Remove a disk from the guest, ``after`` nanoseconds from now; only selftests do this."""

    lun: str
    after: int

    def fields(self) -> tuple[str, ...]:
        return ("lose", self.lun, seconds(self.after))

    def shell(self) -> str:
        return f"# selftest: {self.lun} is lost after {seconds(self.after)} s"
