# SPDX-License-Identifier: GPL-2.0-only
"""Profiles as text that fits into a mail, at most 30 lines of at most 112 characters, and as a page of flame graphs."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import accumulate, pairwise

from markupsafe import Markup

from harness.profile.model import (
    BLIND,
    Context,
    Cost,
    Differential,
    Frame,
    Function,
    FunctionChange,
    Group,
    Profile,
    canonical,
    differential,
    frames_of,
    joined,
    one_sided,
    source_costs,
)
from harness.report.charts import Tile, tiles
from harness.report.html import render
from lab.base.errors import Misuse
from lab.yaml.strict import nearest

LINES = 30
_LINE, _NAME = 112, 58
_ONE_SIDE = "Only before, only after: on the other side it is inlined, renamed or not called."
_PATHS, _STEPS, _WIDE = 4, 4, 84
_LARGE = Fraction(1, 50)
"""The share of the total from which on a call path of one side is shown."""
_CONTEXTS = {Context.INTERRUPT: " irq", Context.IDLE: " idle"}


def profile_lines(profile: Profile, most: int = LINES) -> list[str]:
    """One profile: its parts, then its most expensive functions. Both columns add up to the total."""
    head, total = profile.head, round(profile.per_io(profile.total))
    figure = "" if head.per_io is None else f"; cpu.per_io of the stored run: {head.per_io:,.0f} ns"
    parts = _parts([profile])
    lines = [
        f"{head.scenario} {head.cell}, seed {head.seed}, {head.release}: {total:,} instructions per I/O",
        f"{profile.total:,} instructions, {float(profile.ios):,.1f} I/Os in the window{figure}",
        "",
        *(f"{part:>10,}  {name}" for name, (part,) in parts),
        "",
        f"{'per I/O':>10}  {'calls':>7}  {'each':>7}  function",
    ]
    foot = ["", *_foot([profile])]
    ranked = list(source_costs(profile).items())
    shown = ranked[: most - len(lines) - len(foot) - 1]
    for function, own in shown:
        each = f"{float(own.instructions / own.calls):,.1f}" if own.calls else ""
        calls = f"{float(own.calls):.2f}" if own.calls else ""
        lines.append(f"{round(own.instructions):>10,}  {calls:>7}  {each:>7}  {name_of(function)}")
    rest = total - sum(round(own.instructions) for _, own in shown) - parts[-1][1][0]
    lines.append(f"{rest:>10,}  {'':>7}  {'':>7}  {len(ranked) - len(shown)} other functions")
    return lines + foot


def most_expensive(profile: Profile, most: int) -> str:
    """The most expensive functions in one line, instructions per I/O."""
    ranked = list(source_costs(profile).items())[:most]
    return ", ".join(f"{name_of(function)} {round(own.instructions):,}" for function, own in ranked)


def differential_lines(difference: Differential, most: int = LINES) -> list[str]:
    """Two profiles: the parts, then the functions that differ most. Every column adds up to the total."""
    sides = [difference.before, difference.after]
    old, new = (side.head for side in sides)
    before, after = (round(total) for total in difference.totals)
    ratio = f", x{float(difference.totals[1] / difference.totals[0]):.3f}" if difference.totals[0] else ""
    parts = _parts(sides)
    lines = [
        f"{old.scenario} {old.cell}, seed {old.seed}: {old.release} -> {new.release}",
        f"{before:,} -> {after:,} instructions per I/O ({after - before:+,}{ratio})",
        "",
        f"{'before':>10}  {'after':>10}  {'delta':>10}",
        *(f"{was:>10,}  {now:>10,}  {now - was:>+10,}  {name}" for name, (was, now) in parts),
        "",
        *_paths(difference),
        f"{'delta':>10}  {'instructions':>17}  {'calls':>15}  function",
    ]
    foot = ["", *([_ONE_SIDE] if any(change.note for change in difference.changes) else []), *_foot(sides)]
    shown = difference.changes[: most - len(lines) - len(foot) - 1]
    lines += [_change(change) for change in shown]
    lost_before, lost_after = parts[-1][1]
    rest = after - before - (lost_after - lost_before) - sum(round(change.delta) for change in shown)
    lines.append(f"{rest:>+10,}  {'':>17}  {'':>15}  {len(difference.changes) - len(shown)} other functions")
    return lines + foot


def _parts(profiles: Sequence[Profile]) -> list[tuple[str, list[int]]]:
    """The groups that one of the profiles has, with instructions per I/O of each profile; last what is unexplained.

    A column adds up to the rounded sum of its parts. What is unexplained is never 0 where there is any.
    """
    sums = [Counter[Group]() for _ in profiles]
    for profile, own in zip(profiles, sums, strict=True):
        for node in profile.nodes:
            own[node.function.group] += node.instructions
    groups = [group for group in Group if any(group in own for own in sums)]
    rows: list[tuple[str, list[int]]] = [(name, []) for name in (*groups, "unexplained")]
    for profile, own in zip(profiles, sums, strict=True):
        totals = [0, *(round(profile.per_io(total)) for total in accumulate(own[group] for group in groups))]
        lost = max(round(profile.per_io(profile.unexplained)), int(profile.unexplained > 0))
        for (_, row), part in zip(rows, (*(upper - lower for lower, upper in pairwise(totals)), lost), strict=True):
            row.append(part)
    return rows


def _paths(difference: Differential) -> Iterator[str]:
    """The call paths that are of one side: where a difference begins."""
    least = _LARGE * max(difference.totals)
    subtrees = one_sided(difference.before, difference.after)
    large = [(path, frame) for path, frame in subtrees if abs(frame.delta) >= least][:_PATHS]
    for path, frame in large:
        side = "after" if frame.delta > 0 else "before"
        inner = f"> .. >{frame.inner}" if frame.inner != frame.name else ""
        text = ">".join(path[-_STEPS:]) + inner
        yield f"{round(frame.delta):>+10,}  only {side}: {text if len(text) <= _WIDE else '...' + text[3 - _WIDE :]}"
    if large:
        yield ""


def _change(change: FunctionChange) -> str:
    spans = f"{round(change.before.instructions):,} -> {round(change.after.instructions):,}"
    calls = f"{float(change.before.calls):.2f} -> {float(change.after.calls):.2f}"
    note = f" ({change.note})" if change.note else ""
    if change.inlined:
        note = f" with {', '.join(function.name for function in change.inlined)}"
    return f"{round(change.delta):>+10,}  {spans:>17}  {calls:>15}  {name_of(change.function)}{note}"[:_LINE]


def function_lines(profiles: Sequence[Profile], name: str, most: int = LINES) -> list[str]:
    """Callers and callees of the functions of this name in each profile. Raises Misuse for an unknown name."""
    known = {function.name for profile in profiles for function in map(canonical, profile.costs)}
    if name not in known:
        raise Misuse(f"no function {name} was executed{nearest(name, known)}", remedy="the profile lists functions")
    lines = [f"{name}: calls per I/O, and instructions of the callee with all that it calls"]
    room = (most - 2) // len(profiles) - 3
    for profile in profiles:
        callers: dict[str, Cost] = defaultdict(Cost)
        callees: dict[str, Cost] = defaultdict(Cost)
        for (caller, callee), cost in profile.edges.items():
            per_io = Cost(profile.per_io(cost.calls), profile.per_io(cost.instructions))
            for neighbours, here, there in ((callers, callee, caller), (callees, caller, callee)):
                if canonical(here).name == name and canonical(there) != canonical(here):
                    neighbours[name_of(there)] += per_io
        absent = "" if callers or callees else ": not executed, or neither called nor calling"
        lines += ["", f"{profile.head.release}{absent}"]
        lines += _neighbour_lines(callers, "from", max(1, room // 2))
        lines += _neighbour_lines(callees, "to", max(1, room - min(room // 2, len(callers))))
    return [*lines, *_foot(profiles)]


def _neighbour_lines(neighbours: dict[str, Cost], word: str, most: int) -> Iterator[str]:
    ranked = sorted(neighbours.items(), key=lambda item: (-item[1].instructions, item[0]))
    for name, cost in ranked[:most]:
        yield f"{float(cost.calls):>10.3f}  {round(cost.instructions):>10,}  {word} {name}"
    if ranked[most:]:
        yield f"{'':>10}  {'':>10}  {word} {len(ranked) - most} others"


def name_of(function: Function) -> str:
    """The function's title, with its context in an interrupt or the idle task."""
    title = function.title if len(function.title) <= _NAME else function.title[: _NAME - 3] + "..."
    return title + _CONTEXTS.get(function.context, "")


