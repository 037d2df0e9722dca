# SPDX-License-Identifier: GPL-2.0-only
"""``blklab help``: help, completion scripts, the man page and docs/commands.md, all from the same parser."""

import argparse

import shtab

from harness.commands.parser import build_parser
from harness.commands.reference import man_page, markdown
from lab.base.errors import EXIT_PASS

_SHELLS = ("bash", "zsh", "fish")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="COMMAND", help="the command, such as run or check selftest")
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument("--completion", choices=_SHELLS, help="print the completion script of a shell")
    forms.add_argument("--man", action="store_true", help="print the man page (blklab help --man | man -l -)")
    forms.add_argument("--markdown", action="store_true", help="print docs/commands.md")
    parser.epilog = (
        "Completion: source <(blklab help --completion bash); for fish: blklab help --completion fish | source"
    )


def execute(options: argparse.Namespace) -> int:
    if options.completion:
        print(shtab.complete(build_parser(), options.completion))
    elif options.man:
        print(man_page(build_parser()), end="")
    elif options.markdown:
        print(markdown(build_parser()), end="")
    else:
        build_parser(options.words).parse([*options.words, "--help"])
    return EXIT_PASS
