# SPDX-License-Identifier: GPL-2.0-only
"""A search for a schedule of several CPUs under which a scenario fails, and what is kept of it."""
