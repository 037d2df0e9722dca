# SPDX-License-Identifier: GPL-2.0-only
"""The one place that runs host commands to their end and reports a failure once, with a hint."""

import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from lab.errors import LabBroken


def run(
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    timeout: float | None = None,
    hint: str = "",
) -> subprocess.CompletedProcess[bytes]:
    """Run ``argv`` (never through a shell), return it with its captured output.

    Raises LabBroken, with the quoted command, its last words and ``hint`` as the remedy, when the
    program is missing, exits other than 0 or outlasts ``timeout`` seconds.
    """
    quoted = shlex.join(argv)
    try:
        done = subprocess.run(argv, cwd=cwd, env=env, input=stdin, timeout=timeout, capture_output=True, check=False)  # noqa: S603
    except FileNotFoundError as error:
        raise LabBroken(f"{argv[0]} is not installed (wanted for: {quoted})", remedy=hint) from error
    except subprocess.TimeoutExpired as error:
        raise LabBroken(f"no end after {timeout:g} s: {quoted}", remedy=hint) from error
    if done.returncode != 0:
        words = (done.stderr or done.stdout).decode(errors="replace").strip()[-2000:]
        raise LabBroken(f"exit {done.returncode} from: {quoted}\n{words}", remedy=hint)
    return done
