# SPDX-License-Identifier: GPL-2.0-only
"""``blklab list``, ``show`` and ``help``: what there is, how it is used, and what a shell may complete."""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from os.path import relpath
from pathlib import Path

import shtab

from harness.base.checkout import results_root
from harness.commands.options import ARMS, tell
from harness.commands.parser import PROGRAM, Command, build_parser, flag, operand, option
from harness.limits.entries import load_scenario
from harness.record.store import LATEST
from harness.report.terminal import console_of, plain_table, print_wide
from harness.report.terminal.scenario import describe_scenario, steps_of
from harness.report.topology import describe_topology
from harness.scenario.load import find_scenario, find_scenarios, shipped_names
from harness.scenario.registry import OF_ROLES
from lab.base.cache import Cache
from lab.base.errors import EXIT_MISUSE, EXIT_PASS, BlklabError, InputErrors, Misuse
from lab.kernels.debian import SERIES, Offer, cached_offers, offers
from lab.topology.load import CATALOGUE, catalogue, load_topology
from lab.yaml.strict import Map, Problems, nearest, parse, quoted, read_bytes

SHELLS = ("bash", "zsh", "fish")


def _scenarios(_: Sequence[str]) -> Iterable[str]:
    return shipped_names()


def _topologies(_: Sequence[str]) -> Iterable[str]:
    return (topology.name for topology in catalogue())


def _kernels(_: Sequence[str]) -> Iterator[str]:
    yield from ("distro", "host", *(f"debian:{series}" for series in SERIES))
    with suppress(BlklabError):
        yield from (offer.spec for offer in cached_offers(Cache.default()))


def _arms(words: Sequence[str]) -> Iterator[str]:
    """Those of the scenarios that the command line names."""
    known = set(_scenarios(()))
    for word in words:
        if word in known or word.endswith(".yaml"):
            with suppress(BlklabError):
                yield from load_scenario(word).arms


def _runs(_: Sequence[str]) -> Iterable[str]:
    return (relpath(path) for path in sorted(results_root(None).glob(f"*/{LATEST}")))


VALUES: Mapping[str, Callable[[Sequence[str]], Iterable[str]]] = {
    "scenarios": _scenarios,
    "topologies": _topologies,
    "shown": lambda words: [*_scenarios(words), *_topologies(words)],
    "kernels": _kernels,
    "arms": _arms,
    "figures": lambda _: OF_ROLES,
    "runs": _runs,
    "measured": lambda words: [*_runs(words), *_kernels(words)],
}
"""What a kind of value may be, with the words of the command line so far."""
_KIND_OF = {
    **dict.fromkeys(("scenario", "scenarios", "history"), "scenarios"),
    **dict.fromkeys(("kernel", "kernels", "base", "good", "bad"), "kernels"),
    **dict.fromkeys(("before", "after"), "measured"),
    "topology": "topologies",
    "name": "shown",
    "arms": "arms",
    "metrics": "figures",
    **dict.fromkeys(("run", "folder"), "runs"),
}
"""By the name under which argparse stores an option or operand."""
_ASK = f"{PROGRAM} help --values"
_LINE = {"bash": '"${COMP_WORDS[@]:1}"', "zsh": '"${words[@]:1}"', "fish": "(commandline -opc)[2..]"}
"""The words of the command line so far, without the program."""
_BASH = f"""\
_{PROGRAM}_KIND() {{
  compgen -W "$({_ASK} KIND -- {_LINE["bash"]} 2>/dev/null)" -- "$1" || compgen -f -- "$1"
}}"""
_PREAMBLES = {
    # A kernel's spec has a colon, at which bash would split it.
    "bash": "\n".join(("COMP_WORDBREAKS=${COMP_WORDBREAKS//:/}", *(_BASH.replace("KIND", kind) for kind in VALUES))),
    "zsh": f"_{PROGRAM}_values() {{ compadd -- $({_ASK} $1 -- {_LINE['zsh']} 2>/dev/null) || _files }}",
    "fish": "",
}


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    for action in _actions(parser):
        if kind := _KIND_OF.get(action.dest):
            action.complete = {  # type: ignore[attr-defined]
                "bash": f"_{PROGRAM}_{kind}",
                # The space: _arguments adds no words of its own.
                "zsh": f" _{PROGRAM}_values {kind}",
                "fish": f"({_ASK} {kind} -- {_LINE['fish']} 2>/dev/null)",
            }
    return shtab.complete(parser, shell, preamble=_PREAMBLES[shell])


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Those of all commands that take a value."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from _actions(below)
        elif action.nargs != 0:
            yield action


