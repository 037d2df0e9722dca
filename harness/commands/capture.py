# SPDX-License-Identifier: GPL-2.0-only
"""``blklab capture``: a topology file from this machine, or from what collect.sh collected on another."""

import argparse
import sys
from pathlib import Path

from harness.base.files import write_atomic
from harness.commands.common.options import tell
from harness.intake.capture import Captured, capture
from harness.intake.devices import slug
from harness.intake.latencies import read_results
from harness.intake.snapshot import SCRIPT, collected, opened
from harness.intake.written import written
from lab.base.errors import EXIT_PASS, Misuse
from lab.topology.load import read_topology
from lab.yaml.strict import Problems, parse

_LEFT = "left out:"


def configure(parser: argparse.ArgumentParser) -> None:
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--script", action="store_true", help="print the script that collects the same on any machine")
    where.add_argument("--from", dest="source", type=Path, metavar="PATH", help="the folder or tar file that it wrote")
    where.add_argument("--root", type=Path, metavar="DIR", help="read DIR/sys and DIR/proc instead of /sys and /proc")
    parser.add_argument("--disk", action="append", default=[], metavar="NAME", help="only this device (repeatable)")
    parser.add_argument(
        "--latencies", type=Path, metavar="FILE", help="fio's JSON output, for service times, seeks and rates"
    )
    parser.add_argument("--identities", action="store_true", help="with the host's name and identifiers of disks")
    parser.add_argument("--name", default="captured", help="name of the topology (default: captured)")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write FILE instead of printing the topology")
    parser.epilog = (
        "The file says of each figure whether it was read or guessed, and lists what it leaves out. Without"
        " --identities it has no host name, serial number or other identifier."
    )


def execute(options: argparse.Namespace) -> int:
    if options.script:
        sys.stdout.write(SCRIPT.read_text())
        return EXIT_PASS
    if slug(options.name) != options.name:
        raise Misuse(f'--name: "{options.name}" is no name', remedy="use a-z, 0-9 and -, at most 40 characters")
    if options.source and options.disk:
        raise Misuse("--disk does not select from an archive", remedy="collect again: DISKS='sda sdb' sh collect.sh")
    if options.source and options.identities:
        raise Misuse("--identities is too late for an archive", remedy="collect again: IDENTITIES=1 sh collect.sh")
    snapshot = (
        opened(options.source)
        if options.source
        else collected(options.root, options.disk, identities=options.identities)
    )
    results = read_results(options.latencies) if options.latencies else ()
    found = capture(snapshot, options.name, results)
    text = _text(found)
    _demand_loadable(text)
    if options.output is None:
        sys.stdout.write(text)
        return EXIT_PASS
    write_atomic(options.output, text.encode())
    for note in found.notes:
        tell(f"{_LEFT} {note}")
    tell(f"{options.output}: see it with blklab show ./{options.output.name} --topology")
    return EXIT_PASS


def _text(found: Captured) -> str:
    return written(found.document, (*found.read, *(f"{_LEFT} {note}" for note in found.notes)))


def _demand_loadable(text: str) -> None:
    """Raises InputErrors where the loader refuses the file."""
    problems = Problems()
    read_topology(parse(text.encode(), "captured.yaml", problems), near=Path(), problems=problems)
    problems.raise_if_any()
