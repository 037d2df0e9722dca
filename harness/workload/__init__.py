# SPDX-License-Identifier: GPL-2.0-only
"""Roles and loads as fio job files."""
