# SPDX-License-Identifier: GPL-2.0-only
"""Copying everything that repeats one boot on a machine with QEMU but without blklab."""

import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from harness.base.files import writing
from harness.record.store import PlannedCell, RunFolder
from lab import kit
from lab.base.errors import LabBroken, Misuse

_FROM_BOOT = (kit.REPEAT, kit.JOB, kit.STEADY, kit.SHARING, kit.FUNCTIONS, kit.EXPECTED, "boot.json")


def chosen_boot(run: RunFolder, boot: str) -> PlannedCell:
    """The cell of boot number ``boot``, or the first with a record. Raises Misuse."""
    found = next((cell for cell, _ in run.boots() if boot in ("", cell.boot)), None)
    if found is None:
        known = ", ".join(cell.boot for cell, _ in run.boots())
        what = f"boot {boot}" if boot else "boot with a record"
        raise Misuse(f"{run.path} has no {what}", remedy=f"its boots are {known}" if known else "run the scenario")
    return found


def collect(run: RunFolder, cell: PlannedCell, to: Path, rebuilt: Callable[[], kit.Inputs]) -> None:
    """Copy the boot's inputs and scripts into the new folder ``to``.

    ``rebuilt`` recreates inputs that the cache no longer has, and is called only then. Raises Misuse when ``to``
    exists or the boot does not record its inputs, LabBroken when a recreated input differs from the original.
    """
    folder = run.boot_folder(cell)
    inputs = kit.read_inputs(folder)
    if inputs is None:
        raise Misuse(f"{folder} does not record its inputs", remedy="run the scenario again with this blklab")
    if to.exists():
        raise Misuse(f"{to} exists", remedy="name a new folder")
    kernel, base = _large_inputs(inputs, rebuilt)
    with writing(to):
        to.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{to.name}.", dir=to.parent) as aside:
            staged = Path(aside) / "kit"
            staged.mkdir()
            shutil.copyfile(kernel, staged / kit.KERNEL)
            shutil.copyfile(base, staged / kit.BASE)
            for name in _FROM_BOOT:
                if (folder / name).is_file():
                    shutil.copy(folder / name, staged / name)
            staged.rename(to)


def _large_inputs(inputs: kit.Inputs, rebuilt: Callable[[], kit.Inputs]) -> tuple[Path, Path]:
    if kit.intact(inputs.kernel, inputs.kernel_digest) and kit.intact(inputs.base, inputs.base_digest):
        return inputs.kernel, inputs.base
    again = rebuilt()
    kernel = _intact("kernel", (inputs.kernel, again.kernel), inputs.kernel_digest)
    return kernel, _intact("initramfs", (inputs.base, again.base), inputs.base_digest)


def _intact(what: str, paths: Iterable[Path], digest: str) -> Path:
    for path in paths:
        if kit.intact(path, digest):
            return path
    raise LabBroken(
        f"the {what} of this boot is no longer in the cache, and the one built now differs from it",
        remedy="use the blklab and the kernel package that the run was made with (boot.json and run.json name them)",
    )
