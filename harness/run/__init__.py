# SPDX-License-Identifier: GPL-2.0-only
"""Carrying out a scenario: plan, boots, events."""
