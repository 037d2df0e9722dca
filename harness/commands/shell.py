# SPDX-License-Identifier: GPL-2.0-only
"""``blklab shell``: a shell in a guest with a topology's controllers and the host's files (virtme-ng)."""

import argparse
from pathlib import Path

from harness.commands.common.boots import kernel_of, lab_of_host
from harness.commands.common.options import add_kernel, add_topology, tell
from lab.base.errors import CannotJudge
from lab.session import accelerator_for, unmet
from lab.shell.enter import enter, virtme
from lab.topology.emulated import differences, emulated
from lab.topology.limits import refusals
from lab.topology.load import load_topology


def configure(parser: argparse.ArgumentParser) -> None:
    add_topology(parser)
    add_kernel(parser)
    parser.add_argument(
        "--command",
        default="",
        metavar="LINE",
        help="run this line in bash instead of an interactive shell; blklab exits with its status",
    )


def execute(options: argparse.Namespace) -> int:
    asked = load_topology(options.topology, near=Path())
    topology = emulated(asked)
    program = virtme()
    kernel, lab = kernel_of(options.kernel), lab_of_host()
    if reasons := (*map(str, refusals(topology)), *unmet(lab, kernel, topology)):
        raise CannotJudge("; ".join(reasons))
    runs_on = accelerator_for(lab, kernel)
    for line in (*differences(asked, topology), f"runs on {runs_on}"):
        tell(line)
    return enter(
        kernel,
        topology,
        options.command,
        program=program,
        cache=lab.cache,
        qemu=lab.qemu.path,
        clock=runs_on.clock,
        tell=tell,
    )
