# SPDX-License-Identifier: GPL-2.0-only
"""The one place that runs host commands to their end and reports a failure once, with a hint."""

import os
import shlex
import signal
import subprocess
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from lab.base.errors import LabBroken

_LAST_WORDS = 2000

Finished = subprocess.CompletedProcess[bytes]
"""A process that has ended, with its captured output."""


def run(
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    timeout: float | None = None,
    accept: Collection[int] = (0,),
    hint: str = "",
) -> Finished:
    """Run ``argv`` (never through a shell), return it with its captured output.

    ``env`` replaces the whole environment. Raises LabBroken, with the quoted command, its last
    words and ``hint`` as the remedy, when the program cannot be run, exits other than ``accept``
    or outlasts ``timeout`` seconds; then whatever it started is killed with it.
    """
    quoted = shlex.join(argv)
    if cwd is not None and not cwd.is_dir():
        raise LabBroken(f"there is no folder {cwd} to run in: {quoted}", remedy=hint)
    process = _start(argv, cwd, env, takes_input=stdin is not None, hint=hint)
    try:
        out, err = process.communicate(stdin, timeout)
    except subprocess.TimeoutExpired as error:
        raise LabBroken(f"no end after {timeout:g} s: {quoted}", remedy=hint) from error
    finally:
        _end(process)
    if process.returncode not in accept:
        words = (err.strip() or out.strip()).decode(errors="replace")[-_LAST_WORDS:]
        raise LabBroken(f"{_manner(process.returncode)}: {quoted}\n{words}".rstrip(), remedy=hint)
    return Finished(list(argv), process.returncode, out, err)


def _start(
    argv: Sequence[str], cwd: Path | None, env: Mapping[str, str] | None, *, takes_input: bool, hint: str
) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(
            argv,
            cwd=cwd,
            env=env,
            stdin=subprocess.PIPE if takes_input else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # A group of its own can be killed as a whole; otherwise a grandchild that holds the
            # pipes would keep the caller waiting beyond the timeout.
            process_group=0,
        )
    except FileNotFoundError as error:
        raise LabBroken(f"{argv[0]} is not installed (wanted for: {shlex.join(argv)})", remedy=hint) from error
    except OSError as error:
        raise LabBroken(f"cannot run {argv[0]}: {error.strerror} ({shlex.join(argv)})", remedy=hint) from error


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def _manner(returncode: int) -> str:
    if returncode >= 0:
        return f"exit {returncode} from"
    try:
        return f"killed by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"killed by signal {-returncode}"
