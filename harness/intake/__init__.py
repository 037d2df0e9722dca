# SPDX-License-Identifier: GPL-2.0-only
"""Machines and fio jobs from outside the lab as topologies and scenarios: ``blklab capture`` and ``blklab draft``."""
