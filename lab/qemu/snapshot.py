# SPDX-License-Identifier: GPL-2.0-only
"""Save a guest that waits for its job, once for each kernel, archive and machine, and start machines from it.

Snapshots only save time: a guest that goes on from one leaves the same bytes as a guest that booted. So whatever goes
wrong with a snapshot, the guest boots.

The guest asks for it: ``receive`` lets the watchdog of an ib700 device expire and sleeps. A vCPU that stops its own
machine (a panic with -action panic=pause) would do so with a timer pending, and the main loop would skip the time to
that timer because no CPU runs: 1.9 ms of virtual time that a boot without the stop does not have. The watchdog's timer
stops the machine from the main loop while the guest is idle, where it changes nothing: QEMU 7.2.22, Linux 6.1.
"""

import json
import mmap
import os
import socket
import threading
import time
from collections.abc import Container, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from pathlib import Path
from typing import Any

from lab.base.cache import Cache
from lab.base.contents import demand_intact
from lab.base.digest import canonical, digest_bytes
from lab.base.errors import LabBroken
from lab.base.reading import parse_json
from lab.qemu.argv import CONSOLE_FILE, RESULTS_FILE, MachineSpec
from lab.qemu.machine import Limits, Machine

DEVICE = "ib700"
STATE_FILE = "state"
_CONTROL = ("-chardev", "socket,id=control,fd=0", "-mon", "chardev=control,mode=control")
_SAVED = ("-device", DEVICE, "-action", "watchdog=pause", *_CONTROL)
_IGNORED = ("-device", DEVICE, "-action", "watchdog=none")
# A restored machine announces its network cards by timers of the host's clock, also where it has none. Under icount
# the CPU executes nothing once such a timer has expired, and the main loop that would run it waits for the CPU.
_RESTORED = (*_IGNORED, "-global", "migration.announce-rounds=0", "-incoming")
_SAVED_BYTES_PER_SECOND = 1 << 40
_POLL_SECONDS = 0.1
_MOST_KEPT, _LONGEST_MESSAGE = 1000, 1 << 20
# The section "globalstate" says in which state the machine was. One that was saved while it ran starts by itself, so
# that it needs no monitor.
_STOPPED, _RUNNING = (len(name).to_bytes(4, "big") + name for name in (b"watchdog\0", b"running\0"))
KIND = "snapshot"
_INPUTS = ("kernel", "base", "qemu", "steady", "argv")
"""Entries of a boot's fingerprint that determine the state in which its guest waits for a job."""
_tried_in_vain: set[tuple[Path, str]] = set()


def key_of(fingerprint: Mapping[str, str]) -> str:
    """The name in the cache of the snapshot that a boot with this fingerprint can go on from."""
    # The words that this module adds to the command line decide too how the guest is saved and goes on.
    return digest_bytes(canonical([[fingerprint[name] for name in _INPUTS], (*_SAVED, *_RESTORED)]))


def prepared_guest(
    cache: Cache, fingerprint: Mapping[str, str], spec: MachineSpec, limits: Limits, abort: threading.Event | None
) -> Path | None:
    """The folder with the snapshot for ``spec``: what a machine is restored from, and what its kernel had said until
    then. It is taken when the cache has none; None where that failed in this process before.
    """
    key = key_of(fingerprint)
    if (cache.root, key) in _tried_in_vain:
        return None
    try:
        folder = cache.entry(KIND, key, lambda into: save(spec, into, limits, abort), abort)
    except LabBroken:
        if abort is None or not abort.is_set():
            _tried_in_vain.add((cache.root, key))
        return None
    try:
        demand_intact(folder / CONSOLE_FILE)
        demand_intact(folder / STATE_FILE)
    except LabBroken:
        cache.discard(KIND, key)
        return None
    return folder


def complete_console(saved: Path, folder: Path) -> None:
    """Put what the kernel had said before the snapshot in front of what it said in ``folder``. Raises OSError."""
    console = folder / CONSOLE_FILE
    console.write_bytes((saved / CONSOLE_FILE).read_bytes() + console.read_bytes())


def refuse(cache: Cache, saved: Path) -> None:
    """Remove a snapshot from which QEMU did not start; this process takes no other one for the same machine."""
    _tried_in_vain.add((cache.root, saved.name))
    cache.discard(KIND, saved.name)


def booted(spec: MachineSpec, devices: Container[str]) -> MachineSpec:
    """``spec`` as a machine that boots and does what a saved and restored one does; ``devices`` are those of its QEMU.

    The watchdog's timer ends the turn of the CPU that asks for the job. Without the device 2 of 15 boots with four
    CPUs differed from restored ones, by 4 us before the job already (device-lines, 7.2.12 and 6.12.118).
    """
    if spec.cpus == 1 or not spec.clock.exact or DEVICE not in devices:
        return spec
    return replace(spec, hardware=(*spec.hardware, *_IGNORED))


def restored(spec: MachineSpec) -> MachineSpec:
    """``spec`` as a machine that reads a saved state from its standard input and goes on from there."""
    return replace(spec, hardware=(*spec.hardware, *_RESTORED, "fd:0"))


