# SPDX-License-Identifier: GPL-2.0-only
"""A strict YAML loader, and typed fields that report each mistake with its line."""
