# SPDX-License-Identifier: GPL-2.0-only
"""The machines of the field reports, captured from inside guests on QEMU's controllers, against the catalogue."""

import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from harness.cli import main
from harness.intake.capture import capture
from harness.intake.documents import yaml_text
from harness.intake.snapshot import SCRIPT, CapturedDevices, Notes, Snapshot, read_devices, read_snapshot
from harness.intake.volumes import same_disk
from lab.guest.steps.device import TableStep
from lab.realise.recipe import devices
from lab.topology.emulated import emulated
from lab.topology.load import load_topology
from lab.topology.model import Stack, StackKind, Topology
from tests.vm.host import kernel_or_skip

KERNEL = "debian:6.1"
MACHINES = ("3ware-8506", "intel-965p-lvm", "dl980-iodrive", "sun-x4540", "sun-j4400-multipath", "nvme-two-paths")


def _command(topology: Topology) -> Iterator[str]:
    """Lines that set queue depths, make the dm devices and write a capture to the output."""
    for lun, name in ((lun, lun.name) for lun in topology.luns.values()):
        depth = topology.hbas[lun.hba].cmd_per_lun
        yield f"[ ! -e /run/lab/{name}.sys/device/queue_depth ] || echo {depth} >/run/lab/{name}.sys/device/queue_depth"
    yield from _mapped([step for step in devices(topology) if isinstance(step, TableStep)])
    for stack in topology.stacks.values():
        if stack.kind is StackKind.MD:
            yield from _array(topology, stack)
    # The guest has the host's files, read-only, and a /run of its own.
    yield f"mkdir /run/captured && TMPDIR=/run sh {SCRIPT} --folder /run/captured >&2 && tar -C /run/captured -cf - ."


def _mapped(tables: Sequence[TableStep]) -> Iterator[str]:
    """A line that makes the dm devices: one command, because an emulated processor needs half a second for each."""
    own = {table.name: f"/dev/dm-{minor}" for minor, table in enumerate(tables)}
    devices = []
    for minor, table in enumerate(tables):
        rows = (re.sub(r"/lab/(\S+)", lambda found: own.get(found[1], f"/run{found[0]}"), row) for row in table.rows)
        devices.append(f"{table.name},,{minor},rw,{','.join(rows)}")
    if devices:
        yield f"dmsetup create --noudevsync --concise '{';'.join(devices)}' >&2 || exit 1"


def _array(topology: Topology, stack: Stack) -> Iterator[str]:
    """Lines that assemble an md array through sysfs (Documentation/admin-guide/md.rst): a host need not have mdadm."""
    own, kib = f"/sys/block/{stack.name}/md", min(topology.disks[one].size for one in _disks_of(topology, stack)) >> 10
    yield f"modprobe raid456; echo {stack.name} >/sys/module/md_mod/parameters/new_array"
    for key, value in (("level", stack.level), ("raid_disks", len(stack.over)), ("chunk_size", stack.chunk)):
        yield f"echo {value} >{own}/{key}"
    for slot, member in enumerate(stack.over):
        yield f"cat /run/lab/{member}.sys/dev >{own}/new_dev"
        device = f"{own}/dev-$(basename $(readlink -f /run/lab/{member}.sys))"
        yield f"echo {kib} >{device}/size; echo {slot} >{device}/slot"
    yield f"echo {kib} >{own}/component_size; echo clean >{own}/array_state"


def _disks_of(topology: Topology, stack: Stack) -> Iterator[str]:
    for member in stack.over:
        yield from topology.luns[member].disks


@pytest.mark.slow
@pytest.mark.parametrize("name", MACHINES)
def test_a_guest_is_captured_as_the_machine_that_it_imitates(
    name: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    pytest.importorskip("virtme", reason="needs requirements/shell.txt")
    kernel_or_skip(KERNEL)
    topology = emulated(load_topology(name, near=Path()))
    if any(isinstance(step, TableStep) for step in devices(topology)) and not os.access("/usr/sbin/dmsetup", os.X_OK):
        pytest.skip("dm devices need dmsetup of the host")
    capfdbinary.readouterr()
    command = "\n".join(_command(topology))
    assert main(["shell", name, "--kernel", KERNEL, "--command", command]) == 0
    archive = tmp_path / "captured.tar"
    archive.write_bytes(capfdbinary.readouterr().out)
    if keep := os.environ.get("BLKLAB_KEEP_CAPTURES"):
        subprocess.run(["cp", str(archive), f"{keep}/{name}.tar"], check=True)
    _compare(topology, read_snapshot(archive), tmp_path / "captured.yaml")


def _compare(wanted: Topology, snapshot: Snapshot, path: Path) -> None:
    found = capture(snapshot, "captured")
    path.write_text(yaml_text(found.document, found.notes))
    topology = load_topology(str(path), near=Path())
    assert _hosts(read_devices(snapshot, same_disk(snapshot), Notes())) == _wanted_hosts(wanted)
    assert _disks(topology) == _disks(wanted)
    assert _stacks(topology) == _stacks(wanted)


Host = tuple[int, int, int]


def _hosts(devices: CapturedDevices) -> Counter[Host]:
    """Tags, depth of the LUNs and number of LUNs of each host, before the limits of the guest's devices."""
    return Counter(
        (one.tags, max(lun.depth or one.tags for lun in own), len(own))
        for one in devices.controllers.values()
        if (own := [lun for lun in devices.luns.values() if lun.controller == one.name])
    )


def _wanted_hosts(topology: Topology) -> Counter[Host]:
    return Counter(
        (hba.can_queue, hba.cmd_per_lun, sum(lun.hba == hba.name for lun in topology.luns.values()))
        for hba in topology.hbas.values()
    )


def _disks(topology: Topology) -> Counter[tuple[int, int, int]]:
    """Size, number of paths and number of hosts of each disk."""
    found = []
    for disk in topology.disks.values():
        luns = [lun for lun in topology.luns.values() if disk.name in lun.disks]
        found.append((disk.size, len(luns), len({lun.hba for lun in luns})))
    return Counter(found)


def _stacks(topology: Topology) -> Counter[tuple[str, int, int, int, int, str]]:
    return Counter(
        (
            *(stack.level or stack.kind.value, stack.chunk, stack.offset),
            *(topology.stack_size(stack.name), len(stack.over), stack.selector),
        )
        for stack in topology.stacks.values()
        # A namespace without multipath is a stack of one path in a captured file.
        if stack.kind is not StackKind.NVME or len(stack.over) > 1
    )
