# SPDX-License-Identifier: GPL-2.0-only
"""``blklab store kit``: one boot of a run, to repeat on a machine with QEMU and without blklab."""

import argparse
from pathlib import Path

from harness.commands.common.boots import kernel_of, lab_of_host
from harness.commands.common.options import add_run
from harness.record.kit import chosen_boot, collect
from harness.record.store import PlannedCell, RunFolder, load_run
from harness.run.plan import guest_job
from lab.base.errors import EXIT_PASS
from lab.kit import REPEAT, Inputs
from lab.session import boot_inputs, prepare_job


def configure(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    parser.add_argument("boot", nargs="?", default="", help="number of the boot, such as 000 (default: the first)")
    parser.add_argument("--to", type=Path, required=True, metavar="DIR", help="a new folder")


def execute(options: argparse.Namespace) -> int:
    run = load_run(options.run)
    cell = chosen_boot(run, options.boot)
    collect(run, cell, options.to, lambda: _rebuilt(run, cell))
    print(f"boot {cell.boot} (arm {cell.arm}, seed {cell.seed}) copied to {options.to}; repeat it with: sh {REPEAT}")
    return EXIT_PASS


def _rebuilt(run: RunFolder, cell: PlannedCell) -> Inputs:
    lab, kernel = lab_of_host(), kernel_of(run.facts.kernel.spec)
    arm = run.scenario.arms[cell.arm]
    return boot_inputs(lab, prepare_job(lab, kernel, arm.topology, guest_job(run.scenario, arm, cell.seed)))
