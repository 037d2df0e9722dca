# SPDX-License-Identifier: GPL-2.0-only
"""What several commands share: options, the parser, the output of a verdict."""
