# SPDX-License-Identifier: GPL-2.0-only
"""The commands of the console script, as a table. A module is imported only when its command is used.

A row with a module names it below this package; the module has ``configure`` and ``execute``. A row without one has
further words. Adding a command is adding a row.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType


@dataclass(frozen=True)
class CommandWord:
    """A word of the command line."""

    name: str
    help: str
    module: str = ""
    words: tuple["CommandWord", ...] = ()

    def load(self) -> ModuleType:
        return importlib.import_module(f"{__name__}.{self.module}")


CHECKS = (
    CommandWord("selftest", "run guests that fail on purpose; each must end as declared", "check.selftest"),
    CommandWord("calibration", "measure the device models against their closed forms", "check.calibration"),
)
STORES = (
    CommandWord("index", "rebuild the index of all runs; list or delete runs", "store.index"),
    CommandWord("cache", "list or delete cached kernels, payloads and archives", "store.cache"),
    CommandWord("kit", "copy what repeats one boot with QEMU alone", "store.kit"),
)
GROUPS: Mapping[str, tuple[CommandWord, ...]] = {
    "begin": (
        CommandWord("capture", "write a machine's storage as a topology file", "capture"),
        CommandWord("draft", "write a scenario from a fio job file", "draft"),
    ),
    "measure": (
        CommandWord("run", "run scenarios on a kernel and judge them", "run"),
        CommandWord("matrix", "run scenarios on several kernels", "matrix"),
        CommandWord("timeline", "run a scenario on successive kernels and find the changes", "timeline"),
        CommandWord("bisect", "find the release or the commit that makes a claim fail", "bisect"),
        CommandWord("patch", "measure a patch series against its base", "patch"),
        CommandWord("shell", "open a shell in a guest with a topology's controllers", "shell"),
    ),
    "understand": (
        CommandWord("show", "show what a scenario or a topology builds and claims", "show"),
        CommandWord("list", "list the scenarios, the topologies or the packaged kernels", "list"),
        CommandWord("judge", "judge a stored run again from its raw files", "judge"),
        CommandWord("report", "write runs, a matrix or a history as one HTML page", "report"),
        CommandWord("explain", "name what limits each load of a run", "explain"),
        CommandWord("compare", "compare kernels or runs; --history: a scenario over time", "compare"),
        CommandWord("sharing", "name the cache lines and locks that CPUs share, and what differs", "sharing"),
        CommandWord("profile", "count instructions by function, of one run or between two", "profile"),
    ),
    "maintain": (
        CommandWord("check", "test the lab: selftests, device models", words=CHECKS),
        CommandWord("store", "manage stored runs and the cache", words=STORES),
        CommandWord("doctor", "check this host and name what is missing", "doctor"),
    ),
}
HELP = CommandWord("help", "show the help of a command or a completion script", "help")
