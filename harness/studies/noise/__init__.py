# SPDX-License-Identifier: GPL-2.0-only
"""False alarms and misses of the stopping rule, simulated."""
