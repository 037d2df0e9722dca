# SPDX-License-Identifier: GPL-2.0-only
"""Many scenarios on many kernels: what is to be measured, and measuring it."""
