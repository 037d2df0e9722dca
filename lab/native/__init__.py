# SPDX-License-Identifier: GPL-2.0-only
"""C programs: the disk handler and the sampler of the guest, and the library that is preloaded into QEMU."""
