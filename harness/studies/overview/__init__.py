# SPDX-License-Identifier: GPL-2.0-only
"""The page over many runs: a matrix, a results folder or a scenario's history."""
