# SPDX-License-Identifier: GPL-2.0-only
"""Values, files and processes that every part of the lab uses."""
