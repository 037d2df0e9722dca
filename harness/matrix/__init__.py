# SPDX-License-Identifier: GPL-2.0-only
"""Many scenarios on many kernels: planning and measuring."""
