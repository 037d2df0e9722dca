# SPDX-License-Identifier: GPL-2.0-only
"""The commands of the console script, as a table. A module is imported only when its command is used.

A row with a module names it below this package; the module has ``configure`` and ``execute``. A row without one has
further words. Adding a command is adding a row.
"""

import argparse
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


class Command(Protocol):
    def configure(self, parser: argparse.ArgumentParser) -> None: ...

    def execute(self, options: argparse.Namespace) -> int: ...


@dataclass(frozen=True)
class Word:
    """A word of the command line."""

    name: str
    help: str
    module: str = ""
    words: tuple["Word", ...] = ()

    def load(self) -> Command:
        module: Command = importlib.import_module(f"{__name__}.{self.module}")
        return module


CHECKS = (
    Word("selftest", "run guests that fail on purpose; each must end as declared", "check.selftest"),
    Word("calibrate", "measure each device model against its closed form", "check.calibrate"),
    Word("controls", "build the mutant kernels and show which scenario detects each", "check.controls"),
    Word("zoo", "score the lab on published regressions and null pairs", "check.zoo"),
    Word("agree", "compare ratios that were measured on both clocks", "check.agree"),
    Word("sensitivity", "vary a topology's fitted parameters and measure the ratios", "check.sensitivity"),
    Word("inventory", "boot a topology on QEMU's controllers and compare sysfs with it", "check.inventory"),
    Word("pages", "write the pages of docs/results from stored runs", "check.pages"),
)
STORES = (
    Word("index", "rebuild the index of all runs; list or delete runs", "store.index"),
    Word("cache", "list or delete cached kernels, payloads and archives", "store.cache"),
    Word("kit", "copy what repeats one boot with QEMU alone", "store.kit"),
)
GROUPS: Mapping[str, tuple[Word, ...]] = {
    "measure": (
        Word("run", "run a scenario on a kernel and judge it", "run"),
        Word("matrix", "run scenarios on several kernels", "matrix"),
        Word("timeline", "run a scenario on successive kernels and find the changes", "timeline"),
        Word("bisect", "find the release or the commit that makes a claim fail", "bisect"),
        Word("shell", "open a shell in a guest with a topology's controllers", "shell"),
    ),
    "understand": (
        Word("show", "show what a scenario or a topology builds and claims", "show"),
        Word("list", "list the scenarios, the topologies or the packaged kernels", "list"),
        Word("judge", "judge a stored run again from its raw files", "judge"),
        Word("report", "write runs, a matrix or a history as one HTML page", "report"),
        Word("explain", "name what limits each load of a run", "explain"),
        Word("compare", "compare kernels or runs; --history: a scenario over time", "compare"),
        Word("profile", "count instructions by function, of one run or between two", "profile"),
    ),
    "maintain": (
        Word("check", "test the lab: selftests, device models, mutants, pages", words=CHECKS),
        Word("store", "manage stored runs and the cache", words=STORES),
        Word("doctor", "check this host and name what is missing", "doctor"),
    ),
}
HELP = Word("help", "show the help of a command, completion scripts or the man page", "help")
