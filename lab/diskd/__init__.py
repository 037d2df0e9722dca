# SPDX-License-Identifier: GPL-2.0-only
"""The in-guest disk: a handler behind LIO's target_core_user, in C, and how it is built."""
