# SPDX-License-Identifier: GPL-2.0-only
"""The place of each controller: root port, NUMA node and sysfs folder."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lab.topology.model import Hba, Topology

_SPEEDS = {1: "2_5", 2: "5", 3: "8", 4: "16"}
_LAST_SLOT = 0x1E
_MIB = 1 << 20


def memory_words(memory: int, count: int, cpus: int) -> Iterator[str]:
    """NUMA nodes, each with so many ``cpus`` and an equal part of the memory; nothing for a single node."""
    if count == 1:
        return
    each = memory // _MIB // count
    for node in range(count):
        size = memory // _MIB - each * (count - 1) if node == 0 else each
        yield from option("-object", **{"qom-type": "memory-backend-ram", "id": f"memory{node}", "size": size * _MIB})
        own = "-".join(map(str, sorted({node * cpus, (node + 1) * cpus - 1})))
        yield from ("-numa", f"node,nodeid={node},cpus={own},memdev=memory{node}")


def words(topology: Topology) -> Iterator[str]:
    """Root buses, then root ports."""
    for number, (node, bus) in enumerate(root_buses(topology).items()):
        slot = f"{_LAST_SLOT - number:#x}"
        bridge = {"id": expander(node), "bus": ROOT, "addr": slot, "bus_nr": bus, "numa_node": node}
        yield from option("-device", driver="pxb-pcie", **bridge)
    for hba, place in zip(topology.hbas.values(), places(topology).values(), strict=True):
        port = {"id": place.port, "bus": place.bus, "addr": f"{place.slot:#x}", "chassis": place.ordinal}
        generation, lanes = slot_of(topology, hba) or (0, 0)
        speed = {"x-speed": _SPEEDS[min(generation, max(_SPEEDS))], "x-width": str(lanes)} if lanes else {}
        yield from option("-device", driver="pcie-root-port", **port, slot=place.ordinal, **speed)


def slot_of(topology: Topology, hba: Hba) -> tuple[int, int] | None:
    """Generation and lanes of the slot of an HBA, None if its links do not name them."""
    return next((slot for name in hba.links if (slot := topology.links[name].pcie)), None)


def option(name: str, **properties: object) -> tuple[str, str]:
    """An option of QEMU with its value as JSON."""
    return name, json.dumps(properties, separators=(",", ":"))


ROOT = "pcie.0"
_FIRST_SLOT = 16
"""Lower slots of q35's root complex are reserved for the board and for virtme-ng's devices."""
_BUSES = 256


@dataclass(frozen=True)
class RootPortPlace:
    """A root port on slot ``slot`` of the root ``bus`` with this ``number``; ``ordinal`` counts all ports from 1."""

    bus: str
    number: int
    slot: int
    ordinal: int

    @property
    def port(self) -> str:
        """The root port's id."""
        return f"port.{self.ordinal}"

    @property
    def port_folder(self) -> str:
        return f"/sys/devices/pci0000:{self.number:02x}/0000:{self.number:02x}:{self.slot:02x}.0"

    @property
    def folder(self) -> str:
        """A glob for the controller's folder: the firmware numbers the bus behind the port."""
        return f"{self.port_folder}/0000:*:00.0"


def places(topology: Topology) -> dict[str, RootPortPlace]:
    """The place of each HBA, by name."""
    used = Counter[int]()
    where = {}
    for ordinal, hba in enumerate(topology.hbas.values(), start=1):
        number = root_buses(topology).get(hba.node, 0)
        slot = used[number] + (0 if number else _FIRST_SLOT)
        used[number] += 1
        where[hba.name] = RootPortPlace(_root(hba, topology), number, slot, ordinal)
    return where


def nodes(topology: Topology) -> int:
    """The number of NUMA nodes; 1 if no HBA names a node."""
    return 1 + max(hba.node for hba in topology.hbas.values())


def root_buses(topology: Topology) -> Mapping[int, int]:
    """Numbers of the root buses of NUMA nodes that have HBAs; empty on a machine of one node."""
    count = nodes(topology)
    if count == 1:
        return {}
    step = _BUSES // (count + 1)
    return {node: step * (node + 1) for node in sorted({hba.node for hba in topology.hbas.values()})}


def expander(node: int) -> str:
    """The id of the root bus on a NUMA node."""
    return f"node.{node}"


def _root(hba: Hba, topology: Topology) -> str:
    return expander(hba.node) if hba.node in root_buses(topology) else ROOT
