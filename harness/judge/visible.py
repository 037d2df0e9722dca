# SPDX-License-Identifier: GPL-2.0-only
"""What a run cannot show: why a ratio is not judged, and in a line for each report what its figures lack."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf

from harness import fitted
from harness.figures.fio import outlives
from harness.judge.cells import CellResult, Evidence, operand_value
from harness.scenario.model import Bound, Load, Operand, Ratio, Role, Scenario, Unseen
from harness.scenario.ratio import BOUND, NUMBER, TRIED
from harness.scenario.registry import (
    GUEST,
    HOST,
    IDLE,
    LUN,
    RUNTIME,
    TOTAL_IOS,
    Basis,
    BootFile,
    Figures,
    Rate,
    figure_of,
    named,
)
from lab.base.units import show_time
from lab.topology.model import Hba, Topology

REACHED = 0.5
"""Share of a buffered role's bytes that its device must have moved in the window, or the page cache made the figure."""
_SECTOR, _SECOND = 512, 1e9
OfRole = Callable[[Load, Role, Figures], tuple[float, str] | None]
"""What is said of a role in a window and how bad it is, the least first; None where there is nothing to say."""
FEWEST = round(1 / fitted.MODELS)
"""I/Os of a window from which one more or less moves a rate by less than device models are exact."""
TOO_BUSY = (
    "the guest was idle for less than a fifth of the window, so the processor and not the device set the figure: "
    "this cannot support a claim about the device"
)
_LOCK = r"\w*(?:spin|seq)_?(?:un|try)?lock\w*|\w*mutex\w*|(?:down|up)_(?:read|write|interruptible|killable|trylock)\w*"
_PARALLEL = {
    "locks": rf"{_LOCK}|rw_semaphore|(?:raw_)?(?:read|write)_(?:(?:un|try)?lock|seq)\w*|rwlock\w*",
    "atomics": r"atomic(?:64|_long)?_\w+|refcount_\w+|percpu_ref\w*|this_cpu_\w+|\w*cmpxchg\w*|(?:set|clear)_bit\w*"
    r"|test_and_\w+_bit\w*",
    "memory barriers": r"[rw]?mb(?=\()|smp_\w*mb\w*|smp_(?:load|store)_\w+|READ_ONCE|WRITE_ONCE|\w*rcu_\w+",
    "the layout of a struct": r"____cacheline_\w*aligned\w*|__cacheline_group_\w+",
}
"""Code whose cost or effect needs several CPUs, by the words of a changed line."""
_CODE = {kind: re.compile(rf"\b(?:{words})\b") for kind, words in _PARALLEL.items()}
_STRUCT = re.compile(r"(?:@@.*@@)? (?:typedef )?(?:struct|union)\b[\w ]*\{")
_CHANGED = re.compile(r"[+-](?!\s*(?:\*|/[*/]))")
_FILE = re.compile(r"(?:---|\+\+\+) [ab]/(\S+)")


def cannot_show(ratio: Ratio, evidence: Evidence, seeds: Sequence[int], expect: Bound | None = None) -> str:
    """Why the ratio is no evidence for what a claim says of it; empty where it is, or where its scenario means that.

    A busy CPU counts also where the idle time of a window was not recorded, few I/Os only with ``expect``.
    """
    scenario = evidence.scenario
    meant = frozenset(Unseen) - {Unseen.CPU} if scenario.meant is None else scenario.meant
    every = [each for each in ratio.operands if each.kind not in (BOUND, NUMBER) and each.key[0] != TRIED]
    speed = [*_windows(_speed_operands(every), evidence, seeds)]
    if Unseen.CPU not in meant and any(_idle(*at) < fitted.LEAST_IDLE for at in speed):
        return TOO_BUSY
    costs = [*_windows((each for each in every if _basis(each) is Basis.CPU), evidence, seeds)]
    if late := next(filter(None, (_of_holder(_outlived, scenario, *at) for at in (*speed, *costs))), ""):
        return f"inconclusive: {late}"
    hidden = {
        Unseen.PARALLEL: (_took_turns(scenario, *at) for at in costs),
        Unseen.CACHED: (_not_filled(scenario, *at) for at in speed),
        Unseen.SHORT: (_too_short(scenario, each) for each in every),
        Unseen.DRIVER: (_other_code(scenario, each) for each in every),
        Unseen.FEW: (_too_few(ratio, expect, evidence, seed) for seed in seeds if expect),
    }
    for kind, reasons in hidden.items():
        if kind not in meant and (reason := next(filter(None, reasons), "")):
            return f"{reason} is not visible; meant: [{kind}] in the scenario judges it so"
    return ""


