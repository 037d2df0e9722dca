# SPDX-License-Identifier: GPL-2.0-only
"""The host's C compiler: which one it is, and how it is run."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from lab.base.errors import LabBroken
from lab.base.process import run

COMPILER = "gcc"
REMEDY = "apt-get install gcc libc6-dev, or what scripts/host-packages names on other distributions"
_SECONDS = 120


def compiler_version(wanted_for: str) -> str:
    """The output of gcc --version. Raises LabBroken when there is no compiler; ``wanted_for`` ends its message."""
    if shutil.which(COMPILER) is None:
        raise LabBroken(f"no C compiler is installed; {wanted_for}", remedy=REMEDY)
    return run([COMPILER, "--version"], timeout=_SECONDS, hint=REMEDY).stdout.decode(errors="replace")


def compile_c(folder: Path, sources: Sequence[str], flags: Sequence[str], output: Path) -> None:
    """Compile ``sources``, names in ``folder``; the result contains no path of this host. Raises LabBroken."""
    argv = [COMPILER, *flags, f"-ffile-prefix-map={folder}=.", "-o", str(output), *sources]
    run(argv, cwd=folder, timeout=_SECONDS, hint=REMEDY)
