# SPDX-License-Identifier: GPL-2.0-only
"""NVMe over TCP on the loopback device: a target with a port for each HBA, and the host's controllers behind them.

Each stack of kind nvme is a subsystem with one namespace over a null_blk. Each LUN is a controller, that is, a path of
native NVMe multipath. A link is one token bucket per direction on the address of its port.
"""

from collections.abc import Iterator

from lab.guest.steps import Step
from lab.guest.steps.device import LinkStep, Module, NameBlock, Network, Write, configured
from lab.guest.steps.load import Pause
from lab.guest.steps.setting import Tune
from lab.realise.in_guest import null_blk
from lab.realise.in_guest.null_blk import CONFIGFS
from lab.topology.model import Stack, StackKind, Topology

_TARGET = f"{CONFIGFS}/nvmet"
_NQN = "nqn.2024-01.blklab:"
_HOST_ID = "b1c1ab00-0000-4000-8000-000000000001"
_HOST_NQN = f"nqn.2014-08.org.nvmexpress:uuid:{_HOST_ID}"
_SERVICE = 4420
_FIRST_ADDRESS = 2
_BURST = 128 << 10
"""Bytes: two of the largest packets that TCP passes to the loopback device (64 KiB)."""
_LIMIT = 16 << 20
"""Bytes queued for a link: more than the buffers of the sockets, so that no packet is dropped."""
MULTIPATH = "nvme-core"
_SETTLED = 500_000_000
"""Nanoseconds before a connection. On 5.10 nvmet_tcp_install_queue flushes the system workqueue, and the kernel
warns unless it is empty (check_flush_dependency); later kernels flush a workqueue of nvmet."""


def steps(topology: Topology) -> Iterator[Step]:
    yield from null_blk.disks(topology)
    for module in ("nvmet-tcp", "nvme-tcp", "sch_prio", "sch_tbf", "cls_u32"):
        yield Module(module)
    yield Network(tuple(_traffic(topology)))
    nodes = null_blk.nodes(topology)
    for stack in _multipath(topology):
        yield from _subsystem(stack, nodes[topology.luns[stack.over[0]].disks[0]])
    yield from _ports(topology)
    yield from _controllers(topology)


def _multipath(topology: Topology) -> list[Stack]:
    return [stack for stack in topology.stacks.values() if stack.kind is StackKind.NVME]


def _addresses(topology: Topology) -> dict[str, str]:
    return {name: f"127.0.0.{_FIRST_ADDRESS + number}" for number, name in enumerate(topology.hbas)}


def _traffic(topology: Topology) -> Iterator[str]:
    """Commands of tc: packets from or to each address pass a token bucket of their own, all others pass freely."""
    addresses = _addresses(topology)
    links = {lun.hba: name for lun in topology.luns.values() for name in topology.path(lun.name, lun.disks[0])}
    bands = 1 + 2 * len(links)
    if not links:
        return
    yield f"qdisc add dev lo root handle 1: prio bands {max(bands, 2)} priomap{' 0' * 16}"
    ways = [(hba, name, side) for hba, name in links.items() for side in ("src", "dst")]
    for band, (hba, name, side) in enumerate(ways, start=2):
        rate = topology.links[name].rate * 8
        yield f"qdisc add dev lo parent 1:{band:x} handle {band:x}: tbf rate {rate}bit burst {_BURST} limit {_LIMIT}"
        match = f"match ip {side} {addresses[hba]}/32"
        yield f"filter add dev lo parent 1: protocol ip prio 1 u32 {match} flowid 1:{band:x}"


def _subsystem(stack: Stack, node: str) -> Iterator[Step]:
    folder = f"{_TARGET}/subsystems/{_NQN}{stack.name}"
    yield from configured(folder, {"attr_allow_any_host": 1})
    yield from configured(f"{folder}/namespaces/1", {"device_path": node, "enable": 1})


def state_of_port(topology: Topology, hba: str) -> str:
    """The attribute with the state in which the port offers its namespaces."""
    return f"{_TARGET}/ports/{1 + list(topology.hbas).index(hba)}/ana_groups/1/ana_state"


def _ports(topology: Topology) -> Iterator[Step]:
    for number, (hba, address) in enumerate(_addresses(topology).items(), start=1):
        port = f"{_TARGET}/ports/{number}"
        values = {"addr_trtype": "tcp", "addr_adrfam": "ipv4", "addr_traddr": address, "addr_trsvcid": _SERVICE}
        yield from configured(port, values)
        for stack in _multipath(topology):
            if any(topology.luns[lun].hba == hba for lun in stack.over):
                name = f"{_NQN}{stack.name}"
                yield LinkStep(f"{_TARGET}/subsystems/{name}", f"{port}/subsystems/{name}")


def _controllers(topology: Topology) -> Iterator[Step]:
    """Connections in the order in which the kernel numbers controllers; a subsystem has the number of its first."""
    addresses, number = _addresses(topology), 0
    for stack in _multipath(topology):
        first = number
        for lun in stack.over:
            hba = topology.hbas[topology.luns[lun].hba]
            options = (
                f"transport=tcp,traddr={addresses[hba.name]},trsvcid={_SERVICE},nqn={_NQN}{stack.name}"
                f",hostnqn={_HOST_NQN},hostid={_HOST_ID},nr_io_queues={hba.hw_queues},queue_size={hba.can_queue}"
            )
            yield Pause(_SETTLED)
            yield Write("/dev/nvme-fabrics", options)
            yield NameBlock(lun, f"/sys/block/nvme{first}c{number}n1")
            number += 1
        yield NameBlock(stack.name, f"/sys/block/nvme{first}n1")
        policy = f"/sys/class/nvme-subsystem/nvme-subsys{first}/iopolicy"
        yield Tune(f"stack.iopolicy[{stack.name}]", policy, stack.iopolicy)
