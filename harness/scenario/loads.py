# SPDX-License-Identifier: GPL-2.0-only
"""The clock of a scenario file, its loads and roles, and the loads that ``interference`` expands to."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from harness.scenario import schema
from harness.scenario.model import MIXED, Arm, Clock, Load, Role
from lab.base.units import show_time
from lab.topology.model import Loss
from lab.yaml.fields import Row
from lab.yaml.strict import Entry, Map, Node, Problems, Scalar

INTERFERENCE, LOADS = "interference", "loads"
HOG, VICTIM, BYSTANDER = "hog", "victim", "bystander"
_IODEPTH = "iodepth"


def with_default_loads(node: Node, problems: Problems) -> Node:
    """The document with ``interference`` expanded to ``loads``; every role keeps its position in the file."""
    if not isinstance(node, Map):
        return node
    entry = node.entries.get(INTERFERENCE)
    if entry is None:
        if LOADS not in node.entries:
            remedy = "write loads, or interference: {hog: ..., victim: ...}"
            problems.add(node.mark, "scenario: loads is missing", remedy, symptom=True)
        return node
    if LOADS in node.entries:
        problems.add(entry.key.mark, "interference: the file also has loads", "keep one of them")
        return node
    pair = entry.value
    if not isinstance(pair, Map) or not {HOG, VICTIM} <= pair.entries.keys():
        return node
    loads = {name: _entry(entry.key, name, Map(pair.mark, roles)) for name, roles in _loads(pair.entries).items()}
    return replace(node, entries={**node.entries, LOADS: _entry(entry.key, LOADS, Map(pair.mark, loads))})


def _loads(pair: Mapping[str, Entry]) -> dict[str, dict[str, Entry]]:
    hog, victim = pair[HOG], pair[VICTIM]
    quiet = {name: pair[name] for name in (VICTIM, BYSTANDER) if name in pair}
    return {
        "solo": quiet,
        "lopsided": {HOG: hog, **quiet},
        "balanced": {HOG: _as_deep_as(hog, victim.value), **quiet},
    }


def _as_deep_as(hog: Entry, victim: Node) -> Entry:
    if not isinstance(hog.value, Map) or not isinstance(victim, Map) or _IODEPTH not in victim.entries:
        return hog
    return replace(hog, value=replace(hog.value, entries={**hog.value.entries, _IODEPTH: victim.entries[_IODEPTH]}))


def _entry(key: Scalar, name: str, value: Node) -> Entry:
    return Entry(replace(key, text=name), value)


_SYNCHRONOUS = {"psync", "sync"}
_READS_ONLY = {"read", "randread"}
_RANDOM = {"randread", "randwrite", "randrw"}
_ONLY_IO_URING = ("fixedbufs", "sqthread_poll")
_ONLY_RANDOM = ("norandommap", "random_distribution")
_ONLY_WRITES = ("create", "fsync", "fdatasync", "sync", "zero_buffers")


def role_rows(row: Row) -> Iterator[tuple[str, str, Row]]:
    """Every role that is a mapping, as (load, role, row)."""
    for load, load_row in (row.get(schema.LOADS) or {}).items():
        for name, entry in load_row.node.entries.items():
            role = schema.ROLE.read(row.problems, name, entry.value) if schema.LOAD.pattern(name) else None
            if role is not None:
                yield load, name, role


def read_loads(row: Row) -> dict[str, Load]:
    """Loads by name, without those that have a mistake."""
    roles: dict[str, dict[str, Role]] = {}
    for load, name, role_row in role_rows(row):
        role = _role(name, role_row)
        if role is not None:
            roles.setdefault(load, {})[name] = role
    window = _window(row)
    loads: dict[str, Load] = {}
    for name, load_row in (row.get(schema.LOADS) or {}).items():
        own = _window(load_row) or window
        if "window" not in load_row.node.entries and "window" not in row.node.entries:
            row.problems.add(load_row.mark, f"load {name}: window is missing", "write window: {ramp: 1s, runtime: 8s}")
        if not set(load_row.node.entries) - {*schema.LOAD_KEYS}:
            row.problems.add(
                load_row.mark,
                f"load {name}: a role is missing",
                "write victim: {disk: ..., rw: ..., bs: 4k, iodepth: 1}",
            )
        if len(roles.get(name, ())) > schema.MOST_ROLES:
            row.problems.add(load_row.mark, f"load {name}: expected at most {schema.MOST_ROLES} roles")
        elif own and name in roles:
            _check_stagger(load_row, roles[name].values(), ramp=own[0])
            loads[name] = Load(name, roles[name], runtime=own[1], ramp=own[0], lost=_lost(load_row))
    return loads


def _lost(row: Row) -> tuple[Loss, ...]:
    losses = []
    for one in row.get(schema.LOST) or ():
        path, start, end = one.get(schema.LOST_PATH), one.get(schema.LOST_FROM), one.get(schema.LOST_TO)
        if path is not None and start is not None and end is not None:
            losses.append(Loss(path, start, end))
    return tuple(losses)


def _check_stagger(row: Row, roles: Iterable[Role], *, ramp: int) -> None:
    for role in roles:
        last = role.stagger * (len(role.disks) - 1)
        if last > ramp:
            remedy = "reduce stagger or lengthen the ramp"
            row.problems.add(
                row.place(role.name),
                f"stagger: the last disk of {role.name} starts {show_time(last)} late, after the ramp",
                remedy,
            )


def _window(row: Row) -> tuple[int, int] | None:
    window = row.get(schema.WINDOW)
    if window is None:
        return None
    ramp, runtime = window.get(schema.RAMP), window.get(schema.RUNTIME)
    return None if ramp is None or runtime is None else (ramp, runtime)


def _role(name: str, row: Row) -> Role | None:
    disks, rw, bs, iodepth = row.get(schema.DISK), row.get(schema.RW), row.get(schema.BS), row.get(schema.IODEPTH)
    ioengine, direct = row.value(schema.IOENGINE), row.value(schema.DIRECT)
    options = {}
    for key, option in schema.OPTIONS.items():
        value = row.get(option.field)
        if value is not None:
            options[key] = option.to_fio(value)
    if disks is None or rw is None or bs is None or iodepth is None:
        return None
    if bs % 512:
        row.problems.add(row.place("bs"), f"bs: {bs} is not a multiple of 512")
    role = Role(name, disks, rw, bs, iodepth, ioengine, direct, options, row.value(schema.STAGGER))
    _check_together(role, row)
    return role


def _check_together(role: Role, row: Row) -> None:
    if role.iodepth > 1 and role.ioengine in _SYNCHRONOUS:
        row.problems.add(
            row.place("iodepth"),
            f"iodepth: {role.ioengine} has one request in flight",
            "write iodepth: 1, or ioengine: libaio",
        )
    if role.iodepth > 1 and role.ioengine == "libaio" and not role.direct:
        row.problems.add(
            row.place("iodepth"),
            "iodepth: buffered libaio has one request in flight",
            "write iodepth: 1, or direct: true",
        )
    if role.rw not in MIXED and "rwmixread" in role.options:
        row.problems.add(
            row.place("rwmixread"), f"rwmixread: rw: {role.rw} does not mix reads and writes", "write rw: randrw"
        )
    if role.rw == "trim" and role.iodepth > 1:
        row.problems.add(row.place("iodepth"), "iodepth: fio discards one block at a time", "write iodepth: 1")
    for key in _ONLY_IO_URING:
        if key in role.options and role.ioengine != "io_uring":
            row.problems.add(row.place(key), f"{key}: {role.ioengine} does not have it", "write ioengine: io_uring")
    if int(role.options.get("iodepth_batch", 1)) > role.iodepth:
        row.problems.add(row.place("iodepth_batch"), f"iodepth_batch: more than the iodepth of {role.iodepth}")
    for key in _ONLY_RANDOM:
        if key in role.options and role.rw not in _RANDOM:
            row.problems.add(row.place(key), f"{key}: rw: {role.rw} is not random", f"remove {key}")
    for key in _ONLY_WRITES:
        if key in role.options and role.rw in _READS_ONLY:
            row.problems.add(row.place(key), f"{key}: rw: {role.rw} does not write", f"remove {key}")


_MILLISECOND = 10**6


def read_clock(row: Row, loads: Mapping[str, Load]) -> tuple[Clock, int, int]:
    """The clock, the most boots of each arm, and how often each boot measures every load."""
    clock = Clock(row.value(schema.CLOCK))
    seeds = row.value(schema.SEEDS)
    boots, windows = row.value(schema.BOOTS), row.value(schema.WINDOWS)
    if clock is Clock.VIRTUAL:
        _refuse(row, schema.AGREES.name, "only a scenario of the wall clock has it", "move it there")
        for field in (schema.BOOTS, schema.WINDOWS):
            _refuse(row, field.name, "the virtual clock repeats every boot exactly", "write seeds: 3, or clock: wall")
        return clock, seeds, 1
    _refuse(
        row, schema.SEEDS.name, "the wall clock has boots, repeated until the stopping rule is met", "write boots: 12"
    )
    for load in loads.values():
        if load.ramp < schema.SHORTEST_RAMP:
            place = row.place(schema.LOADS.name)
            row.problems.add(place, f"load {load.name}: the wall clock needs a ramp of at least 1s", "write ramp: 2s")
    return clock, boots, windows


def read_pause(row: Row, arms: Mapping[str, Arm], *, measured: int) -> int:
    """The pause before each load. ``measured`` is the number of windows in a boot."""
    pause = row.value(schema.PAUSE)
    set_to = [arm.queue.get("io_timeout") for arm in arms.values()]
    timeouts = [schema.REQUEST_TIMEOUT if each is None else int(each) * _MILLISECOND for each in set_to]
    # Without arms their topology did not load, so the request timeout is unknown.
    if measured > 1 and arms and pause <= (shortest := 2 * max(timeouts)):
        row.problems.add(
            row.place("pause"),
            f"pause: expected more than {show_time(shortest)}, twice the request timeout: queues of the previous load"
            " would still count as active",
            "idle time is free on the virtual clock; on the wall clock write queue: {io_timeout: 5000} (ms)",
        )
    return pause


def _refuse(row: Row, key: str, reason: str, remedy: str) -> None:
    if key in row.node.entries:
        row.problems.add(row.place(key), f"{key}: {reason}", remedy)