def _took_turns(scenario: Scenario, operand: Operand, figures: Figures) -> str:
    count = scenario.loads[operand.key[0]].jobs
    if count == 1 or _idle(operand, figures) >= fitted.LEAST_IDLE or not scenario.timing.counts_instructions:
        return ""
    turns = f"{count} jobs took turns on a busy CPU: what they execute is counted"
    return f"{turns}, waiting for locks and cache lines"


def _of_holder(of_role: OfRole, scenario: Scenario, operand: Operand, figures: Figures) -> str:
    """What is said of the role that has a figure, or of the first role where all have it."""
    load, holder = scenario.loads[operand.key[0]], operand.key[1]
    roles = (role for role in load.roles.values() if holder in (role.name, GUEST))
    return next((said[1] for role in roles if (said := of_role(load, role, figures))), "")


def _not_filled(scenario: Scenario, operand: Operand, figures: Figures) -> str:
    below = figure_of(*operand.key[1:]).below or operand.key[1] == GUEST
    says = "" if below else _of_holder(_cached, scenario, operand, figures)
    return f"{says}: its device" if says else ""


def _too_few(ratio: Ratio, expect: Bound, evidence: Evidence, seed: int) -> str:
    """The I/Os that decide a ratio, where another count below ``FEWEST`` might decide it otherwise."""
    ends = [_ends(operand, evidence, seed) for operand in ratio.operands]
    count, name = min((each[2], ".".join(operand.path)) for each, operand in zip(ends, ratio.operands, strict=True))
    (low, high, _), (least, most, _) = (*ends, (1.0, 1.0, inf))[:2]
    if count == inf or expect.decides(low / most, high / least if least else inf):
        return ""
    return f"{_ios(count)} decide{'s' * (count == 1)} {name}: what more of them show"


def _ends(operand: Operand, evidence: Evidence, seed: int) -> tuple[float, float, float]:
    """The least and the most that an operand could be with any number of I/Os below ``FEWEST``, where it rests on so
    few; and this number, infinite for another operand."""
    value = operand_value(operand, seed, evidence)
    if operand.kind in (BOUND, NUMBER) or operand.key[0] == TRIED or operand.key[1] in (GUEST, LUN, HOST):
        return value, value, inf
    load, (_, name, metric) = evidence.scenario.loads[operand.key[0]], operand.key
    role, figure = load.roles[name], figure_of(name, metric)
    figures = evidence.of(operand)[operand.arm, seed].figures
    count, _ = _few(load, role, figures) or (inf, "")
    below = figures.get((load.name, name, "members.requests"), 0.0) * load.runtime / (load.ramp + load.runtime)
    timed = figure.basis is Basis.TIME and (figure.rate or figure.source is BootFile.FIO)
    if count == inf or not timed or (figure.below and below >= FEWEST):
        return value, value, inf
    if figure.rate is None:
        return value * count / FEWEST, inf, count
    size = role.bs if figure.rate is Rate.BYTES else 1
    return 0.0, value + (FEWEST - count) * size * _SECOND / load.runtime, count


def _too_short(scenario: Scenario, operand: Operand) -> str:
    load, scale = scenario.loads[operand.key[0]], scenario.arms[operand.arm].topology.scale
    return f"what the test of {_later(load, scale)}" if load.published * scale > load.runtime else ""


