# SPDX-License-Identifier: GPL-2.0-only
"""The call paths of one or two profiles as one tree, per I/O."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import groupby

from harness.profile.differential import canonical
from harness.profile.model import Profile

_SIDES = 2
_NEARLY = Fraction(9, 10)
_ONLY = Fraction(1, 20)
"""A path is of one side where the other spends at most this share of its instructions on it."""


@dataclass
class Frame:
    """A call path: its own and all lower instructions per I/O on each side."""

    name: str
    costs: list[Fraction] = field(default_factory=lambda: [Fraction()] * _SIDES)
    below: "dict[str, Frame]" = field(default_factory=dict)


def frames_of(profiles: Sequence[Profile]) -> Frame:
    """The call paths of one or two profiles, merged by name without the compiler's parts and clones."""
    root = Frame("all")
    for side, profile in enumerate(profiles):
        for stack, node in zip(profile.stacks, profile.nodes, strict=True):
            # A part within its function is no frame of its own.
            titles = [title for title, _ in groupby(canonical(function).title for function in stack)]
            frame, own = root, profile.per_io(node.instructions)
            frame.costs[side] += own
            for name in [str(node.function.context), *titles] if own else []:
                frame = frame.below.setdefault(name, Frame(name))
                frame.costs[side] += own
    return root


@dataclass(frozen=True)
class OneSided:
    """A subtree that (nearly) only one side has: the path to it, and its instructions per I/O before and after.

    ``inner`` is the function within it to which nearly all of them belong, with what it calls.
    """

    path: tuple[str, ...]
    inner: str
    before: Fraction
    after: Fraction

    @property
    def delta(self) -> Fraction:
        return self.after - self.before


def one_sided(before: Profile, after: Profile) -> list[OneSided]:
    """The largest subtrees that (nearly) only one side has, none within another, by size."""
    subtrees = _one_sided(frames_of([before, after]), ())
    return sorted(subtrees, key=lambda subtree: (-abs(subtree.delta), subtree.path))


def _one_sided(frame: Frame, path: tuple[str, ...]) -> Iterator[OneSided]:
    for name in sorted(frame.below):
        below = frame.below[name]
        old, new = below.costs
        if min(old, new) <= _ONLY * max(old, new):
            yield OneSided((*path, name), _inner(below), old, new)
        else:
            yield from _one_sided(below, (*path, name))


def _inner(frame: Frame) -> str:
    total = sum(frame.costs)
    while heavy := [below for below in frame.below.values() if sum(below.costs) >= _NEARLY * total]:
        frame = heavy[0]
    return frame.name
