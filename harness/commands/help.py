# SPDX-License-Identifier: GPL-2.0-only
"""``blklab help``: the help of a command, and completion scripts, from the same parser."""

import argparse

from harness.commands.common.completion import SHELLS, VALUES, script
from harness.commands.common.parser import build_parser
from lab.base.errors import EXIT_PASS


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="COMMAND", help="the command, such as run or check selftest")
    parser.add_argument("--completion", choices=SHELLS, help="print the completion script of a shell")
    parser.add_argument("--values", choices=VALUES, help="print what may complete a word, for those scripts")
    parser.epilog = (
        'Completion: eval "$(blklab help --completion bash)", or zsh; for fish: blklab help --completion fish | source'
    )


def execute(options: argparse.Namespace) -> int:
    if options.completion:
        print(script(build_parser(), options.completion))
    elif options.values:
        print("\n".join(VALUES[options.values](options.words)))
    else:
        build_parser(options.words).parse([*options.words, "--help"])
    return EXIT_PASS
