# SPDX-License-Identifier: GPL-2.0-only
"""Kernels: where they come from, how they are kept, what they can do."""
