# SPDX-License-Identifier: GPL-2.0-only
"""A kernel as the rest of the lab sees it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.kernels.release import Release


@dataclass(frozen=True)
class Kernel:
    """A kernel that can be booted from files on this host.

    ``modules`` is the folder that holds ``modules.dep`` and friends, complete and readable (made
    by depmod where the source had none); module files may be .ko, .ko.xz or .ko.zst. ``config``
    maps ``CONFIG_X`` to ``y``, ``m`` or its value; options that are not set are absent.
    ``vmlinux`` is the image's uncompressed ELF, to be booted through its PVH note (saves seconds of
    decompression under emulation), None where the image has none. ``digest`` identifies image and
    modules together: sha256 in hex. ``mutant`` names the patch that breaks it on purpose. ``build``
    identifies the recipe of a kernel that was built here (options, fixups, compiler), empty for any other.
    """

    spec: str
    release: str
    version: Release
    origin: str
    image: Path
    vmlinux: Path | None
    modules: Path
    config: Mapping[str, str]
    digest: str
    mutant: str = ""
    build: str = ""

    def has(self, option: str) -> bool:
        """Whether ``CONFIG_<option>`` is built in or a module."""
        return self.config.get(f"CONFIG_{option}") in ("y", "m")
