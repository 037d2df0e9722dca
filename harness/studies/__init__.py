# SPDX-License-Identifier: GPL-2.0-only
"""Questions over many runs, one module or folder each, with its page."""
