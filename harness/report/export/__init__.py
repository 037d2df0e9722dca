# SPDX-License-Identifier: GPL-2.0-only
"""Verdicts in formats that other programs read."""
