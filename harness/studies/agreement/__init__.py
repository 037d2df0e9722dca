# SPDX-License-Identifier: GPL-2.0-only
"""Ratios that scenarios of both clocks share."""
