# SPDX-License-Identifier: GPL-2.0-only
"""Cache lines and locks that CPUs share: named, ranked, and compared between two runs."""
