# SPDX-License-Identifier: GPL-2.0-only
"""The command line of a tool: parser, messages and exit codes are those of blklab."""

import argparse
from collections.abc import Callable, Sequence

from harness import cli
from harness.commands.common.options import kernel_spec
from harness.commands.common.parser import Parser
from lab.kernels.packaged import base_spec

FURTHER = "debian:6.1 debian:7.2 debian:5.10 ubuntu:4.18"
"""Kernels for what the source leaves open."""


def command(name: str) -> str:
    """What a maintainer types to run the tool ``name``."""
    return f"scripts/run --dev python -m tools.{name}"


def run_tool(
    name: str,
    described: str,
    configure: Callable[[argparse.ArgumentParser], None],
    execute: Callable[[argparse.Namespace], int],
    arguments: Sequence[str] | None = None,
) -> int:
    """Parse the command line and execute it; the exit status is as of blklab."""

    def build(_: Sequence[str]) -> Parser:
        parser = Parser(prog=f"python -m tools.{name}", description=described)
        parser.set_defaults(execute=execute)
        configure(parser)
        return parser

    return cli.main(arguments, build)


def add_source(parser: argparse.ArgumentParser) -> None:
    text = "source to build: source:6.12 (default), tree:PATH or tree:PATH@REV"
    parser.add_argument("--source", type=kernel_spec, default=base_spec(), metavar="SPEC", help=text)
