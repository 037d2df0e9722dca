# SPDX-License-Identifier: GPL-2.0-only
"""The package ``blklab`` of a wheel: runs what the wheel has in its folder ``checkout``."""

import sys
from pathlib import Path


def main() -> int:
    sys.path.insert(0, str(Path(__file__).parent / "checkout"))
    from harness.cli import main as run  # noqa: PLC0415

    return run()
