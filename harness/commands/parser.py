# SPDX-License-Identifier: GPL-2.0-only
"""The command line, made from the table of commands and the options of each."""

import argparse
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, NoReturn, Self, dataclass_transform
from zlib import crc32

from harness import commands
from harness.commands import CommandWord
from lab.base.errors import Misuse
from lab.base.reading import read_regular, real
from lab.yaml.strict import names, nearest, quoted

PROGRAM = "blklab"
TITLE = "Linux block-layer performance tests whose figures repeat exactly."
_JOBS = "BLKLAB_JOBS"
ENVIRONMENT = (
    ("KERNEL", "kernel of commands that take --kernel"),
    ("KERNELS", "kernels of blklab matrix"),
    ("BLKLAB_RESULTS", "folder of the runs instead of results/ of the checkout"),
    ("BLKLAB_CACHE", "folder of the cache instead of ~/.cache/blklab"),
    ("BLKLAB_QEMU", "a QEMU other than the lab's own: a program, or host"),
    ("BLKLAB_TOOLS", "host: the host's gcc and depmod"),
    (_JOBS, "boots, and compilers, at the same time instead of one per core"),
    ("BLKLAB_NICE", "niceness of a kernel's build instead of that of blklab"),
    ("BLKLAB_CONFIG", "a .config for kernels that are built, instead of the lab's"),
)
_SETTINGS = {"nice": "BLKLAB_NICE", "config": "BLKLAB_CONFIG"}
"""Options that stand for a variable of the environment."""
_KERNELS = ("kernel", "base", "good", "bad")
_READY = re.compile(r"(debian|ubuntu|mainline|path):|distro$|host$")
"""Begins the specs of kernels that are not built here."""
_WIDTH = 11
_OUTPUTS = ("csv", "junit", "kcidb", "ktap", "mail", "out", "output")
_FORCED = "force"
_HEAD, _LARGEST = 4096, 64 << 20
_OWN = re.compile(
    rb'<meta name="generator" content="blklab">|<testsuites name="blklab"|^<!-- Generated (from results )?by: '
    rb"|\Ascenario,run,kernel,arm,load,role,metric,seed,value,unit$|\AKTAP version 1\n1\.\.1\n# blklab$"
    rb'|"origin": "blklab"',
    re.MULTILINE,
)
"""At the top of pages and exports."""
_SIGNATURE = "# written by blklab, and not edited if this is its checksum: "
RUN_FILE, REPORT_FILE = "run.json", "report.html"
"""Of a run's folder; importing harness.record for the first takes longer than parsing."""


@dataclass(frozen=True)
class Argument:
    """An option or an operand, as ``ArgumentParser.add_argument`` takes it; a default may be a function.

    An operand, and an option without ``names``, has the name of its field: ``fail_fast`` is --fail-fast.
    """

    names: tuple[str, ...]
    settings: Mapping[str, Any]
    is_operand: bool = False

    def but(self, *names: str, **settings: Any) -> Any:
        """The same with other settings, and with these names where some are given."""
        return replace(self, names=names or self.names, settings={**self.settings, **settings})

    def add_to(self, parser: argparse._ActionsContainer, field: str) -> None:
        default = self.settings.get("default")
        given = {"default": default()} if callable(default) else {}
        if self.is_operand:
            parser.add_argument(field, **{**self.settings, **given})
        else:
            names = self.names or (f"--{field.replace('_', '-')}",)
            parser.add_argument(*names, dest=field, **{**self.settings, **given})


def option(*names: str, **settings: Any) -> Any:
    """An option with a value: the default of a field of ``Options``, whatever the type of that field."""
    return Argument(names, settings)


def flag(text: str, *names: str) -> Any:
    """An option without a value."""
    return option(*names, action="store_true", help=text)


def operand(**settings: Any) -> Any:
    return Argument((), settings, is_operand=True)


def all_of(options: "type[Options]") -> Any:
    """The options of another class; the value of the field is one of its instances."""
    return options


_FORCE = flag("replace what blklab did not write, or what was edited since")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(option, flag, operand, all_of))
class Options:
    """Options and operands: a frozen dataclass whose fields have an ``Argument`` as their default.

    ``one_of`` names fields that exclude each other; one of them must be given if ``required``.
    """

    one_of: ClassVar[Sequence[str]] = ()
    required: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, kw_only=True)(cls)

    @classmethod
    def add_to(cls, parser: argparse.ArgumentParser) -> None:
        group = parser.add_mutually_exclusive_group(required=cls.required) if cls.one_of else parser
        for name, default in _defaults(cls):
            if isinstance(default, Argument):
                default.add_to(group if name in cls.one_of else parser, name)
            else:
                default.add_to(parser)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """From the value of each option and operand by its name."""
        own = {
            name: values[name] if isinstance(default, Argument) else default.of(values)
            for name, default in _defaults(cls)
        }
        return cls(**own)


