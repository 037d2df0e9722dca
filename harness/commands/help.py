# SPDX-License-Identifier: GPL-2.0-only
"""``blklab help``: the help of a command, and completion scripts, from the same parser."""

import argparse

import shtab

from harness.commands.common.parser import build_parser
from lab.base.errors import EXIT_PASS


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="COMMAND", help="the command, such as run or check selftest")
    parser.add_argument("--completion", choices=("bash", "zsh", "fish"), help="print the completion script of a shell")
    parser.epilog = (
        "Completion: source <(blklab help --completion bash); for fish: blklab help --completion fish | source"
    )


def execute(options: argparse.Namespace) -> int:
    if options.completion:
        print(shtab.complete(build_parser(), options.completion))
    else:
        build_parser(options.words).parse([*options.words, "--help"])
    return EXIT_PASS
