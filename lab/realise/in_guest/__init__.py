# SPDX-License-Identifier: GPL-2.0-only
"""Topologies as devices inside the guest, for the virtual clock."""
