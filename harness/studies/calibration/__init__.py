# SPDX-License-Identifier: GPL-2.0-only
"""Device models against their closed forms."""
