# SPDX-License-Identifier: GPL-2.0-only
"""The ``ratio:`` of a claim: ``OPERAND`` or ``OPERAND / OPERAND``.

An operand is a number, ``arm.load.role.metric``, a sampled figure (``arm.load.lun.NAME.tags.mean``), or
``arm.tried.accepted.KEY`` (1 or 0) and ``arm.tried.effective.KEY`` of a setting under ``try:``. With the prefix
``bound.`` a figure is what the topology allows, with ``baseline.`` it is that of the kernel compared with.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate

from harness.scenario.model import Bound, Load, Operand, Ratio, Scenario
from harness.scenario.registry import FIGURES, GUEST, HOST, LUN, OF_ROLES, Machine, figure_of, held_by, named
from lab.kernels.model import RangeError
from lab.topology.model import Topology
from lab.yaml.strict import names, nearest, quoted, similar


class ExpressionError(RangeError):
    """Text that is no ratio or bound. ``offset`` counts its characters from 0."""


_NUMBER = r"([0-9]{1,15}(?:\.[0-9]{1,15})?)"
_ONE_SIDED = re.compile(rf"\s*(>=|<=|>|<)\s*{_NUMBER}\s*")
_INTERVAL = re.compile(rf"\s*{_NUMBER}\s*\.\.\s*{_NUMBER}\s*")
BOUND_PATTERN = rf"{_ONE_SIDED.pattern}|{_INTERVAL.pattern}"


def parse_bound(text: str) -> Bound:
    """Raises ExpressionError for text that is no bound, and for a bound that always or never holds."""
    if match := _ONE_SIDED.fullmatch(text):
        op, limit = match[1], float(match[2])
        if limit == 0 and op in {">=", "<"}:
            word = "always" if op == ">=" else "never"
            raise ExpressionError(match.start(1), f'"{text.strip()}" {word} holds: no figure is negative')
        if op.startswith(">"):
            return Bound(text, limit, None, low_open=op == ">")
        return Bound(text, None, limit, high_open=op == "<")
    if match := _INTERVAL.fullmatch(text):
        low, high = float(match[1]), float(match[2])
        if low > high:
            raise ExpressionError(
                match.start(1), f"the interval {text.strip()} is empty", "write the smaller limit first"
            )
        return Bound(text, low, high)
    raise ExpressionError(0, f'expected a bound, got "{text[:60]}"', 'such as ">= 0.9", "<= 0.15" or "0.98 .. 1.02"')


FIGURE, BOUND, BASELINE, NUMBER = "figure", "bound", "baseline", "number"
"""The kinds of an operand."""

TRIED, TRY_RESULTS = "tried", ("accepted", "effective")
_TOKEN = re.compile(r"[A-Za-z0-9_.-]+|/|(\S)")
_DECIMAL = re.compile(r"[0-9]{1,15}(\.[0-9]{1,15})?")
_SHAPE = "arm.load.role.metric"


ALL_FIGURES = "blklab help --values figures lists all"
_FEW = 20
"""Names that an error lists; of more it shows those that are similar."""


@dataclass(frozen=True)
class Names:
    """The names that an operand may use: the arms, and the roles of each load.

    ``sound`` are the loads without a mistake. ``tried`` are the settings under ``try:`` of each arm. ``sampled`` are
    the LUNs and hosts of each arm, as ``sampled_names`` returns them.
    """

    arms: tuple[str, ...]
    loads: Mapping[str, tuple[str, ...]]
    sound: Mapping[str, Load] = field(default_factory=dict)
    tried: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    sampled: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)


def names_of(scenario: Scenario) -> Names:
    return Names(
        tuple(scenario.arms),
        {load.name: tuple(load.roles) for load in scenario.loads.values()},
        scenario.loads,
        sampled={name: sampled_names(arm.topology) for name, arm in scenario.arms.items()},
    )


def sampled_names(topology: Topology) -> Mapping[str, tuple[str, ...]]:
    """What figures name in place of a role: LUNs and hosts of a topology, and the figures of its guest."""
    guest = (name for name in held_by(GUEST) if FIGURES[name].machine.has(topology.processors))
    return {LUN: tuple(topology.luns), HOST: tuple(topology.hbas), GUEST: tuple(guest)}


def named_lines(scenario: Scenario) -> tuple[str, ...]:
    """The NAMEs of all figures line.NAME.seen and the like."""
    ratios = [claim.ratio for claim in scenario.claims] + [control.ratio for control in scenario.controls]
    ratios += [entry.ratio for entry in scenario.reproduces]
    ratios += [condition.ratio for diagnosis in scenario.diagnoses for condition in diagnosis.when]
    sides = (side for ratio in ratios for side in ratio.operands)
    of_guest = (named(GUEST, side.path[3])[0] for side in sides if side.path[2:3] == (GUEST,))
    return tuple(sorted({*of_guest} - {""}))


def parse_ratio(text: str, known: Names) -> Ratio:
    """Raises ExpressionError for bad syntax, an unknown name, and a ratio without a measured figure."""
    tokens = _tokens(text)
    left = _operand(tokens, 0, known, text)
    if len(tokens) == 1:
        if left.kind == NUMBER:
            raise ExpressionError(tokens[0].start(), "a number alone measures nothing", f"write a figure: {_SHAPE}")
        return Ratio(text, left, None)
    if tokens[1][0] != "/":
        raise ExpressionError(tokens[1].start(), f"expected /, got {quoted(tokens[1][0])}")
    right = _operand(tokens, 2, known, text)
    for extra in tokens[3:]:
        raise ExpressionError(extra.start(), f"expected the end, got {quoted(extra[0])}", "a ratio has two operands")
    _refuse_empty(left, right, tokens[2].start())
    return Ratio(text, left, right)


def _refuse_empty(left: Operand, right: Operand, offset: int) -> None:
    if right.kind == NUMBER and right.number == 0:
        raise ExpressionError(offset, "division by zero")
    if left == right:
        raise ExpressionError(offset, "both operands are the same figure, so the ratio is always 1")
    if all(side.kind not in {FIGURE, BASELINE} for side in (left, right)):
        raise ExpressionError(offset, "neither operand is measured", f"write a figure: {_SHAPE}")


def _tokens(text: str) -> list[re.Match[str]]:
    tokens = [*_TOKEN.finditer(text)]
    for odd in (token for token in tokens if token[1]):
        raise ExpressionError(odd.start(), f"unexpected {quoted(odd[1])}", f"a ratio is {_SHAPE} / {_SHAPE}")
    return tokens


def _operand(tokens: list[re.Match[str]], index: int, known: Names, text: str) -> Operand:
    if index >= len(tokens) or tokens[index][0] == "/":
        offset = tokens[index].start() if index < len(tokens) else len(text)
        raise ExpressionError(offset, "an operand is missing", f"write {_SHAPE} or a number")
    token = tokens[index]
    if _DECIMAL.fullmatch(token[0]):
        return Operand(NUMBER, (), float(token[0]))
    kind, offset, rest = FIGURE, token.start(), token[0]
    first = rest.split(".", 1)[0]
    if first in {BOUND, BASELINE}:
        kind, rest = first, rest[len(first) + 1 :]
        offset += len(token[0]) - len(rest)
    return Operand(kind, _path(rest, offset, known, kind))


def _path(text: str, offset: int, known: Names, kind: str) -> tuple[str, ...]:
    parts = text.split(".", 3)
    if len(parts) < len(_SHAPE.split(".")) or not all(parts):
        raise ExpressionError(offset, f"expected {_SHAPE}, got {quoted(text)}")
    arm, load, role, metric = parts
    _, at_load, at_role, at_metric = accumulate((len(part) + 1 for part in parts[:-1]), initial=offset)
    _check_name(offset, "arm", arm, known.arms)
    if load == TRIED and kind != BOUND and arm in known.tried:
        _check_name(at_role, "result of a try", role, TRY_RESULTS)
        _check_name(at_metric, "setting under try:", metric, known.tried[arm])
        return tuple(parts)
    _check_name(at_load, "load", load, known.loads)
    if role in (GUEST, LUN, HOST) and kind != BOUND and role not in known.loads[load]:
        _check_sampled(at_metric, arm, role, metric, known)
        return tuple(parts)
    if role == GUEST and kind == BOUND and role not in known.loads[load]:
        message = "bound.* is what the topology allows to roles, before anything is counted: guest has none"
        remedy = "blklab explain RUN prints a model of more CPUs from the counts of a run"
        raise ExpressionError(at_role, message, remedy)
    _check_name(at_role, f"role of load {load}:", role, known.loads[load])
    metrics = [name for name in OF_ROLES if FIGURES[name].bounded or kind != BOUND]
    _check_name(at_metric, "metric with a bound:" if kind == BOUND else "metric", metric, metrics)
    _check_machine(at_metric, arm, role, metric, known)
    sound = known.sound.get(load)
    if sound and role in sound.roles and (why := FIGURES[metric].lacks(sound, sound.roles[role])):
        raise ExpressionError(at_metric, f"role {role} of load {load} has no {metric}: {why}")
    return tuple(parts)


def _check_sampled(offset: int, arm: str, role: str, metric: str, known: Names) -> None:
    """Refuse what no sample names. ``metric`` is NAME.METRIC of a LUN or a host."""
    if role == GUEST:
        _check_name(offset, "figure of the guest:", figure_of(role, metric).name or metric, held_by(role))
        _check_machine(offset, arm, role, metric, known)
        return
    name, _, figure = metric.partition(".")
    _check_name(offset, f"{role} of arm {arm}:", name, known.sampled.get(arm, {}).get(role, ()))
    _check_name(offset + len(name) + 1, f"sampled figure of a {role}:", figure, held_by(role))


def _check_machine(offset: int, arm: str, role: str, metric: str, known: Names) -> None:
    """Refuse a figure that is not counted on the arm's machine."""
    figure = figure_of(role, metric)
    if figure.machine is not Machine.ANY and figure.name not in known.sampled.get(arm, {}).get(GUEST, ()):
        raise ExpressionError(offset, f"arm {arm} has no {metric}: {figure.machine.why}", figure.machine.remedy)


def _check_name(offset: int, what: str, name: str, known: Iterable[str]) -> None:
    if name not in known:
        near = f"{names(similar(name, known))} come near; {ALL_FIGURES}"
        remedy = f"known: {names(known)}" if len({*known}) <= _FEW else near
        raise ExpressionError(offset, f"no {what} {name}{nearest(name, known)}", remedy)
