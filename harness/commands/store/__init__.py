# SPDX-License-Identifier: GPL-2.0-only
"""``blklab store``: the stored runs and the cache."""
