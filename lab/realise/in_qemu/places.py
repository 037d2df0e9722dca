# SPDX-License-Identifier: GPL-2.0-only
"""The place of each controller: root port, NUMA node and sysfs folder."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from lab.topology.model import Hba, Topology

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
    found = {}
    for ordinal, hba in enumerate(topology.hbas.values(), start=1):
        number = root_buses(topology).get(hba.node, 0)
        slot = used[number] + (0 if number else _FIRST_SLOT)
        used[number] += 1
        found[hba.name] = RootPortPlace(_root(hba, topology), number, slot, ordinal)
    return found


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
