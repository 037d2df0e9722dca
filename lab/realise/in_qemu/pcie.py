# SPDX-License-Identifier: GPL-2.0-only
"""PCI Express: a root port per controller, with the width and speed of its slot, on the root bus of its NUMA node."""

import json
from collections.abc import Iterator

from lab.realise.in_qemu.places import ROOT, expander, nodes, places, root_buses
from lab.topology.model import Hba, Topology

_SPEEDS = {1: "2_5", 2: "5", 3: "8", 4: "16"}
_LAST_SLOT = 0x1E
_MIB = 1 << 20


def memory_words(topology: Topology) -> Iterator[str]:
    """NUMA nodes, each with one processor and an equal part of the memory; nothing for a single node."""
    count = nodes(topology)
    if count == 1:
        return
    each = topology.memory // _MIB // count
    for node in range(count):
        size = topology.memory // _MIB - each * (count - 1) if node == 0 else each
        memory = {"qom-type": "memory-backend-ram", "id": f"memory{node}", "size": size * _MIB}
        yield from ("-object", _json(memory))
        yield from ("-numa", f"node,nodeid={node},cpus={node},memdev=memory{node}")


def words(topology: Topology) -> Iterator[str]:
    """Root buses, then root ports."""
    for number, (node, bus) in enumerate(root_buses(topology).items()):
        slot = f"{_LAST_SLOT - number:#x}"
        bridge = {"driver": "pxb-pcie", "id": expander(node), "bus": ROOT, "addr": slot}
        yield from ("-device", _json({**bridge, "bus_nr": bus, "numa_node": node}))
    for hba, place in zip(topology.hbas.values(), places(topology).values(), strict=True):
        port = {"driver": "pcie-root-port", "id": place.port, "bus": place.bus, "addr": f"{place.slot:#x}"}
        own = {"chassis": place.ordinal, "slot": place.ordinal, **_slot(topology, hba)}
        yield from ("-device", _json({**port, **own}))


def slot_of(topology: Topology, hba: Hba) -> tuple[int, int] | None:
    """Generation and lanes of the slot of an HBA, None if its links do not name them."""
    return next((found for name in hba.links if (found := topology.links[name].pcie)), None)


def _slot(topology: Topology, hba: Hba) -> dict[str, str]:
    found = slot_of(topology, hba)
    if found is None:
        return {}
    generation, lanes = found
    return {"x-speed": _SPEEDS[min(generation, max(_SPEEDS))], "x-width": str(lanes)}


def _json(value: dict[str, object]) -> str:
    return json.dumps(value, separators=(",", ":"))
