# SPDX-License-Identifier: GPL-2.0-only
"""An interactive guest of virtme-ng."""

import shlex
from dataclasses import replace
from pathlib import Path

from lab.base.errors import LabBroken
from lab.base.process import attend
from lab.shell.argv import PROGRAM, ShellSpec, shell_argv


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
