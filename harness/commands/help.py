# SPDX-License-Identifier: GPL-2.0-only
"""``blklab help``: help, completion scripts, the man page and docs/commands.md, all from the same parser."""

import argparse
from collections.abc import Iterable, Iterator, Mapping

import shtab

from harness.commands import GROUPS
from harness.commands.common.parser import PROGRAM, TITLE, build_parser, version
from lab.base.errors import EXIT_PASS

EXIT_STATUS = (
    ("0", "pass"),
    ("1", "the kernel fails a claim; compare, explain --prove and check: see there"),
    ("125", "cannot judge: no kernel, a missing requirement, boots without a result"),
    ("128", "the lab is broken: QEMU, a host program, the cache, the disk"),
    ("129", "misuse: an unknown option, a mistake in a scenario file"),
    ("130", "interrupted (SIGINT); 143: terminated (SIGTERM)"),
)
ENVIRONMENT = (
    ("KERNEL", "kernel of commands that take --kernel"),
    ("KERNELS", "kernels of blklab matrix"),
    ("BLKLAB_RESULTS", "folder of the runs instead of results/ of the checkout"),
    ("BLKLAB_CACHE", "folder of the cache instead of ~/.cache/blklab"),
    ("BLKLAB_QEMU", "the QEMU program instead of qemu-system-x86_64 in PATH"),
    ("BLKLAB_JOBS", "boots at the same time instead of one per core"),
)
_TABLES = (("Exit status", EXIT_STATUS), ("Environment", ENVIRONMENT))

Row = tuple[str, str]


def markdown(parser: argparse.ArgumentParser) -> Iterator[str]:
    """The lines of docs/commands.md."""
    yield "<!-- SPDX-License-Identifier: GPL-2.0-only -->"
    yield from (f"<!-- Made by: {PROGRAM} help --markdown -->", "# Commands", "")
    yield f"{TITLE} `{PROGRAM} help COMMAND` prints the same on the terminal."
    for group, commands in _groups(parser):
        yield from ("", f"## {group.capitalize()}")
        for command in commands:
            yield from ("", f"### {command.prog}", "", command.description or "", "", f"    {_usage(command)}")
            if rows := list(_arguments(command)):
                yield from ("", "| argument | meaning |", "|---|---|")
                yield from (f"| `{name}` | {text} |" for name, text in rows)
            if command.epilog:
                yield from ("", command.epilog)
    for title, table in _TABLES:
        yield from ("", f"## {title}", "", "| | |", "|---|---|")
        yield from (f"| {name} | {text} |" for name, text in table)


def man_page(parser: argparse.ArgumentParser) -> Iterator[str]:
    """The lines of blklab(1) in the man macros."""
    yield f'.TH BLKLAB 1 "" "{PROGRAM} {version()}"'
    yield from (".SH NAME", _roff(f"{PROGRAM} - {TITLE.rstrip('.')}"))
    yield from (".SH SYNOPSIS", f".B {PROGRAM}", ".I COMMAND", r"\&...")
    for group, commands in _groups(parser):
        yield f".SH COMMANDS: {group.upper()}"
        for command in commands:
            yield from (f".SS {_roff(_usage(command))}", _roff(command.description or ""))
            yield from _tagged(_arguments(command))
            if command.epilog:
                yield from (".PP", _roff(command.epilog))
    for title, table in _TABLES:
        yield f".SH {title.upper()}"
        yield from _tagged(table)


def _tagged(rows: Iterable[Row]) -> Iterator[str]:
    for name, text in rows:
        yield from (".TP", f".B {_roff(name)}", _roff(text))


def _groups(parser: argparse.ArgumentParser) -> Iterator[tuple[str, list[argparse.ArgumentParser]]]:
    known = _words(parser)
    for group, words in GROUPS.items():
        yield group, [command for word in words for command in _leaves(known[word.name])]


def _words(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    """The parsers of the words that may follow."""
    found = (action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return next(found, {})


def _leaves(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The commands at the end of a chain of words."""
    words = _words(parser)
    if not words:
        yield parser
    for further in words.values():
        yield from _leaves(further)


def _usage(parser: argparse.ArgumentParser) -> str:
    positional = [_operand(action) for action in parser._actions if not action.option_strings]
    return " ".join((parser.prog, "[OPTION ...]", *positional))


def _arguments(parser: argparse.ArgumentParser) -> Iterator[Row]:
    formatter = parser._get_formatter()
    for action in parser._actions:
        if action.dest != "help":
            names = [f"{option} {_operand(action)}".rstrip() for option in action.option_strings]
            yield ", ".join(names) or _operand(action), formatter._expand_help(action)


def _operand(action: argparse.Action) -> str:
    """What a person types for an argument; nothing for a flag."""
    if action.nargs == 0:
        return ""
    name = str(action.metavar or "|".join(map(str, action.choices or ())) or action.dest.upper())
    forms = {"?": f"[{name}]", "*": f"[{name} ...]", "+": f"{name} ..."}
    return forms.get(str(action.nargs), name)


def _roff(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


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
        print("\n".join(man_page(build_parser())))
    elif options.markdown:
        print("\n".join(markdown(build_parser())))
    else:
        build_parser(options.words).parse([*options.words, "--help"])
    return EXIT_PASS
