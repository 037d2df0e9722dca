# SPDX-License-Identifier: GPL-2.0-only
"""A patch series against its base: what it touches, what therefore is measured, and what that says."""