def save(spec: MachineSpec, folder: Path, limits: Limits, abort: threading.Event | None = None) -> None:
    """Boot ``spec`` in ``folder`` until its guest waits for its job; leave ``STATE_FILE`` and the console there.

    Raises LabBroken when the guest does not get that far, when ``abort`` is set, and as ``Machine`` does.
    """
    (folder / spec.job).write_bytes(b"\0")
    ours, theirs = socket.socketpair()
    with ours, theirs, Machine(replace(spec, hardware=(*spec.hardware, *_SAVED)), folder, limits, theirs.fileno()):
        theirs.close()
        control = _Control(ours, folder / CONSOLE_FILE, limits, abort)
        try:
            control.await_watchdog()
            with (folder / STATE_FILE).open("w+b") as state:
                control.save_to(state.fileno())
                _mark_as_running(state.fileno())
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise _not_saved(f"QEMU's monitor does not speak QMP ({error})") from error
    for name in (spec.job, RESULTS_FILE):
        (folder / name).unlink()


class _Control:
    """The monitor of a machine that is being saved, within ``limits``."""

    def __init__(self, connection: socket.socket, console: Path, limits: Limits, abort: threading.Event | None) -> None:
        self._connection, self._console, self._limits, self._abort = connection, console, limits, abort
        self._until = time.monotonic() + limits.ready_seconds
        self._read = b""
        self._kept: list[Mapping[str, Any]] = []
        connection.settimeout(_POLL_SECONDS)

    def await_watchdog(self) -> None:
        self._await({"QMP"})
        self._command("qmp_capabilities")
        # What happened before the capabilities were agreed on was not announced.
        if self._command("query-status")["running"]:
            self._await({"STOP"})
        status = self._command("query-status")["status"]
        if status != "watchdog":
            raise _not_saved(f"its machine stopped in state {status}")

    def save_to(self, file: int) -> None:
        self._command("migrate-set-capabilities", {"capabilities": [{"capability": "events", "state": True}]})
        self._command("migrate-set-parameters", {"max-bandwidth": _SAVED_BYTES_PER_SECOND})
        self._command("getfd", {"fdname": STATE_FILE}, (file,))
        self._command("migrate", {"uri": f"fd:{STATE_FILE}"})
        while (status := self._await({"MIGRATION"})["data"]["status"]) != "completed":
            if status == "failed":
                raise _not_saved("QEMU could not write its state")

    def _command(self, name: str, arguments: Mapping[str, Any] = {}, files: Sequence[int] = ()) -> Any:
        request = json.dumps({"execute": name, "arguments": dict(arguments)}).encode() + b"\n"
        try:
            socket.send_fds(self._connection, [request], files)
        except OSError as error:
            raise _not_saved(f"QEMU ended: {error.strerror}") from error
        answer = self._await({"return", "error"})
        if "error" in answer:
            raise _not_saved(f"{name}: {answer['error'].get('desc')}")
        return answer["return"]

    def _await(self, wanted: AbstractSet[str]) -> Any:
        """The next message that has a member of that name, or is an event of that name.

        The others are kept: an event can arrive between a command and its answer, even one that the answer does not
        know of. On a busy main loop QEMU 7.2.22 announces STOP and then answers that the machine runs.
        """
        while True:
            message = next((kept for kept in self._kept if not wanted.isdisjoint((*kept, kept.get("event")))), None)
            if message is not None:
                self._kept.remove(message)
                return message
            if not isinstance(message := parse_json(self._line()), dict) or len(self._kept) > _MOST_KEPT:
                raise ValueError("messages that nothing waits for")
            self._kept.append(message)

    def _line(self) -> bytes:
        while b"\n" not in self._read:
            self._check()
            try:
                more = self._connection.recv(1 << 16)
            except TimeoutError:
                continue
            except OSError as error:
                raise _not_saved(f"QEMU ended: {error.strerror}") from error
            if not more:
                raise _not_saved("QEMU ended before its guest waited for a job")
            self._read += more
            if len(self._read) > _LONGEST_MESSAGE:
                raise ValueError("a message without an end")
        line, _, self._read = self._read.partition(b"\n")
        return line

    def _check(self) -> None:
        if self._abort is not None and self._abort.is_set():
            raise _not_saved("it was stopped by request")
        if time.monotonic() > self._until:
            raise _not_saved(f"it did not wait for a job within {self._limits.ready_seconds:.0f} s")
        if self._console.stat().st_size > self._limits.console_bytes:
            raise _not_saved("its console did not stop")


def _mark_as_running(file: int) -> None:
    with mmap.mmap(file, os.fstat(file).st_size) as state:
        at = state.find(_STOPPED)
        if at < 0 or state.find(_STOPPED, at + 1) >= 0:
            raise _not_saved("this QEMU writes its state in another format")
        state[at : at + len(_STOPPED)] = _RUNNING.ljust(len(_STOPPED), b"\0")


def _not_saved(why: str) -> LabBroken:
    return LabBroken(f"no snapshot of the guest: {why}", remedy="boot it: blklab run --cold")
