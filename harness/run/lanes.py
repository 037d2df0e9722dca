# SPDX-License-Identifier: GPL-2.0-only
"""Scheduling of boots on this host: a limit on their number and memory, or exclusive use."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from lab.base import host


class Stopped(Exception):
    """The run was aborted before this boot had ended."""


@dataclass(frozen=True)
class _Turn:
    """A waiting or running boot. ``rank`` orders waiting boots; ``memory`` in bytes includes QEMU's overhead."""

    rank: int
    number: int
    memory: int
    alone: bool


@dataclass
class Lanes:
    """At most ``at_once`` boots at a time, whose guests together use at most ``memory`` bytes.

    The lowest rank starts first, but a boot that does not fit does not block one that does. A single boot
    may always run.
    """

    at_once: int
    memory: int
    _waiting: list[_Turn] = field(default_factory=list)
    _running: list[_Turn] = field(default_factory=list)
    _aborts: list[threading.Event] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _count: int = 0
    _stopped: bool = False

    @contextmanager
    def taken(self, memory: int, *, rank: int = 0, alone: bool = False, abort: threading.Event) -> Iterator[None]:
        """Wait until a guest of ``memory`` bytes fits; with ``alone``, until no other runs. ``stop`` sets ``abort``.

        Raises Stopped when ``abort`` is set while waiting.
        """
        turn = self._turn(memory, rank, alone, abort)
        try:
            yield
        finally:
            with self._changed:
                self._running.remove(turn)
                self._aborts.remove(abort)
                self._changed.notify_all()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            for abort in self._aborts:
                abort.set()
            self._changed.notify_all()

    def nudge(self) -> None:
        """Wake waiting boots after an ``abort`` was set."""
        with self._changed:
            self._changed.notify_all()

    def _turn(self, memory: int, rank: int, alone: bool, abort: threading.Event) -> _Turn:
        with self._changed:
            self._count += 1
            turn = _Turn(rank, self._count, memory + host.GUEST_OVERHEAD, alone)
            self._waiting.append(turn)
            try:
                self._changed.wait_for(lambda: self._stopped or abort.is_set() or self._next() is turn)
                if self._stopped or abort.is_set():
                    raise Stopped
            finally:
                self._waiting.remove(turn)
                self._changed.notify_all()
            self._running.append(turn)
            self._aborts.append(abort)
        return turn

    def _next(self) -> _Turn | None:
        fitting = (turn for turn in self._waiting if self._fits(turn))
        return min(fitting, key=lambda turn: (turn.rank, turn.number), default=None)

    def _fits(self, turn: _Turn) -> bool:
        if not self._running:
            return True
        if turn.alone or any(other.alone for other in self._running):
            return False
        used = sum(other.memory for other in self._running)
        return len(self._running) < self.at_once and used + turn.memory <= self.memory
