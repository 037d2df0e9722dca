# SPDX-License-Identifier: GPL-2.0-only
"""The verbs of the console script, a module each: NAME, HELP, configure(parser), execute(options) -> exit code."""

from harness.commands import (
    bisect,
    cache,
    calibrate,
    compare,
    controls,
    diagnose,
    explain,
    field_reports,
    history,
    index,
    inventory,
    judge,
    kit,
    matrix,
    noise,
    report,
    run,
    schema,
    selftest,
    sensitivity,
    show,
)
from harness.commands import list as listing
from harness.commands.command import Command

COMMANDS: tuple[Command, ...] = (
    run,
    matrix,
    bisect,
    listing,
    show,
    inventory,
    judge,
    explain,
    report,
    compare,
    history,
    index,
    selftest,
    calibrate,
    controls,
    kit,
    field_reports,
    sensitivity,
    noise,
    diagnose,
    cache,
    schema,
)