class ListNames(Command):
    topologies: bool = flag("list the topologies instead")
    kernels: bool = flag("list the kernels that Debian packages instead")
    one_of = ("topologies", "kernels")

    def __call__(self) -> int:
        titles, code = {}, EXIT_PASS
        if self.kernels:
            _print_kernels(offers(Cache.default(), tell))
        elif self.topologies:
            titles = {topology.name: topology.title for topology in catalogue()}
        else:
            for name in shipped_names():
                try:
                    titles[name] = load_scenario(name).title
                except InputErrors as error:
                    print(error, file=sys.stderr)
                    code = EXIT_MISUSE
        width = max(map(len, titles), default=0)
        for name, title in titles.items():
            print(f"{name:{width}}  {title}")
        return code


def _print_kernels(listed: Sequence[Offer]) -> None:
    table = plain_table("series", "version", "suite", "cached")
    for offer in listed:
        table.add_row(offer.series, offer.version, offer.suite, "yes" if offer.cached else "no")
    print_wide(console_of(), table)


class Show(Command):
    name: str = operand(metavar="NAME", help="a scenario, a topology, or the path of either file")
    arms: Sequence[str] = ARMS
    steps: bool = flag("also print the steps of the guest and the fio jobs")
    topology: bool = flag("the topology, when a scenario has the same name")

    def __call__(self) -> int:
        if self.topology or _is_topology(self.name):
            if self.arms or self.steps:
                raise Misuse(f"{self.name} is a topology and has no arms", remedy="omit --arm and --steps")
            print(describe_topology(load_topology(self.name, near=Path())))
            return EXIT_PASS
        scenario = load_scenario(self.name)
        print(describe_scenario(scenario, self.arms))
        if self.steps:
            print(steps_of(scenario, self.arms))
        return EXIT_PASS


def _is_topology(name: str) -> bool:
    """Whether a name or a file is a topology: scenarios come first. Raises Misuse for a name of neither."""
    try:
        path = find_scenario(name)
    except Misuse:
        known = [*find_scenarios(), *(path.stem for path in CATALOGUE.glob("*.yaml"))]
        if name in known:
            return True
        raise Misuse(
            f"no scenario and no topology {quoted(name)}{nearest(name, known)}",
            remedy="blklab list and blklab list --topologies show the names; a path has a / or ends in .yaml",
        ) from None
    node = parse(read_bytes(path, "scenario or topology"), str(path), Problems())
    return isinstance(node, Map) and "scenario" not in node.entries and "disks" in node.entries


class Help(Command):
    words: Sequence[str] = operand(nargs="*", metavar="COMMAND", help="the command, such as run or check selftest")
    completion: str | None = option(choices=SHELLS, help="print the completion script of a shell")
    values: str | None = option(choices=VALUES, help="print what may complete a word, for those scripts")
    epilog = (
        'Completion: eval "$(blklab help --completion bash)", or zsh; for fish: blklab help --completion fish | source'
    )

    def __call__(self) -> int:
        if self.completion:
            print(script(build_parser(), self.completion))
        elif self.values:
            print("\n".join(VALUES[self.values](self.words)))
        else:
            build_parser(self.words).parse([*self.words, "--help"])
        return EXIT_PASS


COMMANDS: dict[str, type[Command]] = {"list": ListNames, "show": Show, "help": Help}
