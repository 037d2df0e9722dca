# SPDX-License-Identifier: GPL-2.0-only
"""A path that fails all I/O for a while: a SCSI device goes offline, a port of an NVMe target becomes inaccessible."""

from collections.abc import Iterator, Sequence

from lab.guest.steps import Step
from lab.guest.steps.device import device, sysfs
from lab.guest.steps.load import Meanwhile, Message, PathMark
from lab.guest.steps.setting import PathState
from lab.realise.in_guest import nvmet
from lab.topology.model import Driver, Loss, StackKind, Topology


def losses(topology: Topology, load: str, lost: Sequence[Loss]) -> Meanwhile:
    """The step that takes each path away and gives it back while ``load`` runs."""
    # One path may be lost when another one is back.
    timed = [(loss.end, step) for loss in lost for step in _give_back(topology, loss.path)]
    timed += [(loss.start, step) for loss in lost for step in _lose(topology, loss.path)]
    return Meanwhile(load, tuple(sorted(timed, key=lambda pair: pair[0])))


def _lose(topology: Topology, path: str) -> Iterator[Step]:
    yield PathMark(path, "lost")
    yield _state(topology, path, scsi="offline", nvme="inaccessible")


def _give_back(topology: Topology, path: str) -> Iterator[Step]:
    yield _state(topology, path, scsi="running", nvme="optimized")
    yield PathMark(path, "back")
    for stack in topology.stacks.values():
        if stack.kind is StackKind.MULTIPATH and path in stack.over:
            # Without multipathd nobody else finds out.
            yield Message(stack.name, f"reinstate_path {device(path)}")


def _state(topology: Topology, path: str, *, scsi: str, nvme: str) -> Step:
    knob, hba = f"path[{path}]", topology.luns[path].hba
    if topology.hbas[hba].driver is Driver.NVMET_TCP:
        return PathState(knob, nvmet.state_of_port(topology, hba), nvme)
    return PathState(knob, f"{sysfs(path)}/device/state", scsi)