def _later(load: Load, scale: int) -> str:
    """Rates of a scaled topology are lower, so its window has fewer I/Os of the test."""
    return f"{show_time(load.published)} shows later than {show_time(load.runtime // scale)}"


def _other_code(scenario: Scenario, operand: Operand) -> str:
    """The code of a driver that another plays, where a figure is of its devices or of what the whole load shares."""
    load, holder, metric = operand.key
    topology, roles = scenario.arms[operand.arm].topology, scenario.loads[load].roles
    below = [roles[holder]] if holder in roles else roles.values()
    hosts = {topology.luns[leaf].hba for role in below for disk in role.disks for leaf in topology.leaves(disk)}
    if holder in (LUN, HOST):
        name, _ = named(holder, metric)
        hosts = {topology.luns[name].hba if holder == LUN else name}
    return next((f"the code of {driver}, played by {hba.driver}," for driver, hba in _played(topology, hosts)), "")


def _windows(wanted: Iterable[Operand], evidence: Evidence, seeds: Sequence[int]) -> Iterator[tuple[Operand, Figures]]:
    for operand in wanted:
        for seed in seeds:
            cell = evidence.of(operand)[operand.arm, seed]
            yield from ((operand, figures) for figures in cell.windows or (cell.figures,))


def _idle(operand: Operand, figures: Figures) -> float:
    return figures.get((operand.key[0], GUEST, IDLE), 0.0)


def _basis(operand: Operand) -> Basis:
    return figure_of(*operand.key[1:]).basis


def _speed_operands(figures: Sequence[Operand]) -> list[Operand]:
    """The operands that depend on how fast the guest was: of two counts of one window the quotient does not."""
    bases = [*map(_basis, figures)]
    windows = {(operand.kind, *operand.path[:2]) for operand in figures}
    if len(figures) > 1 and len(windows) == 1 and set(bases) == {Basis.COUNT}:
        return []
    return [operand for operand, rests_on in zip(figures, bases, strict=True) if rests_on in (Basis.TIME, Basis.COUNT)]


def reached(load: Load, role: Role, figures: Figures) -> float | None:
    """The share of a buffered role's bytes that its device moved from ramp to window's end; None where not known."""
    counted = [figures.get((load.name, role.name, f"{where}.sectors")) for where in ("disk", "members")]
    sectors = [each for each in counted if each is not None]
    if role.direct or not sectors or not (ios := figures.get((load.name, role.name, TOTAL_IOS))):
        return None
    return max(sectors) * _SECTOR / (ios * role.bs)


def _cached(load: Load, role: Role, figures: Figures) -> tuple[float, str] | None:
    """How little of a buffered role its device did, and in words; None where that is enough or not known."""
    if (share := reached(load, role, figures)) is None or share >= REACHED:
        return None
    return share, f"the device moved {share:.0%} of what the buffered {role.name} did in the page cache"


def _few(load: Load, role: Role, figures: Figures) -> tuple[float, str] | None:
    """How many I/Os a role did, and in words; None where these are enough."""
    count = figures.get((load.name, role.name, TOTAL_IOS), inf)
    return (count, f"{_ios(count)} of {role.name}") if count < FEWEST else None


def _ios(count: float) -> str:
    return f"{count:.0f} I/O{'s' * (count != 1)}"


def _outlived(load: Load, role: Role, figures: Figures) -> tuple[float, str] | None:
    """What part of its time was in its window, and in words; None where I/Os in flight explain the rest."""
    ran, longest = (figures.get((load.name, role.name, metric), 0.0) for metric in (RUNTIME, "lat.max"))
    if not outlives(ran, load.runtime, longest):
        return None
    says = f"the job of {role.name} ran {ran / _SECOND:.1f} s of a window of {load.runtime / _SECOND:g} s"
    return load.runtime / ran, says


_OF_ROLES = {
    "a device under a page cache that does not fill": _cached,
    "steady rates where few I/Os decide": _few,
    "rates of a window that a job outlives": _outlived,
}


