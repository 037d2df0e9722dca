# SPDX-License-Identifier: GPL-2.0-only
"""The clock of a scenario file, and its loads and roles."""

from collections.abc import Iterable, Iterator, Mapping

from harness.scenario import schema
from harness.scenario.fio import CGROUP_FILES
from harness.scenario.model import MIXED, PERCENT, READS, Arm, Load, Role, mean_size
from harness.scenario.timing import TIMINGS, Clock
from lab.base.units import show_time
from lab.topology.model import Loss
from lab.yaml.fields import Row

_SYNCHRONOUS = {"psync", "sync"}
_RANDOM = {"randread", "randwrite", "randrw"}
_ONLY_RANDOM = ("norandommap", "random_distribution")
_ONLY_WRITES = (schema.AGE, "create", "fsync", "fdatasync", "overwrite", "sync", "zero_buffers")


def role_rows(row: Row) -> Iterator[tuple[str, str, Row]]:
    """Every role that is a mapping, as (load, role, row)."""
    for load, load_row in row.get("loads", {}).items():
        yield from ((load, name, role) for name, _, role in load_row.matches() if role is not None)


def read_loads(row: Row) -> dict[str, Load]:
    """Loads by name, without those that have a mistake."""
    roles: dict[str, dict[str, Role]] = {}
    for load, name, role_row in role_rows(row):
        if role := _role(name, role_row):
            roles.setdefault(load, {})[name] = role
            if schema.AGE in role.options:
                role_row.add(schema.AGE, f"{schema.AGE}: only a step deletes files", "move the role to prepare")
    window = row.get("window")
    loads: dict[str, Load] = {}
    for name, load_row in row.get("loads", {}).items():
        own = load_row.get("window", window)
        if "window" not in load_row.node.entries and "window" not in row.node.entries:
            load_row.add("", f"load {name}: window is missing", "write window: {ramp: 1s, runtime: 8s}")
        if not set(load_row.node.entries) - {*schema.LOAD_KEYS}:
            remedy = "write victim: {disk: ..., rw: ..., bs: 4k, iodepth: 1}"
            load_row.add("", f"load {name}: a role is missing", remedy)
        if len(roles.get(name, ())) > schema.MOST_ROLES:
            load_row.add("", f"load {name}: expected at most {schema.MOST_ROLES} roles")
        elif own and name in roles:
            _check_stagger(load_row, roles[name].values(), own["ramp"])
            losses = tuple(loss for item in load_row.get("lost", ()) if (loss := item.build(Loss)))
            prepare, warm = (tuple(_steps(load_row, key)) for key in schema.STEP_KEYS)
            folios = load_row.get(schema.FOLIOS.name)
            loads[name] = Load(name, roles[name], lost=losses, prepare=prepare, warm=warm, folios=folios, **own)
    return loads


def step_rows(load_row: Row) -> Iterator[Row]:
    """The steps before a load."""
    yield from (step for key in schema.STEP_KEYS for step in load_row.get(key, ()))


def _steps(load_row: Row, key: str) -> Iterator[Role]:
    for number, step in enumerate(load_row.get(key, ()), start=1):
        if role := _role(f"{key}{number}", step):
            yield role
            if "size" not in role.options:
                step.add("", f"{key}: size is missing, at which a step ends", "write size: 64M")
            for option in sorted(role.options.keys() & CGROUP_FILES.keys()):
                step.add(option, f"{option}: a step has no cgroup", f"remove {option}")


def _check_stagger(row: Row, roles: Iterable[Role], ramp: int) -> None:
    for role in roles:
        last = role.stagger * (len(role.disks) - 1)
        if last > ramp:
            message = f"stagger: the last disk of {role.name} starts {show_time(last)} late, after the ramp"
            row.add(role.name, message, "reduce stagger or lengthen the ramp")


def _role(name: str, row: Row) -> Role | None:
    given = row.given(option.field for option in schema.OPTIONS.values())
    values = {field.into or field.name: row.get(field) for field in schema.ROLE_KEYS}
    if None in values.values():
        return None
    options = {key: schema.OPTIONS[key].to_fio(value) for key, value in given.items()}
    role = Role(name, options=options, **values)
    for key, message, remedy in (*_sizes(role), *_together(role)):
        row.add(key, f"{key}: {message}", remedy)
    return role


