# SPDX-License-Identifier: GPL-2.0-only
"""Distribution packages: fetched without root, verified, pinned and unpacked, never installed."""
