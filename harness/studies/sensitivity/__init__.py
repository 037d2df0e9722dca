# SPDX-License-Identifier: GPL-2.0-only
"""How much a reproduced ratio depends on fitted parameters."""
