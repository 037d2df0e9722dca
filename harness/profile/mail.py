# SPDX-License-Identifier: GPL-2.0-only
"""Profiles as text that fits into a mail: at most 30 lines of at most 112 characters."""

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import accumulate, pairwise

from harness.profile.differential import Differential, FunctionChange, canonical, spent
from harness.profile.model import BLIND, Context, Function, Group, Profile
from harness.profile.paths import one_sided
from lab.base.errors import Misuse
from lab.yaml.strict import nearest

LINES = 30
_LINE, _NAME = 112, 58
_PATHS, _STEPS, _WIDE = 4, 4, 84
_LARGE = Fraction(1, 50)
"""The share of the total from which on a call path of one side is shown."""
_CONTEXTS = {Context.INTERRUPT: "irq", Context.IDLE: "idle", Context.USER: "user", Context.KERNEL: ""}


def whole(value: Fraction) -> int:
    return round(value)


def profile_lines(profile: Profile, most: int = LINES) -> list[str]:
    """One profile: its parts, then its most expensive functions. Both columns add up to the total."""
    head, total = profile.head, whole(profile.per_io(profile.total))
    lines = [f"{head.scenario} {head.cell}, seed {head.seed}, {head.release}: {total:,} instructions per I/O"]
    lines += [_accounting(profile), ""]
    parts = groups_of(profile)
    lost = _unexplained(profile)
    lines += [f"{part:>10,}  {group}" for group, part in zip(parts, _rounded(parts.values()), strict=True)]
    lines += [f"{lost:>10,}  unexplained", ""]
    lines.append(f"{'per I/O':>10}  {'calls':>7}  {'each':>7}  function")
    foot = ["", *_foot([profile])]
    ranked = sorted(spent(profile).items(), key=lambda item: (-item[1].instructions, item[0]))
    shown = ranked[: most - len(lines) - len(foot) - 1]
    for function, own in shown:
        each = f"{float(own.instructions / own.calls):,.1f}" if own.calls else ""
        calls = f"{float(own.calls):.2f}" if own.calls else ""
        lines.append(f"{whole(own.instructions):>10,}  {calls:>7}  {each:>7}  {name_of(function)}")
    rest = total - sum(whole(own.instructions) for _, own in shown) - lost
    lines.append(f"{rest:>10,}  {'':>7}  {'':>7}  {len(ranked) - len(shown)} other functions")
    return lines + foot


def most_expensive(profile: Profile, most: int) -> str:
    """The most expensive functions in one line, instructions per I/O."""
    ranked = sorted(spent(profile).items(), key=lambda item: (-item[1].instructions, item[0]))[:most]
    return ", ".join(f"{name_of(function)} {whole(own.instructions):,}" for function, own in ranked)


def differential_lines(found: Differential, most: int = LINES) -> list[str]:
    """Two profiles: the parts, then the functions that differ most. Every column adds up to the total."""
    one, other = found.before.head, found.after.head
    before, after = (whole(total) for total in found.totals)
    ratio = f", x{float(found.totals[1] / found.totals[0]):.3f}" if found.totals[0] else ""
    lines = [
        f"{one.scenario} {one.cell}, seed {one.seed}: {one.release} -> {other.release}",
        f"{before:,} -> {after:,} instructions per I/O ({after - before:+,}{ratio})",
        "",
        f"{'before':>10}  {'after':>10}  {'delta':>10}",
    ]
    old, new = groups_of(found.before), groups_of(found.after)
    groups = [group for group in Group if group in old or group in new]
    columns = [_rounded(side.get(group, Fraction()) for group in groups) for side in (old, new)]
    lines += [_row(*row) for row in zip(*columns, map(str, groups), strict=True)]
    lost = _unexplained(found.before), _unexplained(found.after)
    lines += [_row(*lost, "unexplained"), ""]
    lines += [*_paths(found), f"{'delta':>10}  {'instructions':>17}  {'calls':>15}  function"]
    foot = ["", *_foot([found.before, found.after])]
    shown = found.changes[: most - len(lines) - len(foot) - 1]
    lines += [_change(change) for change in shown]
    rest = after - before - (lost[1] - lost[0]) - sum(whole(change.delta) for change in shown)
    lines.append(f"{rest:>+10,}  {'':>17}  {'':>15}  {len(found.changes) - len(shown)} other functions")
    return lines + foot


def groups_of(profile: Profile) -> dict[Group, Fraction]:
    """Instructions per I/O of each group that has any."""
    sums: dict[Group, int] = {}
    for function, cost in profile.costs.items():
        sums[function.group] = sums.get(function.group, 0) + cost.instructions
    return {group: profile.per_io(sums[group]) for group in Group if group in sums}


