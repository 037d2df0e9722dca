# SPDX-License-Identifier: GPL-2.0-only
"""The two clocks a scenario may name, with what each of them cannot see."""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class VirtualClock:
    """Guest time counts guest instructions: one instruction is ``1 << shift`` ns."""

    shift: int = 0

    name: ClassVar[str] = "virtual"
    cannot_see: ClassVar[str] = (
        "It cannot see lock and cache-line contention or true parallelism: "
        "every instruction takes the same time, and all vCPUs share one stream of them."
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
    cannot_see: ClassVar[str] = "It cannot see small effects: they drown in the host's noise."


Clock = VirtualClock | WallClock
