# SPDX-License-Identifier: GPL-2.0-only
"""The two clocks of scenarios, and what each cannot see."""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class VirtualClock:
    """Guest time counts guest instructions: one instruction is ``1 << shift`` ns."""

    shift: int = 0

    name: ClassVar[str] = "virtual"
    cannot_see: ClassVar[str] = (
        "It cannot see lock and cache-line contention or true parallelism: "
        "every instruction takes the same time, and all vCPUs share one instruction stream."
    )


@dataclass(frozen=True)
class WallClock:
    """Guest time is the host's.

    ``accelerator`` is ``kvm`` (only where a guest was seen to run) or ``tcg``; ``model`` is the
    CPU model that was seen to run under KVM.
    """

    accelerator: str = "tcg"
    model: str = "host"

    name: ClassVar[str] = "wall"
    cannot_see: ClassVar[str] = "It cannot see effects smaller than the noise of the host."


Clock = VirtualClock | WallClock
