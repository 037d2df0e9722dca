# SPDX-License-Identifier: GPL-2.0-only
"""A scenario's claims and figures over kernel versions, and the releases between which they changed."""
