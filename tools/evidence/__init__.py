# SPDX-License-Identifier: GPL-2.0-only
"""Rows of evidence: a ratio of a scenario, the kernels, and the range that it has there. Loaded, scored, written."""
