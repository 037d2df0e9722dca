# SPDX-License-Identifier: GPL-2.0-only
"""The loads and roles of a scenario file."""

from collections.abc import Iterable, Iterator

from harness.scenario import schema
from harness.scenario.model import MIXED, Load, Role
from lab.base.units import show_time
from lab.yaml.fields import Row

_SYNCHRONOUS = {"psync", "sync"}
_READS_ONLY = {"read", "randread"}
_RANDOM = {"randread", "randwrite", "randrw"}
_ONLY_RANDOM = ("norandommap", "random_distribution")
_ONLY_WRITES = ("fsync", "fdatasync", "zero_buffers")


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
        if not set(load_row.node.entries) - {schema.WINDOW.name}:
            row.problems.add(
                load_row.mark,
                f"load {name}: a role is missing",
                "write victim: {disk: ..., rw: ..., bs: 4k, iodepth: 1}",
            )
        if len(roles.get(name, ())) > schema.MOST_ROLES:
            row.problems.add(load_row.mark, f"load {name}: expected at most {schema.MOST_ROLES} roles")
        elif own and name in roles:
            _check_stagger(load_row, roles[name].values(), ramp=own[0])
            loads[name] = Load(name, roles[name], runtime=own[1], ramp=own[0])
    return loads


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
    for key in _ONLY_RANDOM:
        if key in role.options and role.rw not in _RANDOM:
            row.problems.add(row.place(key), f"{key}: rw: {role.rw} is not random", f"remove {key}")
    for key in _ONLY_WRITES:
        if key in role.options and role.rw in _READS_ONLY:
            row.problems.add(row.place(key), f"{key}: rw: {role.rw} does not write", f"remove {key}")
