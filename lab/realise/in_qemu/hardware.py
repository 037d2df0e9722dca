# SPDX-License-Identifier: GPL-2.0-only
"""A topology as QEMU hardware: pure functions from values to words of the command line."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from lab.realise.in_qemu import backends, controllers, places
from lab.topology.emulated import processors
from lab.topology.model import Topology

BOARD = "q35"


@dataclass(frozen=True)
class Hardware:
    """``words`` of the command line; ``files``: sparse files to create first, name to size in bytes."""

    board: str
    cpus: int
    words: tuple[str, ...]
    files: Mapping[str, int]

    def make_files(self, folder: Path) -> None:
        """Raises OSError."""
        for name, size in self.files.items():
            with (folder / name).open("wb") as file:
                file.truncate(size)


def hardware(topology: Topology) -> Hardware:
    """The machine of an emulated topology."""
    words = (
        *places.memory_words(topology.memory, places.nodes(topology), 1),
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
    pairs = pairwise(hardware(topology).words)
    return tuple(dict.fromkeys(json.loads(value)["driver"] for word, value in pairs if word == "-device"))
