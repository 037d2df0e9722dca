# SPDX-License-Identifier: GPL-2.0-only
"""Published regressions: which are detected, and which alarms are false."""
