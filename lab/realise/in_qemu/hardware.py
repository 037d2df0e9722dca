# SPDX-License-Identifier: GPL-2.0-only
"""A topology as QEMU hardware: pure functions from values to words of the command line."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lab.realise.in_qemu import backends, controllers, places
from lab.realise.in_qemu.places import nodes
from lab.topology.emulated import processors
from lab.topology.model import Driver, StackKind, Topology

BOARD = "q35"
_DEVICES: Mapping[Driver, tuple[str, ...]] = {
    Driver.MPTSAS: ("mptsas1068", "scsi-hd"),
    Driver.MEGASAS: ("megasas", "scsi-hd"),
    Driver.MEGASAS_GEN2: ("megasas-gen2", "scsi-hd"),
    Driver.VIRTIO_SCSI: ("virtio-scsi-pci", "scsi-hd"),
    Driver.NVME: ("nvme", "nvme-ns"),
}


@dataclass(frozen=True)
class Hardware:
    """``words`` of the command line; ``files``: sparse files to create first, name to size in bytes."""

    board: str
    cpus: int
    words: tuple[str, ...]
    files: Mapping[str, int]


def hardware(topology: Topology) -> Hardware:
    """The machine of an emulated topology."""
    words = (
        *places.memory_words(topology),
        *backends.words(topology),
        *places.words(topology),
        *controllers.words(topology),
    )
    return Hardware(BOARD, processors(topology), words, backends.files(topology))


def lacking(topology: Topology, offered: Iterable[str]) -> tuple[str, ...]:
    """One sentence for each device that is missing from ``offered``; none for a topology of the virtual clock."""
    there = set(offered)
    wanted = wanted_devices(topology) if topology.emulated else ()
    return tuple(f"this QEMU has no device {name}" for name in wanted if name not in there)


def wanted_devices(topology: Topology) -> tuple[str, ...]:
    """The distinct names of the QEMU devices."""
    names = ["pcie-root-port"]
    names += ["pxb-pcie"] if nodes(topology) > 1 else []
    for hba in topology.hbas.values():
        names += _DEVICES[hba.driver]
    names += ["nvme-subsys"] if any(stack.kind is StackKind.NVME for stack in topology.stacks.values()) else []
    return tuple(dict.fromkeys(names))
