# SPDX-License-Identifier: GPL-2.0-only
"""What a load's instructions were spent on, per function: recorded, compared and written out."""
