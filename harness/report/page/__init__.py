# SPDX-License-Identifier: GPL-2.0-only
"""One self-contained HTML page for people: no script, nothing from the network, and all foreign text escaped."""
