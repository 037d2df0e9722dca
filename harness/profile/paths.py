# SPDX-License-Identifier: GPL-2.0-only
"""The call paths of one or two profiles as one tree, per I/O."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from harness.profile.differential import canonical
from harness.profile.model import Function, Profile

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

    def child(self, name: str) -> "Frame":
        return self.below.setdefault(name, Frame(name))


def frames_of(profiles: Sequence[Profile]) -> Frame:
    """The call paths of one or two profiles, merged by name without the compiler's parts and clones."""
    root = Frame("all")
    for side, profile in enumerate(profiles):
        for index, node in enumerate(profile.nodes):
            if not node.instructions:
                continue
            own = profile.per_io(node.instructions)
            path = [str(node.function.context), *_names(profile.stack(index))]
            frame = root
            root.costs[side] += own
            for name in path:
                frame = frame.child(name)
                frame.costs[side] += own
    return root


def _names(path: Sequence[Function]) -> list[str]:
    names: list[str] = []
    for function in map(canonical, path):
        if not names or names[-1] != function.title:
            names.append(function.title)
    return names


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
    found = _one_sided(frames_of([before, after]), ())
    return sorted(found, key=lambda one: (-abs(one.delta), one.path))


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
