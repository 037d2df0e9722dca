# SPDX-License-Identifier: GPL-2.0-only
"""Run a command in a guest of virtme-ng: pass its output on as it arrives, and return its exit status."""

import os
import select
import shlex
import shutil
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from lab.base.errors import BlklabError, KernelFailed, LabBroken
from lab.base.process import attend, end, launch
from lab.guest.console import death
from lab.shell.argv import ERR, OUT, PROGRAM, REPORT, ShellSpec, shell_argv

_READY, _UNFIT = "ready", "unfit"
_CONSOLE = "console"
_POLL_SECONDS = 0.1
_LOOK = "look inside the guest: the same command line without --command"
_REMEDY = f"try again on a host that is less busy, or {_LOOK}"


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


def run_errand(spec: ShellSpec, folder: Path, patience: float) -> int:
    """The exit status of the spec's script, run in a guest whose disks and channels are files in ``folder``.

    Raises LabBroken when the guest did not start it within ``patience`` seconds or was lost, KernelFailed when the
    kernel died while it ran.
    """
    deadline = time.monotonic() + patience
    for name in (OUT, ERR, REPORT):
        (folder / name).touch()
    # TMPDIR: the folder is removed, and what a killed virtme-ng leaves goes with it.
    env = {**os.environ, "TMPDIR": str(folder)}
    with ExitStack() as stack:
        out, err = (stack.enter_context((folder / name).open("rb")) for name in (OUT, ERR))
        process, pidfd = launch(shell_argv(spec), cwd=folder, env=env, log=folder / _CONSOLE)
        stack.callback(os.close, pidfd)
        stack.callback(end, process)
        ended = late = False
        while not (ended or late):
            ended = bool(select.select([pidfd], [], [], _POLL_SECONDS)[0])
            stages = (folder / REPORT).read_text().split("\n")[:-1]
            for source, stream in ((out, sys.stdout), (err, sys.stderr)):
                shutil.copyfileobj(source, stream.buffer)
                stream.buffer.flush()
            if len(stages) > 1 and stages[1].isdigit():
                # All output has arrived: do not wait for the guest's shutdown.
                return int(stages[1])
            late = not stages and time.monotonic() > deadline
    raise _loss(stages, folder / _CONSOLE, f"not within {patience:.0f} s" if late else "it ended")


def _loss(stages: list[str], console: Path, how: str) -> BlklabError:
    lines = [line.strip() for line in console.read_text(errors="replace").splitlines() if line.strip()]
    died = death(lines)
    words = died or next(reversed(lines), "")
    last = f'last words on its console: "{words}"' if words else "nothing on its console"
    if not stages:
        return LabBroken(f"the guest did not start the command, {how}; {last}", remedy=_REMEDY)
    if _UNFIT in stages:
        return LabBroken("the set-up of the guest failed, see above", remedy=_LOOK)
    if died:
        return KernelFailed(f"the kernel died while the command ran: {died}")
    return LabBroken(f"the guest was lost while the command ran; {last}", remedy=_REMEDY)
