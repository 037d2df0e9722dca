# SPDX-License-Identifier: GPL-2.0-only
"""A command in a guest of virtme-ng: its output is handed on as it comes, and its exit status is brought back."""

import os
import selectors
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

from lab.errors import BlklabError, KernelFailed, LabBroken
from lab.guest.console import death
from lab.qemu.argv import CONSOLE_FILE
from lab.qemu.shell import ERR, OUT, REPORT, Errand, ShellSpec, shell_argv

_READY, _UNFIT = "ready", "unfit"
_BLOCK = 1 << 16
_LOOK = "sit in the guest and look: the same without --command"
_REMEDY = f"try again on a host that is less busy, or {_LOOK}"


def script(set_up: Path, command: Path, here: Path) -> str:
    """What the guest runs: the shell file ``set_up``, and the bash file ``command`` in the folder ``here``."""
    # Ports are named in sysfs by the kernel itself, so that no udev has to make links to them.
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
    """The exit status of the script at ``path``, run in a guest in ``folder``, where ``console.txt`` is left.

    Raises LabBroken when the guest did not come to it within ``patience`` seconds or was lost, KernelFailed when the
    kernel died of the command.
    """
    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "rb", buffering=0) as report:
        try:
            process = _start(replace(spec, errand=Errand(path, write_end)), folder, write_end)
        finally:
            os.close(write_end)
        try:
            told = _follow(process, report, patience).splitlines()
        except TimeoutError:
            raise _never_came(f"not within {patience:.0f} s", _console(folder)) from None
        finally:
            _end(process)
    if told and told[-1].isdigit():
        return int(told[-1])
    raise _lost(told, _console(folder))


def _start(spec: ShellSpec, folder: Path, report: int) -> "subprocess.Popen[bytes]":
    # QEMU opens its outputs anew, which cuts files and cannot be done with sockets: pipes serve for all of them.
    # What virtme-ng leaves when it is killed goes with the folder.
    return subprocess.Popen(
        shell_argv(spec),
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=(report,),
        process_group=0,
    )


def _follow(process: "subprocess.Popen[bytes]", report: IO[bytes], patience: float) -> str:
    """Hand on what is written until the guest is gone; return what it reported, a line for each stage that it came to.

    Raises TimeoutError when it came to none within ``patience`` seconds.
    """
    deadline, told = time.monotonic() + patience, ""
    with selectors.DefaultSelector() as selector:
        for source, sink in ((process.stdout, sys.stdout), (process.stderr, sys.stderr), (report, None)):
            if source is not None:
                selector.register(source, selectors.EVENT_READ, sink)
        while selector.get_map():
            ready = selector.select(None if told else max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                block = os.read(key.fd, _BLOCK)
                if not block:
                    selector.unregister(key.fileobj)
                elif key.data is None:
                    told += block.decode()
                else:
                    key.data.buffer.write(block)
                    key.data.buffer.flush()
            if told.count("\n") > 1:
                # It has written all that it had to, and how it would switch itself off is nobody's concern.
                _kill(process)
    return told


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """virtme-ng's program and its child, QEMU: their group exists as long as the first is not reaped."""
    os.killpg(process.pid, signal.SIGKILL)


def _end(process: "subprocess.Popen[bytes]") -> None:
    _kill(process)
    process.wait()
    for pipe in filter(None, (process.stdout, process.stderr)):
        pipe.close()


def _console(folder: Path) -> list[str]:
    path = folder / CONSOLE_FILE
    lines = path.read_text(errors="replace").splitlines() if path.exists() else []
    return [line.strip() for line in lines if line.strip()]


def _lost(told: Sequence[str], console: Sequence[str]) -> BlklabError:
    if not told:
        return _never_came("it ended", console)
    if told[-1] == _UNFIT:
        return LabBroken("the guest lacks what the command would find there, see above", remedy=_LOOK)
    if died := death(console):
        return KernelFailed(f"the kernel died while the command ran: {died}")
    return LabBroken(f"the guest was lost while the command ran; {_last(console)}", remedy=_REMEDY)


def _never_came(how: str, console: Sequence[str]) -> LabBroken:
    return LabBroken(f"the guest never came to the command, {how}; {_last(console)}", remedy=_REMEDY)


def _last(console: Sequence[str]) -> str:
    words = death(console) or next(reversed(console), "")
    return f'last words on its console: "{words}"' if words else "not a word on its console"
