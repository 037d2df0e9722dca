# SPDX-License-Identifier: GPL-2.0-only
"""The arms of a scenario file: the topology with the arm's settings, and the queue settings."""

from collections.abc import Mapping
from pathlib import Path

from harness.scenario import schema
from harness.scenario.model import Arm, Clock
from lab.base.errors import Misuse
from lab.topology.emulated import emulated
from lab.topology.limits import refusals
from lab.topology.load import read_topology
from lab.topology.model import EMULATED, SCSI, Topology
from lab.topology.settings import apply_setting, apply_try
from lab.yaml.fields import Record, Row, mapping_values
from lab.yaml.strict import Map, Node, Scalar, names

_QUEUE_PREFIX = "queue."
_ELEVATOR_REQUESTS = 2048
_NO_SCHEDULER = "none"


def read_arms(row: Row, *, near: Path) -> dict[str, Arm]:
    """Arms by name, without those that have a mistake. ``near`` is the scenario's folder."""
    topologies = _Topologies(row, near)
    default_queue_row = row.get(schema.QUEUE)
    default_queue = _queue(default_queue_row, schema.QUEUE_RECORD, "") if default_queue_row else {}
    arms: dict[str, Arm] = {}
    for name, arm_row in (row.get(schema.ARMS) or {}).items():
        base = topologies.of(arm_row)
        queue = {**(base.queue if base else {}), **default_queue, **_queue(arm_row, schema.ARM, _QUEUE_PREFIX)}
        _check_queue(name, arm_row, queue)
        topology = _with_settings(name, arm_row, base) if base else None
        teaches = arm_row.value(schema.TEACHES)
        if topology:
            _check_requests(name, arm_row, queue, topology)
            _check_limits(name, arm_row, queue, topology)
            settings = _shown(arm_row)
            arms[name] = Arm(name, topology, _scheduler_first(queue), settings, teaches)
    return arms


def _shown(row: Row) -> dict[str, str]:
    """The settings of an arm as the file has them."""
    settings = {key: text for key, text in mapping_values(row).items() if key != schema.TEACHES.name}
    tried = row.get(schema.TRY)
    return settings | {f"try {key}": text for key, text in (mapping_values(tried) if tried else {}).items()}


class _Topologies:
    """Reads each topology of the file once, with the devices of the scenario's clock."""

    def __init__(self, row: Row, near: Path) -> None:
        self._row, self._near = row, near
        clock = row.entry(schema.CLOCK.name)
        self._wall = clock is not None and isinstance(clock.value, Scalar) and clock.value.text == Clock.WALL
        self._read: dict[str, Topology | None] = {}

    def of(self, arm: Row) -> Topology | None:
        entry = arm.entry(schema.TOPOLOGY.name) or self._row.entry(schema.TOPOLOGY.name)
        if entry is None:
            arm.problems.add(arm.mark, "topology is missing", "write one for the scenario or for this arm")
            return None
        node = entry.value
        key = node.text if isinstance(node, Scalar) else str(node.mark)
        if key not in self._read:
            self._read[key] = self._on_clock(self._load(arm, node), arm, node)
        return self._read[key]

    def _on_clock(self, topology: Topology | None, arm: Row, node: Node) -> Topology | None:
        if topology is None:
            return None
        if self._wall:
            return emulated(topology)
        if topology.emulated:
            drivers = names(sorted({hba.driver for hba in topology.hbas.values()} & EMULATED))
            arm.problems.add(
                node.mark,
                f"topology {topology.name}: {drivers}: QEMU devices complete in host time, which needs clock: wall",
                "write clock: wall, or use in-guest drivers",
            )
            return None
        return topology

    def _load(self, arm: Row, node: Node) -> Topology | None:
        if isinstance(node, Map):
            return read_topology(node, near=self._near, problems=arm.problems)
        ref = schema.TOPOLOGY.kind.read(arm.problems, schema.TOPOLOGY.name, node)
        if not isinstance(ref, str):
            return None
        try:
            return read_topology(ref, near=self._near, problems=arm.problems)
        except Misuse as error:
            arm.problems.add(node.mark, f"topology: {error.message}", error.remedy)
            return None


