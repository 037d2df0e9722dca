# SPDX-License-Identifier: GPL-2.0-only
"""``blklab draft``: a scenario from a fio job file, or from the fio test of a 0-day report."""

import argparse
from pathlib import Path

from harness.commands.common.options import print_or_write
from harness.intake.documents import yaml_text
from harness.intake.draft import Drafter, made_up_topology, named_topology
from harness.intake.jobfile import read_jobs, reported_iops
from harness.intake.jobs import draft_jobs
from harness.intake.lkp import read_report
from harness.intake.snapshot import slug
from lab.base.errors import EXIT_PASS, Misuse


def configure(parser: argparse.ArgumentParser) -> None:
    origin = parser.add_mutually_exclusive_group(required=True)
    origin.add_argument("--fio", type=Path, metavar="JOB.fio", help="the fio job file")
    origin.add_argument(
        "--lkp", type=Path, metavar="MAIL", help="a performance report of the kernel test robot (0-day)"
    )
    parser.add_argument(
        "--topology", metavar="NAME", help="a topology of the catalogue, or the path of a file (default: a made-up one)"
    )
    parser.add_argument(
        "--map",
        action="append",
        default=[],
        metavar="PATH=NAME",
        help="put the device or folder PATH of the jobs on NAME of the topology (repeatable)",
    )
    parser.add_argument("--from-output", type=Path, metavar="FILE", help="fio's JSON output, as reported figures")
    parser.add_argument(
        "--without", action="append", default=[], metavar="OPTION", help="ignore this option of fio (repeatable)"
    )
    parser.add_argument("--name", help="name of the scenario (default: that of the job file)")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write FILE instead of printing the scenario")
    parser.epilog = (
        "Options of fio that change what is measured and have no counterpart are refused with their line. The claims"
        " are drafts: a run shows them and cannot be judged (125) until someone sets their bounds."
    )


def execute(options: argparse.Namespace) -> int:
    origin = options.fio or options.lkp
    name = slug(options.name or origin.stem)
    if not name or (options.name and name != options.name):
        raise Misuse(f'--name: "{options.name or origin.stem}" is no name', remedy="use a-z, 0-9 and -")
    if options.fio:
        jobs = draft_jobs(read_jobs(options.fio), options.without)
    else:
        job, left = read_report(options.lkp)
        jobs = draft_jobs((job,), {*options.without, *left})
    places = dict(_pair(text) for text in options.map)
    source = named_topology(options.topology) if options.topology else made_up_topology(jobs)
    reported = reported_iops(options.from_output) if options.from_output else {}
    if options.from_output and not {job.label for job in jobs} & {*reported}:
        remedy = f"it has {', '.join(sorted(reported)) or 'none'}"
        raise Misuse(f"{options.from_output} has no job of {origin}", remedy=remedy)
    draft = Drafter(name, jobs, source, places).draft(reported)
    where = options.output if options.output is None or options.output.is_absolute() else f"./{options.output}"
    text = yaml_text(draft.document, draft.notes)
    print_or_write(text, options.output, *draft.notes, f"measure it with blklab run {where}")
    return EXIT_PASS


def _pair(text: str) -> tuple[str, str]:
    path, equals, name = text.rpartition("=")
    if not equals or not path or not name:
        raise Misuse(f'--map: "{text}" is not PATH=NAME', remedy="such as --map /dev/sdb=d1")
    return path, name
