# SPDX-License-Identifier: GPL-2.0-only
"""``python -m harness`` is ``blklab``."""

import sys

from harness.cli import main

sys.exit(main())