def _defaults(options: type[Options]) -> list[tuple[str, Any]]:
    """Each field with its argument, or with the class that its value is made of."""
    return [(each.name, each.default) for each in fields(options)]  # type: ignore[arg-type]


class Command(Options):
    """A command: its options and operands in their order. A call does it and returns the exit status.

    ``needs`` names, for an option, those of which one must be given too; ``alone``, those that it does not go with.
    """

    epilog: ClassVar[str] = ""
    needs: ClassVar[Mapping[str, Sequence[str]]] = {}
    alone: ClassVar[Mapping[str, Sequence[str]]] = {}

    def __call__(self) -> int:
        raise NotImplementedError

    def execute(self) -> int:
        """What a call returns, with the options of ``_SETTINGS`` in the environment."""
        given = {variable: getattr(self, name, None) for name, variable in _SETTINGS.items()}
        given[_JOBS] = getattr(self, "jobs", 0) or None
        settings = {variable: str(value) for variable, value in given.items() if value is not None}
        before = {name: os.environ.get(name) for name in settings}
        os.environ.update(settings)
        try:
            return self()
        finally:
            for name, text in before.items():
                if text is None:
                    del os.environ[name]
                else:
                    os.environ[name] = text


class _Once(argparse._StoreAction):
    """An option that takes one value refuses a second one; ``named`` has the options and operands that were given."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option_string: Any = None
    ) -> None:
        named = namespace.__dict__.setdefault("named", set())
        if option_string and self.dest in named:
            raise argparse.ArgumentError(self, "given more than once; leave out all but one")
        if option_string or values not in (None, [], self.default):
            named.add(self.dest)
        super().__call__(parser, namespace, values, option_string)


class Parser(argparse.ArgumentParser):
    """Raises Misuse, with the nearest known word, instead of exiting with 2: git bisect reads 2 as a bad commit."""

    command: type[Command]

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name in (None, "store"):
            self.register("action", name, _Once)
        self.set_defaults(parser=self)

    def take(self, command: type[Command]) -> None:
        self.command, self.epilog = command, command.epilog
        command.add_to(self)
        if any(self._has(name) for name in _OUTPUTS):
            _FORCE.add_to(self, _FORCED)

    def error(self, message: str) -> NoReturn:
        raise Misuse(message, remedy=f"{self.prog} --help")

    def parse(self, arguments: Sequence[str]) -> Command:
        """The command with the values of its options. Raises Misuse."""
        namespace, unknown = self.parse_known_args(arguments)
        parser: Parser = namespace.parser
        if unknown:
            word = next((word.partition("=")[0] for word in unknown if word.startswith("-")), "")
            known = [option for action in parser._actions for option in action.option_strings]
            raise Misuse(
                f"unrecognized arguments: {' '.join(unknown)}{nearest(word, known) if word else ''}",
                remedy=f"{parser.prog} --help",
            )
        values = {name: value for name, value in vars(namespace).items() if parser._has(name)}
        parser._check_together(values, getattr(namespace, "named", set()))
        parser._check_outputs(values, force=values.pop(_FORCED, False))
        return parser.command.of(values)

    def _has(self, name: str) -> bool:
        return any(action.dest == name for action in self._actions)

    def _get_value(self, action: argparse.Action, text: str) -> Any:
        """An empty value is mostly an unset variable of a shell, which must not select a default."""
        # A shell completes the empty word, too; the words of a command are looked at by its own parser.
        if not text.strip() and text not in (action.default, action.const) and action.dest not in ("word", "words"):
            raise argparse.ArgumentError(action, "expected a value, got an empty one; leave it out for its default")
        return super()._get_value(action, text)

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is not None and value not in action.choices:
            known = list(map(str, action.choices))
            raise Misuse(
                f"{action.metavar or action.dest}: no {quoted(str(value))} here{nearest(str(value), known)}",
                remedy=f"{names(known)}; see {self.prog} --help",
            )

    def _check_together(self, values: Mapping[str, Any], named: set[str]) -> None:
        """Raises Misuse for an option without one that it needs, or with one that it does not go with."""

        def is_given(name: str) -> bool:
            value = values[name]
            return name in named or value is True or (isinstance(value, list) and bool(value))

        def shown(name: str) -> str:
            action = next(action for action in self._actions if action.dest == name)
            return action.option_strings[0] if action.option_strings else str(action.metavar or name)

        for name, others in self.command.needs.items():
            if is_given(name) and not any(map(is_given, others)):
                wanted = " or ".join(map(shown, others))
                raise Misuse(f"{shown(name)} needs {wanted}", remedy=f"add {wanted}, or omit {shown(name)}")
        for name, others in self.command.alone.items():
            if is_given(name) and (other := next(filter(is_given, others), "")):
                raise Misuse(f"{shown(name)} does not go with {shown(other)}", remedy="omit one of them")
        specs = [values[name] for name in _KERNELS if values.get(name)] if "series" not in values else []
        if values.get("config") and specs and all(map(_READY.match, specs)):
            said = f"--config: nothing is built for {names(dict.fromkeys(specs))}"
            raise Misuse(said, remedy="--kernel source:6.12 or a tree, or omit --config")

    def _check_outputs(self, values: Mapping[str, Any], *, force: bool) -> None:
        """Raises Misuse where an option would overwrite an input, a file of a run, what another option writes or,
        without ``force``, what blklab did not write, or where it cannot write."""
        listed = [(name, value) for name, many in values.items() for value in (many if type(many) is list else [many])]
        texts = [(name, value) for name, value in listed if isinstance(value, str | Path) and value not in ("", "-")]
        paths = [(name, Path(value)) for name, value in texts]
        taken = {real(path): path for name, path in paths if name not in _OUTPUTS and _is_file(path)}
        for name, path in paths:
            if name not in _OUTPUTS:
                continue
            target = real(path)
            is_folder = any(action.dest == name and action.metavar == "DIR" for action in self._actions)
            # The folder of a page is made.
            existing = next(folder for folder in path.absolute().parents if folder.exists())
            if reason := _unwritable(path, existing if name == "out" else path.parent, is_folder):
                raise Misuse(f"--{name} {path}: {reason}", remedy="name a file in a folder that can be written")
            if target in taken:
                raise Misuse(f"--{name} {path} would overwrite {taken[target]}", remedy="name another file")
            run = next((folder for folder in target.parents if (folder / RUN_FILE).is_file()), None)
            if run is not None and _is_file(target) and target.name != REPORT_FILE:
                raise Misuse(f"--{name} {path} would overwrite a file of the run {run}", remedy="name a file elsewhere")
            if not force and path != self.get_default(name):
                demand_own(path, f"--{name} {path}", "name another, or replace it with --force")
            taken[target] = path


def demand_own(path: Path, shown: str, remedy: str) -> None:
    """Raise Misuse where writing to ``path``, a file or a folder, would replace what blklab did not write."""
    entries = sorted(path.iterdir()) if path.is_dir() else [path] if path.is_file() else []
    if entries and not any(map(_is_own, entries)):
        raise Misuse(f"{shown}: blklab did not write what is there, or it was edited", remedy=remedy)


def _is_own(path: Path) -> bool:
    """Whether blklab wrote this page, export or unedited document, or it is empty. A mail is never known again."""
    try:
        text = read_regular(path, _LARGEST)
    except OSError:
        return False
    document = text.decode(errors="replace").rpartition(_SIGNATURE)[0]
    return text in (b"", signed(document).encode()) or _OWN.search(text[:_HEAD]) is not None


def signed(text: str) -> str:
    """A document in YAML that is known again until it is edited."""
    return f"{text}{_SIGNATURE}{crc32(text.encode()):08x}\n"


def _unwritable(path: Path, parent: Path, is_folder: bool) -> str:
    """Why no file, or no folder, can be written there; empty where one can."""
    if is_folder:
        return "this is no folder" if path.exists() and not path.is_dir() else ""
    if path.is_dir():
        return "this is a folder"
    if not parent.is_dir():
        return f"{parent} is not a folder"
    return "" if os.access(path if path.exists() else parent, os.W_OK) else "it cannot be written"


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
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    return text.partition('\nversion = "')[2].partition('"')[0]


def build_parser(wanted: Sequence[str] | None = None) -> Parser:
    """The parser of a command line; only the modules of commands named in ``wanted`` are imported (None: all)."""
    parser = _Main(prog=PROGRAM, description=TITLE)
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    groups = (word for words in commands.GROUPS.values() for word in words)
    _add_words(parser, (*groups, commands.HELP), wanted)
    return parser


def _add_words(
    parser: argparse.ArgumentParser, words: Iterable[CommandWord], wanted: Sequence[str] | None, before: str = ""
) -> None:
    rows = parser.add_subparsers(dest="word", metavar="COMMAND", required=True, parser_class=Parser)
    for word in words:
        described = rows.add_parser(word.name, help=word.help, description=f"{word.help[0].upper()}{word.help[1:]}.")
        if word.words:
            _add_words(described, word.words, wanted, f"{before}{word.name} ")
        elif wanted is None or word.name in wanted:
            described.take(commands.load(before + word.name))
