# SPDX-License-Identifier: GPL-2.0-only
"""Warnings about the commit that a bisection names."""

from collections.abc import Iterator

from harness.bisect.repository import Commit

_MODELS = {
    "drivers/block/null_blk": "null_blk",
    "drivers/target/": "LIO, the target of the lab's SCSI disks",
    "drivers/scsi/scsi_debug.c": "scsi_debug",
    "drivers/nvme/target/": "the NVMe target",
}
_NO_CODE = ("Documentation/", "MAINTAINERS", "CREDITS", ".mailmap", "LICENSES/")
_OUR_ARCHITECTURE = "arch/x86/"


def warnings(commit: Commit) -> Iterator[str]:
    """One sentence for each warning."""
    if len(commit.parents) > 1:
        yield "it is a merge: its parents pass, so the merge itself is wrong, or one side was skipped"
    if commit.files and all(name.startswith(_NO_CODE) or name.endswith((".rst", ".txt")) for name in commit.files):
        yield "it touches documentation only and cannot be the cause: check the skipped commits and the ends"
    elif commit.files and all(_is_foreign(name) for name in commit.files):
        yield "it touches only architectures that were not tested and cannot be the cause"
    models = [what for path, what in _MODELS.items() if any(name.startswith(path) for name in commit.files)]
    if models:
        yield (
            f"it changes {', '.join(models)}, which the lab's own devices use: calibrate both sides"
            " (blklab check evidence calibration) before calling it a regression of the block layer"
        )


def _is_foreign(name: str) -> bool:
    return name.startswith("arch/") and not name.startswith(_OUR_ARCHITECTURE)
