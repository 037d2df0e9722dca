# SPDX-License-Identifier: GPL-2.0-only
"""The words of ``blklab store``, a module each."""
