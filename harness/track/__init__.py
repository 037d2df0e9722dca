# SPDX-License-Identifier: GPL-2.0-only
"""From a new commit or package to the alarms: what changed since the last one, and the commit that changed it."""
