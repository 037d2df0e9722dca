# SPDX-License-Identifier: GPL-2.0-only
"""How flows share the elements that they go through: max-min fairness by progressive filling.

A level rises for all flows alike until something is full; the flows behind it stay, and the others rise on
(Bertsekas and Gallager, Data Networks, 6.5.2). Where a flow may choose its way, the level at which nothing more
goes through is found by minimum cuts: each cut that is too small gives a lower level, until none is
(Dinkelbach, "On Nonlinear Fractional Programming", 1967). A cut mixes ways only where the ways of two
elements overlap without those of one being among those of the other; in a tree of links they do not.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import networkx

_SAME = 1e-9
_UNIT = 1 << 10
"""Capacities are whole numbers of bytes/1024 per second, so that flows are exact."""
_CUT_SLACK = 1e-6
_HALVINGS = 10
_DREAM = 1e30


class FlowKind(StrEnum):
    """What can be full."""

    DISK = "disk"
    LINK = "link"
    HOST = "host queue"
    LUN = "LUN queue"
    DEPTH = "depth"


@dataclass(frozen=True)
class FlowElement:
    """``capacity`` is one second a second of disks and links, of queues the requests that fit.

    ``part`` is the role where each is given a queue of its own, the direction of a link that has room for both.
    """

    kind: FlowKind
    name: str
    capacity: float
    part: str = ""


@dataclass(frozen=True)
class FlowChoice:
    """``share`` bytes for each byte of the flow go by any of ``ways``: each the elements on it, from the
    disk on, and how many seconds each takes for a byte.
    """

    share: float
    ways: tuple[Mapping[FlowElement, float], ...]


@dataclass(frozen=True)
class Flow:
    """``fixed`` maps elements to their seconds (tag-seconds of queues) for each byte of the flow.

    ``pace`` is its bytes per second at level 1.
    """

    name: str
    pace: float
    fixed: Mapping[FlowElement, float]
    choices: tuple[FlowChoice, ...] = ()

    def elements(self) -> tuple[FlowElement, ...]:
        """Everything that it goes through, in the same order at each start of Python."""
        chosen = (element for choice in self.choices for way in choice.ways for element in way)
        return tuple(dict.fromkeys((*self.fixed, *chosen)))


@dataclass(frozen=True)
class Filled:
    """``rates`` of ``flows`` in bytes per second, by name. ``full`` are elements that hold a flow back."""

    flows: Sequence[Flow]
    rates: Mapping[str, float]
    full: frozenset[FlowElement]

    @cached_property
    def use(self) -> Mapping[FlowElement, float]:
        """The part of each capacity that the rates take; where flows may choose, by the most even choice."""
        return _even_use(_State(self.flows, self.rates), self.full)


def fill(flows: Sequence[Flow]) -> Filled:
    """The max-min fair rates of flows of which each goes through something."""
    rates: dict[str, float] = {}
    full: set[FlowElement] = set()
    while waiting := [flow for flow in flows if flow.name not in rates]:
        state = _State(flows, rates)
        level, tight, blocked = _highest(state)
        held = [flow for flow in waiting if flow.name in blocked or not tight.isdisjoint(flow.fixed)] or waiting
        rates.update({flow.name: level * flow.pace for flow in held})
        full |= tight
    return Filled(flows, rates, frozenset(full))


class _State:
    """The flows at some point of the filling: those in ``rates`` are settled, the others rise with the level."""

    def __init__(self, flows: Sequence[Flow], rates: Mapping[str, float]) -> None:
        self._rates = rates
        self.choices = [(flow, choice) for flow in flows for choice in flow.choices]
        self.free: dict[FlowElement, float] = {}
        self.rise: dict[FlowElement, float] = {}
        for flow in flows:
            for element in flow.elements():
                self.free.setdefault(element, element.capacity)
            for element, seconds in flow.fixed.items():
                taken, rising = self._pair(flow)
                self.free[element] -= taken * seconds
                self.rise[element] = self.rise.get(element, 0.0) + rising * seconds
        self.seconds = self._least_seconds()
        self._ways = self._chains()

    def _pair(self, flow: Flow) -> tuple[float, float]:
        """Bytes per second at level 0, and more for each level."""
        return (self._rates[flow.name], 0.0) if flow.name in self._rates else (0.0, flow.pace)

    def demand(self, flow: Flow, choice: FlowChoice) -> tuple[float, float]:
        taken, rising = self._pair(flow)
        return taken * choice.share, rising * choice.share

    def room(self, element: FlowElement) -> tuple[float, float]:
        """Bytes per second that it leaves to choices: at level 0, and less for each level."""
        seconds = self.seconds[element]
        return self.free[element] / seconds, self.rise.get(element, 0.0) / seconds

    def _least_seconds(self) -> dict[FlowElement, float]:
        """Seconds for a byte of choices; where they differ, the fewest, so that the room is never too small."""
        least: dict[FlowElement, float] = {}
        for _, choice in self.choices:
            for way in choice.ways:
                for element, seconds in way.items():
                    least[element] = min(seconds, least.get(element, seconds))
        return least

    def _chains(self) -> list[list[tuple[FlowElement, ...]]]:
        """Each choice's ways: the disk first, then from what few ways use to what many use."""
        users: dict[FlowElement, int] = {}
        for _, choice in self.choices:
            for way in choice.ways:
                for element in way:
                    users[element] = users.get(element, 0) + 1

        def place(element: FlowElement) -> tuple[bool, bool, int]:
            return element.kind is not FlowKind.DISK, element.kind is not FlowKind.LUN, users[element]

        return [[tuple(sorted(way, key=place)) for way in choice.ways] for _, choice in self.choices]

    def network(self, level: float, loose: float, full: Collection[FlowElement]) -> "networkx.DiGraph[object]":
        """Source, choices, elements (an edge each), sink. All but ``full`` have ``loose`` times their capacity."""
        import networkx

        graph: networkx.DiGraph[object] = networkx.DiGraph()
        for number, (flow, choice) in enumerate(self.choices):
            taken, rising = self.demand(flow, choice)
            graph.add_edge(_SOURCE, number, capacity=_whole(taken + level * rising))
            for chain in self._ways[number]:
                steps: list[object] = [number]
                for element in chain:
                    at_level_0, less = self.room(element)
                    beyond = self.free[element] / self.seconds[element] * (1 - loose) if element not in full else 0.0
                    graph.add_edge((element, 0), (element, 1), capacity=_whole(at_level_0 - level * less - beyond))
                    steps += [(element, 0), (element, 1)]
                for near, far in pairwise([*steps, _SINK]):
                    if not graph.has_edge(near, far):
                        graph.add_edge(near, far)
        return graph


