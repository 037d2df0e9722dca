# SPDX-License-Identifier: GPL-2.0-only
"""Bounds of a topology, and what limits a load; pure."""
