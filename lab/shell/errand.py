# SPDX-License-Identifier: GPL-2.0-only
"""Run a command in a guest of virtme-ng: pass its output on as it arrives, and return its exit status."""

import os
import selectors
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TextIO

from lab.base.errors import BlklabError, KernelFailed, LabBroken
from lab.base.process import Process, attend, end, kill, stream
from lab.guest.console import death
from lab.shell.argv import ERR, OUT, PROGRAM, REPORT, Errand, ShellSpec, shell_argv


def sit_in(spec: ShellSpec, folder: Path) -> None:
    """Run an interactive guest on this terminal, with its disks as files in ``folder``, until it ends.

    Raises LabBroken when it did not start, or QEMU failed.
    """
    ended = folder / "ended"
    # virtme-ng exits with the raw status of waitpid(), cut to eight bits: 0 when QEMU exits with 1.
    qemu = folder / "qemu"
    qemu.write_text(f'#!/bin/sh\n{shlex.quote(str(spec.qemu))} "$@"\necho $? >{shlex.quote(str(ended))}\n')
    qemu.chmod(0o755)
    returned = attend(shell_argv(replace(spec, qemu=qemu)), cwd=folder)
    status = int(ended.read_text()) if ended.exists() else None
    if status is None:
        raise LabBroken(f"{PROGRAM} ended with {returned} and started no QEMU", remedy="see its output above")
    if status:
        raise LabBroken(f"QEMU ended with {status}", remedy="see its output above")


_READY, _UNFIT = "ready", "unfit"
_BLOCK = 1 << 16
_LOOK = "look inside the guest: the same command line without --command"
_REMEDY = f"try again on a host that is less busy, or {_LOOK}"

Outputs = Sequence[tuple[IO[bytes] | None, Callable[[bytes], object]]]


def script(set_up: Path, command: Path, here: Path) -> str:
    """The guest's script: it runs the shell file ``set_up``, then the bash file ``command`` in the folder ``here``."""
    # The kernel names ports in sysfs, so no links by udev are needed.
    return f"""\
port() {{
	until found=$(grep -lxF "$1" /sys/class/virtio-ports/*/name 2>/dev/null); do sleep 0.1; done
	found=${{found%/name}}
	echo "/dev/${{found##*/}}"
}}
exec </dev/null >"$(port {OUT})" 2>"$(port {ERR})" 3>"$(port {REPORT})"
echo {_READY} >&3
cd {shlex.quote(str(here))} && sh {shlex.quote(str(set_up))} 3>&- || {{ echo {_UNFIT} >&3; exit 1; }}
bash {shlex.quote(str(command))} 3>&-
echo $? >&3
"""


def run_errand(spec: ShellSpec, path: Path, folder: Path, patience: float) -> int:
    """The exit status of the script at ``path``, run in a guest whose disks are files in ``folder``.

    Raises LabBroken when the guest did not start it within ``patience`` seconds or was lost, KernelFailed when the
    kernel died while it ran.
    """
    heard = _Heard()
    err, report = os.pipe(), os.pipe()
    with os.fdopen(err[0], "rb", 0) as complaints, os.fdopen(report[0], "rb", 0) as reports:
        try:
            process = _start(replace(spec, errand=Errand(path, err[1], report[1])), folder)
        finally:
            os.close(err[1])
            os.close(report[1])
        outputs = (
            (process.stdout, _writer(sys.stdout)),
            (complaints, _writer(sys.stderr)),
            (process.stderr, heard.console.extend),
            (reports, heard.report.extend),
        )
        try:
            _follow(process, outputs, heard, patience)
        finally:
            end(process)
    if heard.status is None:
        raise _loss(heard)
    return heard.status


@dataclass
class _Heard:
    """The guest's report, with one line per stage, and the console of kernel and virtme-ng.

    ``waited`` are seconds without any stage.
    """

    report: bytearray = field(default_factory=bytearray)
    console: bytearray = field(default_factory=bytearray)
    waited: float = 0.0

    @property
    def stages(self) -> list[str]:
        return self.report.decode().split("\n")[:-1]

    @property
    def status(self) -> int | None:
        return next((int(stage) for stage in self.stages if stage.isdigit()), None)

    @property
    def lines(self) -> list[str]:
        return [line.strip() for line in self.console.decode(errors="replace").splitlines() if line.strip()]


def _start(spec: ShellSpec, folder: Path) -> Process:
    # QEMU opens its outputs anew, which truncates files and fails for sockets: pipes serve for all of them.
    # TMPDIR: the folder is removed, and what a killed virtme-ng leaves goes with it.
    fds = (spec.errand.err, spec.errand.report) if spec.errand else ()
    return stream(shell_argv(spec), cwd=folder, env={**os.environ, "TMPDIR": str(folder)}, pass_fds=fds)


def _writer(stream: TextIO) -> Callable[[bytes], object]:
    def write(block: bytes) -> None:
        stream.buffer.write(block)
        stream.buffer.flush()

    return write


def _follow(process: Process, outputs: Outputs, heard: _Heard, patience: float) -> None:
    """Pass on output until the guest has ended, or has reached no stage within ``patience`` seconds."""
    deadline = time.monotonic() + patience
    with selectors.DefaultSelector() as selector:
        for source, take in outputs:
            if source is not None:
                selector.register(source, selectors.EVENT_READ, take)
        while selector.get_map():
            ready = selector.select(None if heard.report else max(0.0, deadline - time.monotonic()))
            if not ready:
                heard.waited = patience
                return
            for key, _ in ready:
                block = os.read(key.fd, _BLOCK)
                key.data(block)
                if not block:
                    selector.unregister(key.fileobj)
            if len(heard.stages) > 1:
                # All output has arrived: do not wait for the guest's shutdown.
                kill(process)


def _loss(heard: _Heard) -> BlklabError:
    died = death(heard.lines)
    words = died or next(reversed(heard.lines), "")
    last = f'last words on its console: "{words}"' if words else "nothing on its console"
    if not heard.stages:
        how = f"not within {heard.waited:.0f} s" if heard.waited else "it ended"
        return LabBroken(f"the guest did not start the command, {how}; {last}", remedy=_REMEDY)
    if _UNFIT in heard.stages:
        return LabBroken("the set-up of the guest failed, see above", remedy=_LOOK)
    if died:
        return KernelFailed(f"the kernel died while the command ran: {died}")
    return LabBroken(f"the guest was lost while the command ran; {last}", remedy=_REMEDY)
