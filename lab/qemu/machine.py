# SPDX-License-Identifier: GPL-2.0-only
"""One lifetime of a virtual machine: start it, follow what it writes, end it, and reap it."""

import os
import select
import shlex
import signal
import threading
import time
from collections.abc import Container, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from lab.base import host, process
from lab.base.errors import LabBroken
from lab.packages.tools import PRELOAD, loads_itself
from lab.qemu.argv import CONSOLE_FILE, RESULTS_FILE, MachineSpec, machine_argv

LOG_FILE = "qemu.log"
_STDERR_TAIL = 2000
_CHUNK = 1 << 18
_AT_ONCE = 8
"""Chunks of a channel between two looks at the deadline and at requests to end."""
_LONGEST_LINE = 1 << 20
_REINSTALL = "reinstall QEMU, or set BLKLAB_QEMU to a working one"


class Channel(StrEnum):
    CONSOLE = "console"
    RESULTS = "results"


class Note(StrEnum):
    """A watcher's answer to a line."""

    READY = "ready"
    DONE = "done"
    STOP = "stop"


class Watch(Protocol):
    """Receives each line of each channel as soon as it is seen, without its line end.

    Lines of one channel come in order; bytes that are not UTF-8 are replaced. It runs in the
    thread that follows the machine.
    """

    def line(self, channel: Channel, text: str) -> Note | None: ...


class Reason(StrEnum):
    """Why a machine ended: by itself, at a deadline, at the size limit of console or results, or on request."""

    EXITED = "exited"
    DEADLINE = "deadline"
    FLOOD = "flood"
    OVERFLOW = "overflow"
    ABORTED = "aborted"
    WATCH = "watch"


@dataclass(frozen=True)
class Limits:
    """Bounds on one machine, in seconds of host time and in bytes; ``done_seconds`` begin when a watcher notes DONE."""

    ready_seconds: float = 180.0
    total_seconds: float = 900.0
    console_bytes: int = 8 << 20
    results_bytes: int = 256 << 20
    done_seconds: float = 60.0
    stop_seconds: float = 3.0
    poll_seconds: float = 0.03


@dataclass(frozen=True)
class Ending:
    """How a machine ended.

    ``returncode`` is QEMU's, the negative number of the signal that ended it. ``wall`` is in seconds. ``stderr`` is the
    tail of what QEMU said.
    """

    returncode: int
    reason: Reason
    wall: float
    stderr: str


class _Tail:
    """Lines of the file ``path``, created empty, while QEMU appends to it.

    ``flooded`` turns true when more than ``limit`` bytes were written, or a line does not end.
    """

    def __init__(self, path: Path, limit: int) -> None:
        # Created here, so that nothing from an earlier run in the same folder is read as new.
        path.write_bytes(b"")
        self._file = path.open("rb", buffering=0)
        self._limit = limit
        self._rest = bytearray()
        self.size = 0
        self.close = self._file.close

    @property
    def flooded(self) -> bool:
        return self.size > self._limit or len(self._rest) > _LONGEST_LINE

    def read(self, *, last: bool = False) -> Iterator[str]:
        """Some of the complete lines written since the last call, without line ends; with ``last``, all of them and
        the unfinished one."""
        chunks = 0
        while not self.flooded and (last or chunks < _AT_ONCE) and (chunk := self._file.read(_CHUNK)):
            chunks += 1
            self.size += len(chunk)
            lines, newline, rest = chunk.rpartition(b"\n")
            if newline:
                complete, self._rest = self._rest + lines, bytearray(rest)
                yield from map(_text, complete.split(b"\n"))
            else:
                self._rest += rest
        if last and self._rest:
            yield _text(self._rest)
            self._rest.clear()


def _text(line: bytes | bytearray) -> str:
    return line.decode(errors="replace").rstrip("\r")


def run(
    spec: MachineSpec,
    folder: Path,
    watch: Watch,
    limits: Limits = Limits(),
    abort: threading.Event | None = None,
    *,
    stdin: int | None = None,
) -> Ending:
    """Run ``spec`` to its end in ``folder`` (which must exist), where console.txt, results.txt and
    qemu.log are left; ``stdin`` is a file for its standard input. Setting ``abort`` from any thread ends it early.

    Raises LabBroken when QEMU cannot be started or refuses to start.
    """
    with Machine(spec, folder, limits, stdin) as machine:
        return machine.follow(watch, abort)


