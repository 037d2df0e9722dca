# SPDX-License-Identifier: GPL-2.0-only
"""Atomic files, and values as plain JSON."""
