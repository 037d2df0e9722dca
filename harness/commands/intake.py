# SPDX-License-Identifier: GPL-2.0-only
"""``blklab capture`` and ``blklab draft``: a topology from a machine, a scenario from a fio job."""

import sys
from collections.abc import Sequence
from pathlib import Path

from harness.commands.options import print_or_write
from harness.commands.parser import Command, OneOf, flag, option, signed
from harness.intake.capture import capture
from harness.intake.documents import read_text, yaml_text
from harness.intake.draft import Drafter, made_up_topology, named_topology
from harness.intake.jobfile import read_jobs, read_report, reported_iops
from harness.intake.jobs import draft_jobs
from harness.intake.snapshot import SCRIPT, collect, read_snapshot, slug
from lab.base.errors import EXIT_PASS, Misuse


def _capture(
    *, script: bool, source: Path | None, root: Path | None, disk: Sequence[str], name: str, output: Path | None
) -> int:
    if script:
        sys.stdout.write(SCRIPT.read_text())
        return EXIT_PASS
    if slug(name) != name:
        raise Misuse(f'--name: "{name}" is no name', remedy="use a-z, 0-9 and -, at most 40 characters")
    if source and disk:
        raise Misuse("--disk does not select from an archive", remedy="collect again: DISKS='sda sdb' sh collect.sh")
    captured = capture(read_snapshot(source) if source else collect(root, disk), name)
    left = [f"left out: {note}" for note in captured.notes]
    text = yaml_text(captured.document, left)
    read_text(text, "captured.yaml")
    view = f"{output}: see it with blklab show ./{output.name} --topology" if output else ""
    print_or_write(signed(text) if output else text, output, *left, view)
    return EXIT_PASS


def _draft(
    *,
    fio: Path | None,
    lkp: Path | None,
    topology: str | None,
    places: Sequence[str],
    from_output: Path | None,
    without: Sequence[str],
    name: str | None,
    output: Path | None,
) -> int:
    origin = fio or lkp or Path()
    title = slug(name or origin.stem)
    if not title or (name and title != name):
        raise Misuse(f'--name: "{name or origin.stem}" is no name', remedy="use a-z, 0-9 and -")
    jobs = draft_jobs(read_jobs(fio) if fio else [read_report(origin)], without)
    source = named_topology(topology) if topology else made_up_topology(jobs)
    reported = reported_iops(from_output) if from_output else {}
    if from_output and not {job.label for job in jobs} & {*reported}:
        remedy = f"it has {', '.join(sorted(reported)) or 'none'}"
        raise Misuse(f"{from_output} has no job of {origin}", remedy=remedy)
    draft = Drafter(title, jobs, source, dict(map(_pair, places))).draft(reported)
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


COMMANDS = {
    "capture": Command(
        _capture,
        (
            OneOf(
                (
                    flag("--script", "print the script that collects the same on any machine"),
                    option("--from", dest="source", type=Path, metavar="PATH", help="the tar file that it wrote"),
                    option(
                        "--root", type=Path, metavar="DIR", help="read DIR/sys and DIR/proc instead of /sys and /proc"
                    ),
                )
            ),
            option("--disk", action="append", default=[], metavar="NAME", help="only this device (repeatable)"),
            option("--name", default="captured", help="name of the topology (default: captured)"),
            option("--output", type=Path, metavar="FILE", help="write FILE instead of printing the topology"),
        ),
        "The file says of each figure whether it was read or guessed, and lists what it leaves out. It has no host"
        " name, serial number or other identifier.",
    ),
    "draft": Command(
        _draft,
        (
            OneOf(
                (
                    option("--fio", type=Path, metavar="JOB.fio", help="the fio job file"),
                    option(
                        "--lkp", type=Path, metavar="MAIL", help="a performance report of the kernel test robot (0-day)"
                    ),
                ),
                required=True,
            ),
            option(
                "--topology",
                metavar="NAME",
                help="a topology of the catalogue, or the path of a file (default: a made-up one)",
            ),
            option(
                "--map",
                action="append",
                default=[],
                dest="places",
                metavar="PATH=NAME",
                help="put the device or folder PATH of the jobs on NAME of the topology (repeatable)",
            ),
            option("--from-output", type=Path, metavar="FILE", help="fio's JSON output, as reported figures"),
            option(
                "--without",
                action="append",
                default=[],
                metavar="OPTION",
                help="ignore this option of fio (repeatable)",
            ),
            option("--name", help="name of the scenario (default: that of the job file)"),
            option("--output", type=Path, metavar="FILE", help="write FILE instead of printing the scenario"),
        ),
        "Options of fio that change what is measured and have no counterpart are refused with their line. The claims"
        " are drafts: a run shows them and cannot be judged (125) until someone sets their bounds.",
    ),
}
