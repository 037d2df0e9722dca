# SPDX-License-Identifier: GPL-2.0-only
"""A guest of virtme-ng to sit in."""

import shlex
from dataclasses import replace
from pathlib import Path

from lab.base.errors import LabBroken
from lab.base.process import attend
from lab.shell.argv import PROGRAM, ShellSpec, shell_argv


def sit_in(spec: ShellSpec, folder: Path) -> None:
    """A guest on this terminal, whose disks are files in ``folder``, until it is left.

    Raises LabBroken when there was none, or QEMU failed under it.
    """
    ended = folder / "ended"
    # virtme-ng exits with what waitpid() filled in, of which eight bits are kept: with 0 where QEMU exits with 1.
    qemu = folder / "qemu"
    qemu.write_text(f'#!/bin/sh\n{shlex.quote(str(spec.qemu))} "$@"\necho $? >{shlex.quote(str(ended))}\n')
    qemu.chmod(0o755)
    returned = attend(shell_argv(replace(spec, qemu=qemu)), cwd=folder)
    status = int(ended.read_text()) if ended.exists() else None
    if status is None:
        raise LabBroken(f"{PROGRAM} ended with {returned} and started no QEMU", remedy="what it wrote above says why")
    if status:
        raise LabBroken(f"QEMU ended with {status}", remedy="what it wrote above says why")
