# SPDX-License-Identifier: GPL-2.0-only
"""Interactive guests of virtme-ng."""
