# SPDX-License-Identifier: GPL-2.0-only
"""The words of ``blklab check``, a module each."""