def _rounded(parts: Iterable[Fraction]) -> list[int]:
    """Whole numbers that add up to the rounded sum of the parts."""
    sums = [Fraction(), *accumulate(parts)]
    return [whole(after) - whole(before) for before, after in pairwise(sums)]


def _unexplained(profile: Profile) -> int:
    """Per I/O; never 0 where anything is unexplained."""
    return max(whole(profile.per_io(profile.unexplained)), int(profile.unexplained > 0))


def _paths(found: Differential) -> Iterator[str]:
    """The call paths that are of one side: where a difference begins."""
    total = max(found.totals)
    large = [one for one in one_sided(found.before, found.after) if abs(one.delta) >= _LARGE * total][:_PATHS]
    for one in large:
        side = "after" if one.delta > 0 else "before"
        path = ">".join(one.path[-_STEPS:]) + (f"> .. >{one.inner}" if one.inner != one.path[-1] else "")
        yield f"{whole(one.delta):>+10,}  only {side}: {path if len(path) <= _WIDE else '...' + path[3 - _WIDE :]}"
    if large:
        yield ""


def _row(old: int, new: int, name: str) -> str:
    return f"{old:>10,}  {new:>10,}  {new - old:>+10,}  {name}"


def _change(change: FunctionChange) -> str:
    spans = f"{whole(change.before.instructions):,} -> {whole(change.after.instructions):,}"
    calls = f"{float(change.before.calls):.2f} -> {float(change.after.calls):.2f}"
    note = f" ({change.note})" if change.note else ""
    if change.inlined:
        note = f" with {', '.join(function.name for function in change.inlined)}"
    return f"{whole(change.delta):>+10,}  {spans:>17}  {calls:>15}  {name_of(change.function)}{note}"[:_LINE]


def function_lines(profiles: Sequence[Profile], name: str, most: int = LINES) -> list[str]:
    """Callers and callees of the functions of this name in each profile. Raises Misuse for an unknown name."""
    known = {function.name for profile in profiles for function in map(canonical, profile.costs)}
    if name not in known:
        raise Misuse(f"no function {name} was executed{nearest(name, known)}", remedy="the profile lists functions")
    lines = [f"{name}: calls per I/O, and instructions of the callee with all that it calls"]
    room = (most - 2) // len(profiles) - 3
    for profile in profiles:
        callers, callees = _neighbours(profile, name)
        absent = "" if callers or callees else ": not executed, or neither called nor calling"
        lines += ["", f"{profile.head.release}{absent}"]
        lines += _neighbour_lines(callers, "from", max(1, room // 2))
        lines += _neighbour_lines(callees, "to", max(1, room - min(room // 2, len(callers))))
    return [*lines, *_foot(profiles)]


_Neighbours = dict[str, tuple[Fraction, Fraction]]


def _neighbours(profile: Profile, name: str) -> tuple[_Neighbours, _Neighbours]:
    """Calls and inclusive instructions per I/O by caller, and by callee."""
    callers: _Neighbours = {}
    callees: _Neighbours = {}
    for (caller, callee), cost in profile.edges.items():
        for found, here, there in ((callers, callee, caller), (callees, caller, callee)):
            if canonical(here).name == name and canonical(there) != canonical(here):
                calls, instructions = found.get(name_of(there), (Fraction(), Fraction()))
                found[name_of(there)] = (
                    calls + profile.per_io(cost.calls),
                    instructions + profile.per_io(cost.instructions),
                )
    return callers, callees


def _neighbour_lines(found: _Neighbours, word: str, most: int) -> Iterator[str]:
    ranked = sorted(found.items(), key=lambda item: (-item[1][1], item[0]))
    for name, (calls, instructions) in ranked[:most]:
        yield f"{float(calls):>10.3f}  {whole(instructions):>10,}  {word} {name}"
    if ranked[most:]:
        yield f"{'':>10}  {'':>10}  {word} {len(ranked) - most} others"


def name_of(function: Function) -> str:
    """The function's title, with its context unless that is a process in the kernel."""
    context = _CONTEXTS[function.context]
    title = function.title if len(function.title) <= _NAME else function.title[: _NAME - 3] + "..."
    return f"{title} {context}" if context and context != "user" else title


def _accounting(profile: Profile) -> str:
    own = f"{profile.total:,} instructions, {float(profile.ios):,.1f} I/Os in the window"
    figure = profile.head.per_io
    return own if figure is None else f"{own}; cpu.per_io of the stored run: {figure:,.0f} ns"


def _foot(profiles: Iterable[Profile]) -> list[str]:
    surprises = sum(profile.surprises for profile in profiles)
    stacks = "exact in the kernel; programs have no callers" if not surprises else f"not exact: {surprises} odd returns"
    return [f"Digest as in the stored boot. Call paths: {stacks}.", BLIND]
