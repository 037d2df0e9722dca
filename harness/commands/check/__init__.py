# SPDX-License-Identifier: GPL-2.0-only
"""``blklab check``: tests of the lab itself."""