def _with_settings(name: str, row: Row, topology: Topology) -> Topology | None:
    sound = True
    for key, entry in row.node.entries.items():
        setting = schema.SETTINGS.pattern(key)
        if setting is None:
            continue
        value = setting.kind.read(row.problems, key, entry.value)
        if not isinstance(value, int | str):
            sound = False
            continue
        try:
            topology = apply_setting(topology, key, value)
        except ValueError as error:
            row.problems.add(entry.key.mark, f"{key}: {error}")
            sound = False
    topology = _with_tries(row, topology)
    if not sound:
        return None
    reasons = list(refusals(topology))
    for reason in reasons:
        row.problems.add(row.mark, f"arm {name}: {reason}")
    return None if reasons else topology


def _with_tries(row: Row, topology: Topology) -> Topology:
    tried = row.get(schema.TRY)
    for key, entry in tried.node.entries.items() if tried else ():
        setting = schema.TRY_RECORD.pattern(key)
        value = setting.kind.read(row.problems, key, entry.value) if setting else None
        if not isinstance(value, int):
            continue
        try:
            topology = apply_try(topology, key, value)
        except ValueError as error:
            row.problems.add(entry.key.mark, f"try: {key}: {error}")
    return topology


def _queue(row: Row, record: Record, prefix: str) -> dict[str, str]:
    """Attributes of /sys/block/DEV/queue by name; those of an elevator start with ``iosched/``."""
    settings: dict[str, str] = {}
    fields = {field.name: field for field in record.fields}
    for key, entry in row.node.entries.items():
        field = fields.get(key) or record.pattern(key)
        if field is None or not key.startswith(prefix) or key in {schema.TOPOLOGY.name, schema.TEACHES.name}:
            continue
        value = field.kind.read(row.problems, key, entry.value)
        if value is not None:
            settings[key.removeprefix(prefix).replace(".", "/")] = str(value)
    return settings


def _check_queue(name: str, row: Row, queue: Mapping[str, str]) -> None:
    if schema.SCHEDULER not in queue:
        if f"{_QUEUE_PREFIX}{schema.SCHEDULER}" not in row.node.entries:
            remedy = "kernels differ in their default: write queue: {scheduler: none}"
            row.problems.add(row.mark, f"arm {name}: queue.scheduler is missing", remedy, symptom=True)
        return
    has_iosched = any(key.startswith("iosched/") for key in queue)
    if has_iosched and queue[schema.SCHEDULER] == _NO_SCHEDULER:
        row.problems.add(row.mark, f"arm {name}: queue.iosched needs an elevator, got queue.scheduler none")


def _check_requests(name: str, row: Row, queue: Mapping[str, str], topology: Topology) -> None:
    if "nr_requests" not in queue or schema.SCHEDULER not in queue:
        return
    requests = int(queue["nr_requests"])
    limit, why = _ELEVATOR_REQUESTS, "the kernel's limit with an elevator"
    if queue[schema.SCHEDULER] == _NO_SCHEDULER:
        limit, why = min(hba.can_queue for hba in topology.hbas.values()), "the tags of the HBA"
    if requests > limit:
        row.problems.add(row.mark, f"arm {name}: queue.nr_requests {requests} exceeds {limit}, {why}")


def _check_limits(name: str, row: Row, queue: Mapping[str, str], topology: Topology) -> None:
    drivers = {hba.driver for hba in topology.hbas.values()}
    if any(key.startswith("throttle/") for key in queue) and (len(topology.luns) > 1 or not drivers <= SCSI):
        row.problems.add(
            row.mark,
            f"arm {name}: queue.throttle needs a topology of one LUN that is a SCSI disk",
            f"drivers of SCSI disks: {names(sorted(SCSI))}",
        )


def _scheduler_first(queue: Mapping[str, str]) -> dict[str, str]:
    """The settings in the order of setting: a new elevator resets nr_requests and creates its iosched."""
    first = {key: value for key, value in queue.items() if key == schema.SCHEDULER}
    return {**first, **queue}