class Machine:
    """A running QEMU. Leaving the context stops and reaps it, also after an exception.

    The kernel kills QEMU together with the thread that entered the context, so only that thread may follow it.
    """

    def __init__(self, spec: MachineSpec, folder: Path, limits: Limits, stdin: int | None = None) -> None:
        # QEMU runs in the folder, so paths must be absolute.
        kernel = spec.kernel.absolute() if spec.kernel else None
        initrd = spec.initrd.absolute() if spec.initrd else None
        self._spec = replace(spec, program=spec.program.absolute(), kernel=kernel, initrd=initrd)
        self._folder, self._limits, self._stdin = folder.absolute(), limits, stdin
        self._tails: dict[Channel, _Tail] = {}

    def __enter__(self) -> Self:
        _check_host(self._spec, self._folder)
        self._started, self._until = time.monotonic(), inf
        try:
            self._open_tails()
            self._process, self._pidfd = process.launch(
                machine_argv(self._spec),
                cwd=self._folder,
                env=_environment(self._spec),
                log=self._folder / LOG_FILE,
                hint=_REINSTALL,
                stdin=self._stdin,
            )
        except BaseException:
            self._close_tails()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._stop()
        finally:
            os.close(self._pidfd)
            self._close_tails()

    @property
    def pid(self) -> int:
        return self._process.pid

    def follow(self, watch: Watch, abort: threading.Event | None = None) -> Ending:
        """Pass every line to ``watch`` until the machine ends or must be stopped; see ``run``."""
        ready, reason = False, None
        while reason is None:
            exited = self._wait(self._limits.poll_seconds)
            notes = self._drain(watch)
            ready = ready or Note.READY in notes
            if Note.DONE in notes:
                self._until = time.monotonic() + self._limits.done_seconds
            reason = self._verdict(notes, exited=exited, ready=ready, abort=abort)
        self._stop()
        if reason not in (Reason.FLOOD, Reason.ABORTED):
            self._drain(watch, last=True)
        said = (self._folder / LOG_FILE).read_bytes()[-_STDERR_TAIL:].decode(errors="replace")
        ending = Ending(self._process.returncode, reason, time.monotonic() - self._started, said)
        self._refuse_if_never_started(ending)
        return ending

    def _verdict(
        self, notes: Container[Note | None], *, exited: bool, ready: bool, abort: threading.Event | None
    ) -> Reason | None:
        now = time.monotonic()
        allowed = self._limits.total_seconds if ready else min(self._limits.ready_seconds, self._limits.total_seconds)
        reasons = (
            (Reason.WATCH, Note.STOP in notes),
            (Reason.EXITED, exited),
            (Reason.FLOOD, self._tails[Channel.CONSOLE].flooded),
            (Reason.OVERFLOW, self._tails[Channel.RESULTS].flooded),
            (Reason.ABORTED, abort is not None and abort.is_set()),
            (Reason.DEADLINE, now > min(self._until, self._started + allowed)),
        )
        return next((reason for reason, holds in reasons if holds), None)

    def _drain(self, watch: Watch, *, last: bool = False) -> AbstractSet[Note | None]:
        """Pass on new lines; return what the watcher noted."""
        return {watch.line(channel, text) for channel, tail in self._tails.items() for text in tail.read(last=last)}

    def _open_tails(self) -> None:
        limits = self._limits
        try:
            self._tails[Channel.CONSOLE] = _Tail(self._folder / CONSOLE_FILE, limits.console_bytes)
            self._tails[Channel.RESULTS] = _Tail(self._folder / RESULTS_FILE, limits.results_bytes)
        except OSError as error:
            remedy = "free some space, or use another results folder"
            raise LabBroken(f"cannot write {error.filename}: {error.strerror}", remedy=remedy) from error

    def _close_tails(self) -> None:
        for tail in self._tails.values():
            tail.close()

    def _wait(self, seconds: float) -> bool:
        """Whether the machine has ended within ``seconds``; it stays unreaped."""
        poller = select.poll()
        poller.register(self._pidfd, select.POLLIN)
        return bool(poller.poll(max(0.0, seconds) * 1000))

    def _stop(self) -> None:
        """Send SIGTERM, then SIGKILL, and reap. Does nothing if the machine was reaped already."""
        if self._process.returncode is not None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            # The process group exists until its leader is reaped.
            if self._wait(0):
                break
            os.killpg(self._process.pid, number)
            if number is signal.SIGTERM:
                self._wait(self._limits.stop_seconds)
        self._process.wait()

    def _refuse_if_never_started(self, ending: Ending) -> None:
        silent = not any(tail.size for tail in self._tails.values())
        if ending.reason is Reason.EXITED and ending.returncode > 0 and silent:
            command = shlex.join(machine_argv(self._spec))
            raise LabBroken(
                f"QEMU refused to start (exit {ending.returncode}): {ending.stderr.strip()}\n  {command}",
                remedy="blklab doctor shows what this host's QEMU supports",
            )


def _check_host(spec: MachineSpec, folder: Path) -> None:
    if not folder.is_dir():
        raise LabBroken(f"the folder {folder} for a machine's output does not exist", remedy="create it first")
    for path, what in (
        (spec.program, "QEMU"),
        (spec.kernel, "kernel image"),
        (spec.initrd, "initramfs"),
        (spec.preload, "library"),
    ):
        if path is not None and not path.is_file():
            raise LabBroken(f"{what} {path} does not exist", remedy="see blklab doctor; the cache may have been pruned")
        if path is not None and not os.access(path, os.R_OK):
            raise LabBroken(f"{what} {path} is not readable", remedy=f"make it readable: sudo chmod a+r {path}")
    available = host.memory_available()
    if not host.guests_that_fit(spec.memory << 20, available):
        raise LabBroken(
            f"a guest of {spec.memory} MiB does not fit: the host has {available >> 20} MiB available",
            remedy="run fewer machines at once, or close other programs",
        )


def _environment(spec: MachineSpec) -> dict[str, str]:
    if spec.preload is None:
        return dict(os.environ)
    if loads_itself(spec.program):
        return {**os.environ, PRELOAD: str(spec.preload)}
    others = os.environ.get("LD_PRELOAD", "").split()
    return {**os.environ, "LD_PRELOAD": " ".join([str(spec.preload), *others])}
