# SPDX-License-Identifier: GPL-2.0-only
"""``blklab capture`` and ``blklab draft``: a topology from a machine, a scenario from a fio job."""

import sys
from collections.abc import Sequence
from pathlib import Path

from harness.commands.options import print_or_write
from harness.commands.parser import Command, flag, option, signed
from harness.intake.capture import capture
from harness.intake.documents import read_text, yaml_text
from harness.intake.draft import Drafter, made_up_topology, named_topology
from harness.intake.jobfile import read_jobs, read_report, reported_iops
from harness.intake.jobs import draft_jobs
from harness.intake.snapshot import SCRIPT, collect, read_snapshot, slug
from lab.base.errors import EXIT_PASS, Misuse


class Capture(Command):
    script: bool = flag("print the script that collects the same on any machine")
    source: Path | None = option("--from", type=Path, metavar="PATH", help="the tar file that it wrote")
    root: Path | None = option(type=Path, metavar="DIR", help="read DIR/sys and DIR/proc instead of /sys and /proc")
    disk: Sequence[str] = option(action="append", default=[], metavar="NAME", help="only this device (repeatable)")
    name: str = option(default="captured", help="name of the topology (default: captured)")
    output: Path | None = option(type=Path, metavar="FILE", help="write FILE instead of printing the topology")
    one_of = ("script", "source", "root")
    epilog = (
        "The file says of each figure whether it was read or guessed, and lists what it leaves out. It has no host"
        " name, serial number or other identifier."
    )

    def __call__(self) -> int:
        if self.script:
            sys.stdout.write(SCRIPT.read_text())
            return EXIT_PASS
        if slug(self.name) != self.name:
            raise Misuse(f'--name: "{self.name}" is no name', remedy="use a-z, 0-9 and -, at most 40 characters")
        if self.source and self.disk:
            raise Misuse(
                "--disk does not select from an archive", remedy="collect again: DISKS='sda sdb' sh collect.sh"
            )
        snapshot = read_snapshot(self.source) if self.source else collect(self.root, self.disk)
        captured = capture(snapshot, self.name)
        left = [f"left out: {note}" for note in captured.notes]
        text, output = yaml_text(captured.document, left), self.output
        read_text(text, "captured.yaml")
        view = f"{output}: see it with blklab show ./{output.name} --topology" if output else ""
        print_or_write(signed(text) if output else text, output, *left, view)
        return EXIT_PASS


class Draft(Command):
    fio: Path | None = option(type=Path, metavar="JOB.fio", help="the fio job file")
    lkp: Path | None = option(type=Path, metavar="MAIL", help="a performance report of the kernel test robot (0-day)")
    topology: str | None = option(
        metavar="NAME", help="a topology of the catalogue, or the path of a file (default: a made-up one)"
    )
    places: Sequence[str] = option(
        "--map",
        action="append",
        default=[],
        metavar="PATH=NAME",
        help="put the device or folder PATH of the jobs on NAME of the topology (repeatable)",
    )
    from_output: Path | None = option(type=Path, metavar="FILE", help="fio's JSON output, as reported figures")
    without: Sequence[str] = option(
        action="append", default=[], metavar="OPTION", help="ignore this option of fio (repeatable)"
    )
    name: str | None = option(help="name of the scenario (default: that of the job file)")
    output: Path | None = option(type=Path, metavar="FILE", help="write FILE instead of printing the scenario")
    one_of, required = ("fio", "lkp"), True
    epilog = (
        "Options of fio that change what is measured and have no counterpart are refused with their line. The claims"
        " are drafts: a run shows them and cannot be judged (125) until someone sets their bounds."
    )

    def __call__(self) -> int:
        origin = self.fio or self.lkp or Path()
        title = slug(self.name or origin.stem)
        if not title or (self.name and title != self.name):
            raise Misuse(f'--name: "{self.name or origin.stem}" is no name', remedy="use a-z, 0-9 and -")
        jobs = draft_jobs(read_jobs(self.fio) if self.fio else [read_report(origin)], self.without)
        source = named_topology(self.topology) if self.topology else made_up_topology(jobs)
        reported = reported_iops(self.from_output) if self.from_output else {}
        if self.from_output and not {job.label for job in jobs} & {*reported}:
            remedy = f"it has {', '.join(sorted(reported)) or 'none'}"
            raise Misuse(f"{self.from_output} has no job of {origin}", remedy=remedy)
        draft = Drafter(title, jobs, source, dict(map(_pair, self.places))).draft(reported)
        output = self.output
        where = output if output is None or output.is_absolute() else f"./{output}"
        text = yaml_text(draft.document, draft.notes)
        notes = (*draft.notes, f"measure it with blklab run {where}")
        print_or_write(signed(text) if output else text, output, *notes)
        return EXIT_PASS


def _pair(text: str) -> tuple[str, str]:
    path, equals, name = text.rpartition("=")
    if not equals or not path or not name:
        raise Misuse(f'--map: "{text}" is not PATH=NAME', remedy="such as --map /dev/sdb=d1")
    return path, name


COMMANDS: dict[str, type[Command]] = {"capture": Capture, "draft": Draft}