_SOURCE, _SINK = "source", "sink"


def _whole(rate: float) -> int:
    return max(0, round(rate * _UNIT))


def _highest(state: _State) -> tuple[float, set[FlowElement], set[str]]:
    """The level at which something is full, what that is, and the flows that it blocks by their choices."""
    levels = {element: state.free[element] / rise for element, rise in state.rise.items() if rise > 0}
    highest = min(levels.values(), default=_DREAM)
    tight = {element for element, each in levels.items() if each <= highest * (1 + _SAME)}
    blocked: set[str] = set()
    while state.choices:
        cut, behind = _smallest_cut(state, highest)
        lower = _level_of(state, cut, behind)
        if lower >= highest * (1 - _CUT_SLACK):
            break
        highest, tight = lower, cut
        blocked = {state.choices[number][0].name for number in behind}
    return highest, tight, blocked


def _smallest_cut(state: _State, level: float) -> tuple[set[FlowElement], set[int]]:
    """Elements of the cut, and the choices that are behind it as seen from the sink."""
    import networkx

    graph = state.network(level, 1.0, ())
    _, (source_side, _) = networkx.minimum_cut(graph, _SOURCE, _SINK)
    cut = {element for element in state.seconds if (element, 0) in source_side and (element, 1) not in source_side}
    return cut, {node for node in source_side if isinstance(node, int)}


def _level_of(state: _State, cut: Collection[FlowElement], behind: Collection[int]) -> float:
    """The level at which the choices behind a cut fill it."""
    demands = [state.demand(*state.choices[number]) for number in behind]
    rooms = [state.room(element) for element in cut]
    rising = sum(rise for _, rise in demands) + sum(less for _, less in rooms)
    left = sum(room for room, _ in rooms) - sum(taken for taken, _ in demands)
    return left / rising if rising > 0 else _DREAM


def _even_use(state: _State, full: Collection[FlowElement]) -> dict[FlowElement, float]:
    use = {element: (element.capacity - free) / element.capacity for element, free in state.free.items()}
    if not state.choices:
        return use
    import networkx

    low, high = 0.0, 1.0
    wanted = sum(_whole(state.demand(*each)[0]) for each in state.choices) * (1 - 2 * _CUT_SLACK)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        value = networkx.maximum_flow_value(state.network(0.0, middle, full), _SOURCE, _SINK)
        low, high = (low, middle) if value >= wanted else (middle, high)
    _, paths = networkx.maximum_flow(state.network(0.0, high, full), _SOURCE, _SINK)
    for element, seconds in state.seconds.items():
        use[element] += paths[element, 0][element, 1] / _UNIT * seconds / element.capacity
    return use
