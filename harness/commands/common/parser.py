# SPDX-License-Identifier: GPL-2.0-only
"""The command line, made from the table of commands."""

import argparse
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from harness import commands
from harness.commands import CommandWord
from lab.base.errors import Misuse
from lab.yaml.strict import names, nearest, quoted

PROGRAM = "blklab"
TITLE = "Linux block-layer performance tests whose figures repeat exactly."
ENVIRONMENT = (
    ("KERNEL", "kernel of commands that take --kernel"),
    ("KERNELS", "kernels of blklab matrix"),
    ("BLKLAB_RESULTS", "folder of the runs instead of results/ of the checkout"),
    ("BLKLAB_CACHE", "folder of the cache instead of ~/.cache/blklab"),
    ("BLKLAB_QEMU", "a QEMU other than the lab's own: a program, or host"),
    ("BLKLAB_TOOLS", "host: the host's gcc and depmod"),
    ("BLKLAB_JOBS", "boots at the same time instead of one per core"),
)
_WIDTH = 11
_OUTPUTS = ("csv", "junit", "kcidb", "ktap", "out", "output")
RUN_FILE, REPORT_FILE = "run.json", "report.html"
"""Of a run's folder; importing harness.record for the first takes longer than parsing."""


class Parser(argparse.ArgumentParser):
    """Raises Misuse, with the nearest known word, instead of exiting with 2: git bisect reads 2 as a bad commit."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.set_defaults(parser=self)

    def error(self, message: str) -> NoReturn:
        raise Misuse(message, remedy=f"{self.prog} --help")

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """The options of a command line. Raises Misuse."""
        options, unknown = self.parse_known_args(arguments)
        if unknown:
            parser: Parser = options.parser
            flag = next((word.partition("=")[0] for word in unknown if word.startswith("-")), "")
            known = [option for action in parser._actions for option in action.option_strings]
            raise Misuse(
                f"unrecognized arguments: {' '.join(unknown)}{nearest(flag, known) if flag else ''}",
                remedy=f"{parser.prog} --help",
            )
        _check_outputs(vars(options))
        return options

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is not None and value not in action.choices:
            known = list(map(str, action.choices))
            raise Misuse(
                f"{action.metavar or action.dest}: no {quoted(str(value))} here{nearest(str(value), known)}",
                remedy=f"{names(known)}; see {self.prog} --help",
            )


def _check_outputs(options: Mapping[str, Any]) -> None:
    """Raises Misuse where an option would overwrite an input, a file of a run, or what another option writes."""
    named = [(name, value) for name, many in options.items() for value in (many if isinstance(many, list) else [many])]
    paths = [(name, Path(value)) for name, value in named if isinstance(value, str | Path) and value not in ("", "-")]
    taken = {_place(path): path for name, path in paths if name not in _OUTPUTS and _is_file(path)}
    for name, path in paths:
        if name not in _OUTPUTS:
            continue
        place = _place(path)
        if place in taken:
            raise Misuse(f"--{name} {path} would overwrite {taken[place]}", remedy="name another file")
        run = next((folder for folder in place.parents if (folder / RUN_FILE).is_file()), None)
        if run is not None and _is_file(place) and place.name != REPORT_FILE:
            raise Misuse(f"--{name} {path} would overwrite a file of the run {run}", remedy="name a file elsewhere")
        taken[place] = path


def _place(path: Path) -> Path:
    """As Path.resolve(), which raises RuntimeError for a loop of symlinks."""
    return Path(os.path.realpath(path))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        # The argument is a long text, not a path.
        return False


class _Main(Parser):
    """The whole command line: its help lists the commands in groups."""

    def format_help(self) -> str:
        lines = [f"usage: {PROGRAM} [--help | --version] COMMAND ...", "", TITLE]
        for group, words in commands.GROUPS.items():
            lines += ["", group, *(f"  {word.name:{_WIDTH}} {word.help}" for word in words)]
        lines += ["", "environment", *(f"  {name:15} {text}" for name, text in ENVIRONMENT)]
        lines += [
            "",
            f"{PROGRAM} help COMMAND shows the options of a command.",
            "Exit status: 0 pass, 1 fail, 125 cannot judge, 128 and above: the lab is broken",
            "or misused.",
        ]
        return "\n".join((*lines, ""))


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        print(PROGRAM, version())
        parser.exit()


def version() -> str:
    """The version in pyproject.toml: blklab runs from its checkout."""
    text = (Path(__file__).parents[3] / "pyproject.toml").read_text()
    return text.partition('\nversion = "')[2].partition('"')[0]


def build_parser(wanted: Sequence[str] | None = None) -> Parser:
    """The parser of a command line; only the modules of commands named in ``wanted`` are imported (None: all)."""
    parser = _Main(prog=PROGRAM, description=TITLE)
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    groups = (word for words in commands.GROUPS.values() for word in words)
    _add_words(parser, (*groups, commands.HELP), wanted)
    return parser


def _add_words(parser: argparse.ArgumentParser, words: Iterable[CommandWord], wanted: Sequence[str] | None) -> None:
    rows = parser.add_subparsers(dest="word", metavar="COMMAND", required=True, parser_class=Parser)
    for word in words:
        described = rows.add_parser(word.name, help=word.help, description=f"{word.help[0].upper()}{word.help[1:]}.")
        if word.words:
            _add_words(described, word.words, wanted)
        elif wanted is None or word.name in wanted:
            command = word.load()
            command.configure(described)
            described.set_defaults(execute=command.execute)
