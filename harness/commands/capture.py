# SPDX-License-Identifier: GPL-2.0-only
"""``blklab capture``: a topology file from this machine, or from what collect.sh collected on another."""

import argparse
import sys
from pathlib import Path

from harness.commands.common.options import print_or_write
from harness.intake.capture import capture
from harness.intake.documents import read_text, yaml_text
from harness.intake.snapshot import SCRIPT, collect, read_snapshot, slug
from lab.base.errors import EXIT_PASS, Misuse


def configure(parser: argparse.ArgumentParser) -> None:
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--script", action="store_true", help="print the script that collects the same on any machine")
    where.add_argument("--from", dest="source", type=Path, metavar="PATH", help="the tar file that it wrote")
    where.add_argument("--root", type=Path, metavar="DIR", help="read DIR/sys and DIR/proc instead of /sys and /proc")
    parser.add_argument("--disk", action="append", default=[], metavar="NAME", help="only this device (repeatable)")
    parser.add_argument("--name", default="captured", help="name of the topology (default: captured)")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write FILE instead of printing the topology")
    parser.epilog = (
        "The file says of each figure whether it was read or guessed, and lists what it leaves out. It has no host"
        " name, serial number or other identifier."
    )


def execute(options: argparse.Namespace) -> int:
    if options.script:
        sys.stdout.write(SCRIPT.read_text())
        return EXIT_PASS
    if slug(options.name) != options.name:
        raise Misuse(f'--name: "{options.name}" is no name', remedy="use a-z, 0-9 and -, at most 40 characters")
    if options.source and options.disk:
        raise Misuse("--disk does not select from an archive", remedy="collect again: DISKS='sda sdb' sh collect.sh")
    snapshot = read_snapshot(options.source) if options.source else collect(options.root, options.disk)
    captured = capture(snapshot, options.name)
    left = [f"left out: {note}" for note in captured.notes]
    text = yaml_text(captured.document, left)
    read_text(text, "captured.yaml")
    view = f"{options.output}: see it with blklab show ./{options.output.name} --topology" if options.output else ""
    print_or_write(text, options.output, *left, view)
    return EXIT_PASS
