# SPDX-License-Identifier: GPL-2.0-only
"""Verdicts, scenarios and progress on the terminal."""
