# SPDX-License-Identifier: GPL-2.0-only
"""What is kept of runs and matrices, and verdicts recomputed from it."""
