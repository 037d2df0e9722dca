# SPDX-License-Identifier: GPL-2.0-only
"""The commands of the console script, as a table, and the module of each, imported only when its command is used.

A command is a row in the table, its name in ``load``, and a class in that module: its options, and what it does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.commands.parser import Command


@dataclass(frozen=True)
class CommandWord:
    """A word of the command line, with further ``words`` or none."""

    name: str
    help: str
    words: tuple["CommandWord", ...] = ()


CHECKS = (
    CommandWord("selftest", "run guests that fail on purpose; each must end as declared"),
    CommandWord("calibration", "measure the device models against their closed forms"),
)
CACHE = (
    CommandWord("list", "list the entries, least recently used first"),
    CommandWord("prune", "delete entries not in use (default: all)"),
)
STORES = (
    CommandWord("index", "rebuild the index of all runs; list or delete runs"),
    CommandWord("cache", "list or delete cached kernels, payloads and archives", words=CACHE),
    CommandWord("kit", "copy what repeats one boot with QEMU alone"),
)
GROUPS: Mapping[str, tuple[CommandWord, ...]] = {
    "begin": (
        CommandWord("capture", "write a machine's storage as a topology file"),
        CommandWord("draft", "write a scenario from a fio job file"),
    ),
    "measure": (
        CommandWord("run", "run scenarios on a kernel and judge them"),
        CommandWord("matrix", "run scenarios on several kernels"),
        CommandWord("timeline", "run a scenario on successive kernels and find the changes"),
        CommandWord("bisect", "find the release or the commit that makes a claim fail"),
        CommandWord("patch", "measure the change in a kernel tree, or a series, against its base"),
        CommandWord("track", "measure a branch night by night, and name what changed it"),
        CommandWord("hunt", "search schedules of several CPUs for hangs and races"),
        CommandWord("shell", "open a shell in a guest with a topology's controllers"),
    ),
    "understand": (
        CommandWord("show", "show what a scenario or a topology builds and claims"),
        CommandWord("list", "list the scenarios, the topologies or the packaged kernels"),
        CommandWord("judge", "judge a stored run again from its raw files"),
        CommandWord("report", "write runs, a matrix or a history as one HTML page"),
        CommandWord("explain", "name what limits each load of a run"),
        CommandWord("compare", "compare kernels or runs; --history: a scenario over time"),
        CommandWord("sharing", "name the cache lines and locks that CPUs share, and what differs"),
        CommandWord("profile", "count instructions by function, of one run or between two"),
    ),
    "maintain": (
        CommandWord("check", "test the lab: selftests, device models", words=CHECKS),
        CommandWord("store", "manage stored runs and the cache", words=STORES),
        CommandWord("doctor", "check this host and name what is missing"),
    ),
}
HELP = CommandWord("help", "show the help of a command or a completion script")


def load(name: str) -> "type[Command]":  # a case for each module
    """The command of that name, such as ``run`` or ``store index``."""
    match name:
        case "capture" | "draft":
            from harness.commands.intake import COMMANDS
        case "run":
            from harness.commands.run import COMMANDS
        case "matrix" | "timeline":
            from harness.commands.matrix import COMMANDS
        case "bisect":
            from harness.commands.bisect import COMMANDS
        case "hunt":
            from harness.commands.hunt import COMMANDS
        case "patch":
            from harness.commands.patch import COMMANDS
        case "track":
            from harness.commands.track import COMMANDS
        case "judge" | "report":
            from harness.commands.verdict import COMMANDS
        case "explain" | "profile" | "sharing":
            from harness.commands.explain import COMMANDS
        case "compare":
            from harness.commands.compare import COMMANDS
        case "list" | "show" | "help":
            from harness.commands.catalogue import COMMANDS
        case _:
            from harness.commands.maintain import COMMANDS
    return COMMANDS[name]
