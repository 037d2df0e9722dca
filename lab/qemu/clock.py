# SPDX-License-Identifier: GPL-2.0-only
"""The two clocks a scenario may name, with what each of them cannot see."""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class VirtualClock:
    """Guest time counts guest instructions: one instruction is ``1 << shift`` ns."""

    shift: int = 0

    name: ClassVar[str] = "virtual"
    cannot_see: ClassVar[tuple[str, ...]] = (
        "Lock and cache-line contention are not modelled: every instruction takes the same time.",
        "True parallelism is not modelled: all vCPUs share one stream of instructions.",
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
    cannot_see: ClassVar[tuple[str, ...]] = (
        "Small effects drown in the host's noise: figures are distributions, not digits.",
    )


Clock = VirtualClock | WallClock
