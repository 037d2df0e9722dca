# SPDX-License-Identifier: GPL-2.0-only
"""One figure over many runs, and where it changed."""
