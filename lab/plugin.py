# SPDX-License-Identifier: GPL-2.0-only
"""A plugin of QEMU that observes a boot: a value of a prepared job, which ``lab.observers`` makes."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from lab.base.digest import digest_results
from lab.base.errors import LabBroken
from lab.base.record import BootRecord, Outcome

_WINDOW = "window"


@dataclass(frozen=True)
class Plugin:
    """``files`` by name lie in the boot's folder, ``library`` among them; ``words`` are its arguments. None by default.

    ``loads`` are those whose windows it writes, in the guest's order. ``measured`` is the name of the measured file
    that each window is (``{load}.lines``), empty where the boot has the results of any other. ``from_start``: it
    follows each task from the first call, so the guest has to boot.
    """

    library: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    words: tuple[str, ...] = ()
    loads: tuple[str, ...] = ()
    measured: str = ""
    from_start: bool = False

    @property
    def argv(self) -> tuple[str, ...]:
        """QEMU's option, for the boot's folder."""
        return (f"./{self.library}", *self.words, f"output={_WINDOW}") if self.library else ()

    def install(self, folder: Path) -> None:
        """Raises OSError."""
        for name, data in self.files.items():
            (folder / name).write_bytes(data)

    def windows(self, folder: Path) -> Mapping[str, bytes]:
        """What it counted, by load. Raises LabBroken where it saw no window."""
        paths = {load: folder / f"{_WINDOW}.{number}" for number, load in enumerate(self.loads)}
        if missing := [load for load, path in paths.items() if not path.is_file()]:
            raise LabBroken(f"the plugin saw no window of load {missing[0]}", remedy="report this as a bug of blklab")
        return {load: path.read_bytes() for load, path in paths.items()}

    def completed(self, record: BootRecord) -> BootRecord:
        """With the windows among the measured files, where they are results. Raises what ``windows`` raises."""
        if not self.measured or record.outcome is not Outcome.BYE:
            return record
        windows = {self.measured.format(load=load): data for load, data in self.windows(record.folder).items()}
        files = {**record.files, **windows}
        return replace(record, files=files, digest=digest_results(files))