def _foot(profiles: Iterable[Profile]) -> list[str]:
    surprises = sum(profile.surprises for profile in profiles)
    stacks = "exact in the kernel; programs have no callers" if not surprises else f"not exact: {surprises} odd returns"
    return [f"Digest as in the stored boot. Call paths: {stacks}.", BLIND]


_WIDTH, _ROW = 1180, 17
_NARROWEST = 0.4
"""Pixels below which a frame is left out."""
_LETTER = 6.7
"""Pixels of a letter: DejaVu Sans Mono advances by 0.602 of 11 px."""
_MOST = 200
"""Functions listed below the graphs."""
_HEADS = ("delta", "function", "before", "after", "calls before", "calls after")


def profile_page(profile: Profile) -> str:
    root, head = frames_of([profile]), profile.head
    heading = "Instructions per I/O by call path"
    legend = "Kernel call paths are exact. Programs are flat: their callers are not known."
    return render(
        "text.html",
        title=f"{head.scenario} {head.cell} on {head.release}",
        caution=BLIND,
        lines=profile_lines(profile),
        legend=legend,
        drawings=[(heading, _graph(heading, root, 0, root.costs[0], single=True))],
        rows=(),
    )


def differential_page(before: Profile, after: Profile) -> str:
    difference, root = differential(before, after), joined(frames_of([before, after]))
    legend = (
        "Both graphs have one scale. Red: more instructions per I/O after than before on this call path; "
        "blue: fewer; outlined: only on this side. A -> B: on this path A is only before and B only after, and most of "
        "both is spent in common callees or their names are alike: one frame. "
        "Programs are flat: their callers are not known."
    )
    drawings = []
    for side, profile in enumerate((before, after)):
        heading = f"{profile.head.release}: {round(root.costs[side]):,} instructions per I/O"
        drawings.append((heading, _graph(heading, root, side, max(root.costs))))
    count = len(difference.changes)
    return render(
        "text.html",
        title=f"{before.head.scenario} {before.head.cell}: {before.head.release} -> {after.head.release}",
        caution=BLIND,
        lines=differential_lines(difference),
        legend=legend,
        drawings=drawings,
        heading=f"The {min(_MOST, count)} largest of {count} functions, per I/O",
        heads=_HEADS,
        rows=[_table_row(change) for change in difference.changes[:_MOST]],
    )


