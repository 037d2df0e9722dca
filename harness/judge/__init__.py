# SPDX-License-Identifier: GPL-2.0-only
"""From figures to claims and a verdict; pure."""
