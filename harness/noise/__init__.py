# SPDX-License-Identifier: GPL-2.0-only
"""Intervals and the stopping rule of the wall clock; pure."""