def _graph(title: str, root: Frame, side: int, scale: Fraction, *, single: bool = False) -> Markup:
    """A flame graph in which the width of a frame is its cost on ``side``."""
    frames = list(_tiles(root, side, 0.0, 0, scale, single=single))
    return tiles("flame", title, (_WIDTH, max((frame.y for frame in frames), default=0) + _ROW), frames)


def _tiles(frame: Frame, side: int, left: float, depth: int, scale: Fraction, *, single: bool) -> Iterator[Tile]:
    width = float(_WIDTH * frame.costs[side] / scale) if scale else 0.0
    if width < _NARROWEST:
        return
    old, new = frame.costs
    cost = f"{round(frame.costs[side]):,}" if single else f"{round(old):,} -> {round(new):,} ({round(new - old):+,})"
    letters = int((width - 4) / _LETTER)
    name = frame.name if len(frame.name) <= letters else frame.name[: letters - 1] + "~"
    yield Tile(
        x=left,
        y=depth * _ROW,
        width=width,
        height=_ROW - 1,
        tooltip=f"{frame.name}: {cost} instructions per I/O",
        kind="" if single or frame.costs[1 - side] else "only",
        fill="#f0d9a8" if single else _colour(old, new),
        label=name if letters > 2 else "",  # noqa: PLR2004
    )
    for below in (frame.below[name] for name in sorted(frame.below)):
        yield from _tiles(below, side, left, depth + 1, scale, single=single)
        left += float(_WIDTH * below.costs[side] / scale)


def _colour(old: Fraction, new: Fraction) -> str:
    """From blue (all gone) by grey (the same) to red (all new)."""
    change = float((new - old) / max(old, new))
    faded = round(232 - 120 * abs(change))
    return f"rgb(240,{faded},{faded})" if change > 0 else f"rgb({faded},{faded},240)" if change < 0 else "#e8e8e8"


def _table_row(change: FunctionChange) -> tuple[str, ...]:
    note = f" ({change.note})" if change.note else ""
    note += f" with {', '.join(function.name for function in change.inlined)}" if change.inlined else ""
    return (
        f"{round(change.delta):+,}",
        f"{name_of(change.function)}{note}",
        *(f"{float(side.instructions):,.1f}" for side in (change.before, change.after)),
        *(f"{float(side.calls):.3f}" for side in (change.before, change.after)),
    )
