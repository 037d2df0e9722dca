# SPDX-License-Identifier: GPL-2.0-only
"""Steps of a guest as the files of its /job folder."""

from collections.abc import Iterable

from lab.base.errors import LabBroken
from lab.guest.steps import Step
from lab.guest.steps.device import HANDLER_CONFIG, NETWORK_FILE, Daemon, Network, TableStep
from lab.guest.steps.load import RunLoad


def job_files(steps: Iterable[Step], *, deadline: int) -> dict[str, bytes]:
    """Files of the guest's /job folder: ``script``, ``deadline`` (seconds), tables, fio jobs, the disks' model."""
    files = {"deadline": f"{deadline}\n".encode()}
    lines = []
    for step in steps:
        lines.append(_line(step))
        if isinstance(step, TableStep):
            files[step.file] = "".join(f"{row}\n" for row in step.rows).encode()
        elif isinstance(step, Network):
            files[NETWORK_FILE] = "".join(f"{command}\n" for command in step.commands).encode()
        elif isinstance(step, Daemon):
            files[HANDLER_CONFIG] = "".join(f"{line}\n" for line in step.config).encode()
        elif isinstance(step, RunLoad):
            files[step.file] = step.fio.encode()
            if step.watch:
                files[step.watch_file] = step.watch.config().encode()
    files["script"] = "".join(lines).encode()
    return files


def _line(step: Step) -> str:
    fields = step.fields()
    for field in fields:
        if any(not char.isprintable() for char in field):
            raise LabBroken(f"a step of the guest cannot carry {field!r}", remedy="report this scenario as a bug")
    line = "\t".join(fields).rstrip("\t")
    if "\t\t" in line:
        # The guest's shell takes several tabs for one.
        raise LabBroken(f"a step of the guest cannot carry an empty field: {fields!r}", remedy="report this as a bug")
    return line + "\n"
