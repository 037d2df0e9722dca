# SPDX-License-Identifier: GPL-2.0-only
"""Mutants of the kernel's block layer: which of them the scenarios detect."""
