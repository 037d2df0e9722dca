# SPDX-License-Identifier: GPL-2.0-only
"""Run a program that cannot outlive the process that started it, not even by SIGKILL.

Run as ``python -I -S launcher.py PARENT_PID STATUS_FD -- PROGRAM ARGUMENT...``. It imports nothing of
blklab, so that it starts fast. It asks the kernel to be killed with its parent, checks that the parent
still lives, and executes PROGRAM. STATUS_FD closes on success; on failure the reason is written to it.

The kernel sends PR_SET_PDEATHSIG when the *thread* that forked ends, so the thread that starts a
launcher must also wait for it.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(argv: list[str]) -> int:
    parent, status = int(argv[1]), int(argv[2])
    command = argv[argv.index("--") + 1 :]
    os.set_inheritable(status, False)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        return _fail(status, f"prctl: {os.strerror(ctypes.get_errno())}")
    # If the parent died before the prctl, no signal comes: this process was reparented.
    if os.getppid() != parent:
        return _fail(status, "the parent is gone")
    try:
        os.execv(command[0], command)  # noqa: S606
    except OSError as error:
        return _fail(status, str(error.strerror))


def _fail(status: int, reason: str) -> int:
    os.write(status, reason.encode())
    return 127


if __name__ == "__main__":
    sys.exit(main(sys.argv))
