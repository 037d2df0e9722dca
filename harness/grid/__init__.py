# SPDX-License-Identifier: GPL-2.0-only
"""Scenarios x kernels: measured on this host or a cluster, merged, and read as lines over kernels and as pages."""
