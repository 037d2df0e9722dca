# SPDX-License-Identifier: GPL-2.0-only
"""The command line of a tool: parser, messages and exit codes are those of blklab."""

from collections.abc import Callable, Sequence
from functools import partial

from harness import cli
from harness.commands.parser import Command, Parser, option
from lab.base.errors import Misuse
from lab.kernels.resolve import demand
from lab.kernels.tree import base_spec

FURTHER = "debian:6.1 debian:7.2 debian:5.10 ubuntu:4.18"
"""Kernels for what the source leaves open."""


def source(spec: str) -> str:
    if not demand(spec).startswith(("source:", "tree:", "mutant:")):
        raise Misuse(f"--source {spec} is no source", remedy="source:6.12, tree:PATH or tree:PATH@REV")
    return spec


SOURCE = option(
    "--source",
    type=source,
    default=base_spec,
    metavar="SPEC",
    help="source to build: source:6.12 (default), tree:PATH or tree:PATH@REV",
)


def command(name: str) -> str:
    """What a maintainer types to run the tool ``name``."""
    return f"scripts/run --dev python -m tools.{name}"


def tool(name: str, described: str, options: Command) -> Callable[..., int]:
    """A main function: it takes the words of a command line, by default those of the process."""

    def build(_: Sequence[str]) -> Parser:
        parser = Parser(prog=f"python -m tools.{name}", description=described)
        parser.take(options)
        return parser

    return partial(cli.main, build=build)
