# SPDX-License-Identifier: GPL-2.0-only
"""The arms of a scenario file: the topology with the arm's settings, and the queue settings."""

from collections.abc import Mapping
from pathlib import Path

from harness.scenario import schema
from harness.scenario.events import queue_attributes
from harness.scenario.model import Arm
from harness.scenario.timing import TIMINGS
from lab.base.errors import Misuse
from lab.topology.emulated import MAX_SECTORS, emulated, too_large
from lab.topology.limits import OF_ELEVATORS, refusals
from lab.topology.load import read_topology
from lab.topology.model import EMULATED, StackKind, Topology
from lab.topology.parameters import apply_setting, apply_try
from lab.yaml.fields import Row, mapping_values
from lab.yaml.strict import Node, Scalar, names

_QUEUE_PREFIX = "queue."
_ELEVATOR_REQUESTS = 2048
_NO_SCHEDULER = "none"


def read_arms(row: Row, *, near: Path) -> dict[str, Arm]:
    """Arms by name, without those that have a mistake. ``near`` is the scenario's folder."""
    topologies = _Topologies(row, near)
    default_queue = queue_attributes(row.get("queue"))
    arms: dict[str, Arm] = {}
    for name, arm_row in row.get("arms", {}).items():
        base = topologies.of(arm_row)
        queue = {**(base.queue if base else {}), **default_queue, **queue_attributes(arm_row, _QUEUE_PREFIX)}
        _check_queue(name, arm_row, queue)
        topology = _with_settings(name, arm_row, base) if base else None
        if topology:
            _check_with_topology(name, arm_row, queue, topology)
            # A new elevator resets nr_requests and creates its iosched.
            first = {key: value for key, value in queue.items() if key == schema.SCHEDULER}
            arms[name] = Arm(name, topology, {**first, **queue}, _settings(arm_row), arm_row.get("teaches"))
    return arms


def _settings(row: Row) -> dict[str, str]:
    settings = {key: text for key, text in mapping_values(row).items() if key != schema.TEACHES.name}
    tried = row.get("try")
    return settings | {f"try {key}": text for key, text in (mapping_values(tried) if tried else {}).items()}


class _Topologies:
    """Reads each topology of the file once, with the devices of the scenario's clock."""

    def __init__(self, row: Row, near: Path) -> None:
        self._row, self._near = row, near
        self._read: dict[str, Topology | None] = {}

    def of(self, arm: Row) -> Topology | None:
        entry = arm.entry("topology") or self._row.entry("topology")
        if entry is None:
            arm.add("", "topology is missing", "write one for the scenario or for this arm")
            return None
        node = entry.value
        key = node.text if isinstance(node, Scalar) else str(node.mark)
        if key not in self._read:
            ref = arm.get("topology") if arm.entry("topology") else self._row.get("topology")
            self._read[key] = self._on_clock(self._load(ref, arm, node) if ref else None, arm, node)
        return self._read[key]

    def _on_clock(self, topology: Topology | None, arm: Row, node: Node) -> Topology | None:
        if topology is None:
            return None
        if TIMINGS[self._row.get("clock")].in_qemu:
            try:
                return emulated(topology)
            except Misuse as error:
                arm.problems.add(node.mark, error.message, error.remedy)
                return None
        if not topology.emulated:
            return topology
        drivers = names(sorted({hba.driver for hba in topology.hbas.values()} & EMULATED))
        arm.problems.add(
            node.mark,
            f"topology {topology.name}: {drivers}: QEMU devices complete in host time, which needs clock: wall",
            "write clock: wall, or use in-guest drivers",
        )
        return None

    def _load(self, ref: str | Row, arm: Row, node: Node) -> Topology | None:
        try:
            return read_topology(ref, near=self._near, problems=arm.problems)
        except Misuse as error:
            arm.problems.add(node.mark, f"topology: {error.message}", error.remedy)
            return None


def _with_settings(name: str, row: Row, topology: Topology) -> Topology | None:
    sound = True
    for key, entry, value in row.matches():
        if key.startswith(_QUEUE_PREFIX):
            continue
        try:
            topology = topology if value is None else apply_setting(topology, key, value)
            sound = sound and value is not None
        except ValueError as error:
            row.problems.add(entry.key.mark, f"{key}: {error}")
            sound = False
    tried = row.get("try")
    for key, entry, value in tried.matches() if tried else ():
        try:
            topology = topology if value is None else apply_try(topology, key, value)
        except ValueError as error:
            row.problems.add(entry.key.mark, f"try: {key}: {error}")
    reasons = list(refusals(topology)) if sound else []
    for reason in reasons:
        row.add("", f"arm {name}: {reason}")
    return topology if sound and not reasons else None


def _check_queue(name: str, row: Row, queue: Mapping[str, str]) -> None:
    if schema.SCHEDULER not in queue:
        if f"{_QUEUE_PREFIX}{schema.SCHEDULER}" not in row.node.entries:
            remedy = "kernels differ in their default: write queue: {scheduler: none}"
            row.add("", f"arm {name}: queue.scheduler is missing", remedy, symptom=True)
    elif queue[schema.SCHEDULER] == _NO_SCHEDULER:
        for key in dict.fromkeys(key.partition("/")[0] for key in queue if key.startswith(OF_ELEVATORS)):
            row.add("", f"arm {name}: queue.{key} needs an elevator, got queue.scheduler none")


def _check_with_topology(name: str, row: Row, queue: Mapping[str, str], topology: Topology) -> None:
    if "nr_requests" in queue and schema.SCHEDULER in queue:
        limit, why = _ELEVATOR_REQUESTS, "the kernel's limit with an elevator"
        if queue[schema.SCHEDULER] == _NO_SCHEDULER:
            limit, why = min(hba.can_queue for hba in topology.hbas.values()), "the tags of the HBA"
        if int(queue["nr_requests"]) > limit:
            message = f"arm {name}: queue.nr_requests {queue['nr_requests']} exceeds {limit}, {why}"
            row.add("", message)
    if said := too_large(queue.get(MAX_SECTORS, "0"), [hba.driver for hba in topology.hbas.values()]):
        row.add("", f"arm {name}: {said}")
    for prefix in ("iocost/", "throttle/"):
        for stack in (stack for stack in topology.stacks.values() if stack.kind is StackKind.NVME):
            if any(key.startswith(prefix) for key in queue):
                says = f"the paths below {stack.name} are no devices of their own"
                row.add("", f"arm {name}: queue.{prefix.rstrip('/')}: {says}")