def unseen(scenario: Scenario, cells: Iterable[CellResult]) -> str:
    """What figures of the scenario cannot contain, in one line."""
    every = [*cells]
    of_roles = (_worst(says, of_role, scenario, every) for says, of_role in _OF_ROLES.items())
    lines = (_waiting(scenario, every), *of_roles, _cut_short(scenario), _drivers(scenario))
    return "; ".join(filter(None, lines))


def _waiting(scenario: Scenario, cells: Sequence[CellResult]) -> str:
    """The waiting of parallel jobs that took turns on a busy CPU."""
    busy = [
        (idle, cell.arm, load)
        for cell in cells
        for load in scenario.loads.values()
        if load.jobs > 1 and (idle := cell.figures.get((load.name, GUEST, IDLE), inf)) < fitted.LEAST_IDLE
    ]
    if not busy or not scenario.timing.counts_instructions:
        return ""
    idle, arm, load = min(busy, key=lambda window: window[0])
    several = scenario.arms[arm].topology.processors.several
    counted = "blklab sharing counts them" if several else "machine: {cpus: N} and blklab sharing count them"
    return (
        f"time that parallel jobs wait for locks and cache lines ({counted}): in {arm}, {load.name} the CPU was"
        f" {1 - idle:.0%} busy, and {load.jobs} jobs took turns"
    )


def _worst(says: str, of_role: OfRole, scenario: Scenario, cells: Sequence[CellResult]) -> str:
    """The window that it holds for most."""
    windows = (
        (*worst, cell.arm, load.name)
        for cell in cells
        for load in scenario.loads.values()
        for role in load.roles.values()
        if (worst := of_role(load, role, cell.figures))
    )
    _, text, arm, load = min(windows, default=(inf, "", "", ""))
    return f"{says}: in {arm}, {load} {text}" if text else ""


def _cut_short(scenario: Scenario) -> str:
    scale = max(arm.topology.scale for arm in scenario.arms.values())
    short = (load for load in scenario.loads.values() if load.published * scale > load.runtime)
    return next((f"what a test of {_later(load, scale)} ({load.name})" for load in short), "")


def _played(topology: Topology, hosts: Iterable[str]) -> Iterator[tuple[str, Hba]]:
    """The machine's drivers that others play in a captured topology, each with the HBA."""
    for hba in map(topology.hbas.__getitem__, hosts):
        if hba.original_driver not in ("", hba.driver):
            yield hba.original_driver, hba


def _drivers(scenario: Scenario) -> str:
    played = dict(host for arm in scenario.arms.values() for host in _played(arm.topology, arm.topology.hbas))
    return "; ".join(
        f"the machine's driver {driver}: {hba.driver} with {hba.tags} tags plays it, which is other code"
        for driver, hba in played.items()
    )


def unseen_change(diff: str, scenarios: Iterable[Scenario]) -> str:
    """What a diff changes that no scenario with one CPU shows, in one line; empty where one has several."""
    changes = dict.fromkeys(_parallel_changes(diff))
    arms = (arm for scenario in scenarios for arm in scenario.arms.values())
    if not changes or any(arm.topology.processors.several for arm in arms):
        return ""
    kinds = {kind: [file for each, file in changes if each == kind] for kind, _ in changes}
    named = ", ".join(f"{kind} ({', '.join(files)})" for kind, files in kinds.items())
    return f"the series changes {named}; a scenario with machine: {{cpus: N}} counts it"


def _parallel_changes(diff: str) -> Iterator[tuple[str, str]]:
    """The kinds of code in changed lines, each with its file. A struct that is new has no layout of before."""
    file, in_struct = "", False
    for line in diff.splitlines():
        if match := _FILE.match(line):
            file, in_struct = match[1], False
        elif line.startswith("@@") or re.match(r"[ +-][^\s#]", line):
            in_struct = _STRUCT.match(line) is not None
        elif in_struct and _CHANGED.match(line) and ";" in line:
            yield "the layout of a struct", file
        if not match and file.endswith((".c", ".h")) and _CHANGED.match(line):
            yield from ((kind, file) for kind, words in _CODE.items() if words.search(line))