def _sizes(role: Role) -> Iterator[tuple[str, str, str]]:
    """What is wrong with the sizes of its requests, as in ``_together``."""
    key = "bssplit" if "bssplit" in role.options else "bs"
    for size in filter(lambda size: size % 512, role.sizes):
        yield key, f"{size} is not a multiple of 512", ""
    if (whole := sum(role.sizes.values())) != PERCENT:
        yield key, f"the shares add up to {whole} %, not to {PERCENT}", ""
    elif role.bs != (mean := mean_size(role.sizes)):
        yield "bs", f"the mean of bssplit is {mean} bytes", f"write bs: {mean}"
    if key in role.options and "verify" in role.options:
        yield key, "checksums are of blocks of one size", "remove verify"
    if key in role.options and role.rw in _RANDOM and role.options.get("norandommap") != "1":
        yield key, "fio cuts requests that reach a block which it did before", "write norandommap: true"


def _together(role: Role) -> Iterator[tuple[str, str, str]]:
    """What keys of a role exclude each other: (key, reason, remedy)."""
    if role.iodepth > 1 and role.ioengine in _SYNCHRONOUS:
        yield "iodepth", f"{role.ioengine} has one request in flight", "write iodepth: 1, or ioengine: libaio"
    if role.iodepth > 1 and role.ioengine == "libaio" and not role.direct:
        yield "iodepth", "buffered libaio has one request in flight", "write iodepth: 1, or direct: true"
    if role.rw not in MIXED and "rwmixread" in role.options:
        yield "rwmixread", f"rw: {role.rw} does not mix reads and writes", "write rw: randrw"
    if role.polls and not role.direct:
        yield "hipri", "the page cache is not polled", "write direct: true"
    if role.rw == "trim" and role.iodepth > 1:
        yield "iodepth", "fio discards one block at a time", "write iodepth: 1"
    if int(role.options.get("iodepth_batch", 1)) > role.iodepth:
        yield "iodepth_batch", f"more than the iodepth of {role.iodepth}", ""
    for key in role.options:
        if key in schema.ONLY_IO_URING and role.ioengine != "io_uring":
            yield key, f"{role.ioengine} does not have it", "write ioengine: io_uring"
        if key in _ONLY_RANDOM and role.rw not in _RANDOM:
            yield key, f"rw: {role.rw} is not random", f"remove {key}"
        if key in _ONLY_WRITES and role.rw in READS:
            yield key, f"rw: {role.rw} does not write", f"remove {key}"


_MILLISECOND = 10**6


def read_clock(row: Row, loads: Mapping[str, Load]) -> tuple[Clock, int, int]:
    """The clock, the most boots of each arm, and how often each boot measures every load."""
    clock: Clock = row.get("clock")
    timing = TIMINGS[clock]
    for key, (reason, remedy) in timing.refuses.items():
        if key in row.node.entries:
            row.add(key, f"{key}: {reason}", remedy)
    for load in loads.values():
        if load.ramp < timing.shortest_ramp:
            least = show_time(timing.shortest_ramp)
            row.add("loads", f"load {load.name}: the {clock} clock needs a ramp of at least {least}", "write ramp: 2s")
    return clock, row.get(timing.boots_key), 1 if "windows" in timing.refuses else row.get("windows")


def read_pause(row: Row, arms: Mapping[str, Arm], windows: int) -> int:
    """The pause before each load, of which a boot measures ``windows``."""
    pause = int(row.get("pause"))
    set_to = [arm.queue.get("io_timeout") for arm in arms.values()]
    timeouts = [schema.REQUEST_TIMEOUT if each is None else int(each) * _MILLISECOND for each in set_to]
    # Without arms their topology did not load, so the request timeout is unknown.
    if windows > 1 and arms and pause <= (shortest := 2 * max(timeouts)):
        row.add(
            "pause",
            f"pause: expected more than {show_time(shortest)}, twice the request timeout: queues of the previous load"
            " would still count as active",
            "idle time is free on the virtual clock; on the wall clock write queue: {io_timeout: 5000} (ms)",
        )
    return pause
