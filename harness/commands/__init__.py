# SPDX-License-Identifier: GPL-2.0-only
"""The verbs of the console script, a module each: NAME, HELP, configure(parser), execute(options) -> exit code."""

from harness.commands import (
    bisect,
    compare,
    diagnose,
    explain,
    field_reports,
    history,
    io_cost,
    judge,
    matrix,
    noise,
    report,
    run,
    schema,
    shell,
    show,
)
from harness.commands import list as listing
from harness.commands.check import agree, calibrate, controls, inventory, selftest, sensitivity, zoo
from harness.commands.command import Command
from harness.commands.store import cache, index, kit

COMMANDS: tuple[Command, ...] = (
    run,
    matrix,
    bisect,
    listing,
    show,
    inventory,
    shell,
    judge,
    explain,
    report,
    compare,
    history,
    index,
    selftest,
    calibrate,
    controls,
    zoo,
    kit,
    field_reports,
    io_cost,
    sensitivity,
    agree,
    noise,
    diagnose,
    cache,
    schema,
)
