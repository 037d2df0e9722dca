# SPDX-License-Identifier: GPL-2.0-only
"""YAML files that people write: a strict loader, and typed fields with the line of each mistake."""
