# SPDX-License-Identifier: GPL-2.0-only
"""Which element of the way to the disks limits a load: the precedence, and the sentence.

What is nearer to the work comes first, for whatever is before it fills up behind it:

1. the path selector, when a link is busy throughout on one path and another path has room: what the
   link lacks, the selector withholds;
2. a disk or a link that is busy throughout: queues are full because of it, not the other way round;
3. the CPU, when it is busy throughout: requests that wait for it hold their tags meanwhile;
4. a full queue, of the host or of a LUN: only now is it known that what lies behind could do more;
5. the load itself, when all that it has in flight is at the devices and nothing is full.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.limits.elements import Element, ElementKind, elements
from harness.limits.limits import arm_bound
from harness.metrics.occupancy import LoadUse, mean_use
from harness.scenario.model import Arm, Load
from lab.base.errors import Misuse

PRECEDENCE = (
    ElementKind.SELECTOR,
    ElementKind.DISK,
    ElementKind.LINK,
    ElementKind.CPU,
    ElementKind.HOST_QUEUE,
    ElementKind.LUN_DEPTH,
    ElementKind.PACE,
    ElementKind.IODEPTH,
)
NOTHING = "nothing is saturated"
UNCOUNTED = "not known"
_OTHERS = 3
_DEVICES = (ElementKind.DISK, ElementKind.LINK)
_QUEUES = (ElementKind.HOST_QUEUE, ElementKind.LUN_DEPTH)


@dataclass(frozen=True)
class Bottleneck:
    """What limits one load of one arm. ``binding`` is None when nothing is known to be saturated.

    ``elements`` are all that the load's requests pass, in the order of PRECEDENCE. ``reached`` is the throughput
    over what the topology allows, None where it sets no bound.
    """

    arm: str
    load: str
    binding: Element | None
    elements: tuple[Element, ...]
    reached: float | None = None

    @property
    def label(self) -> str:
        if self.binding is None:
            return UNCOUNTED if self._uncounted else NOTHING
        return self.binding.label

    @property
    def _uncounted(self) -> tuple[Element, ...]:
        return tuple(element for element in self.elements if not element.counted)

    @property
    def besides(self) -> tuple[Element, ...]:
        """Elements at their limits besides the one that is named: devices next to a device, queues next to a queue.

        They limit other roles, or are as tight.
        """
        kinds = next((kinds for kinds in (_DEVICES, _QUEUES) if self.binding and self.binding.kind in kinds), ())
        full = (element for element in self.elements if element.binds and element.kind in kinds)
        return tuple(element for element in full if element != self.binding)

    @property
    def others(self) -> tuple[Element, ...]:
        """The fullest of the rest, fullest first."""
        named = (self.binding, *self.besides)
        rest = [element for element in self.elements if element not in named and element.share > 0]
        return tuple(sorted(rest, key=lambda element: -element.share)[:_OTHERS])

    @property
    def figure(self) -> str:
        """The figure of the binding element, and how full the next ones are."""
        beside = ", ".join(f"{element.short} {100 * element.share:.0f} %" for element in self.others)
        if self.binding is None:
            return "; ".join(f"{element.label} {element.figure}" for element in self._uncounted) or f"fullest: {beside}"
        if self.besides:
            beside = f"{', '.join(element.short for element in self.besides)} at the limit too; {beside}"
        return f"{self.binding.figure}; {beside}" if beside else self.binding.figure


def bottleneck(arm: Arm, load: Load, uses: Sequence[LoadUse], bw: Mapping[str, float]) -> Bottleneck:
    """From the uses of all boots of an arm, of which there is one at least: their mean decides.

    ``bw`` is the mean of what each role moved, in bytes per second.
    """
    ordered = sorted(elements(arm, load, mean_use(uses), bw), key=lambda element: PRECEDENCE.index(element.kind))
    binding = next((element for element in ordered if element.binds), None)
    return Bottleneck(arm.name, load.name, binding, tuple(ordered), _share_of_bound(arm, load, sum(bw.values())))


def _share_of_bound(arm: Arm, load: Load, bw: float) -> float | None:
    try:
        allowed = sum(arm_bound(arm, load, role, "bw") for role in load.roles)
    except Misuse:
        return None
    return bw / allowed
