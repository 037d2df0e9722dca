# SPDX-License-Identifier: GPL-2.0-only
"""The host's C compiler."""

import shutil

from lab.base.errors import LabBroken
from lab.base.process import run

COMPILER = "gcc"
REMEDY = "apt-get install gcc libc6-dev, or what scripts/host-packages names on other distributions"
SECONDS = 120


def compiler_version(wanted_for: str) -> str:
    """The output of gcc --version. Raises LabBroken when there is no compiler; ``wanted_for`` ends its message."""
    if shutil.which(COMPILER) is None:
        raise LabBroken(f"no C compiler is installed; {wanted_for}", remedy=REMEDY)
    return run([COMPILER, "--version"], timeout=SECONDS, hint=REMEDY).stdout.decode(errors="replace")
