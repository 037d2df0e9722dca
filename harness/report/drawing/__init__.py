# SPDX-License-Identifier: GPL-2.0-only
"""Topologies and charts as SVG."""
