# SPDX-License-Identifier: GPL-2.0-only
"""Completion scripts of shells: words from the parser, and values that the scripts ask ``blklab help --values`` for."""

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from os.path import relpath

import shtab

from harness.base.checkout import results_root
from harness.commands.parser import PROGRAM
from harness.limits.load import load_scenario
from harness.record.store import LATEST
from harness.scenario.load import shipped_names
from lab.base.cache import Cache
from lab.base.errors import BlklabError
from lab.kernels.debian import SERIES, cached_offers
from lab.topology.load import catalogue

SHELLS = ("bash", "zsh", "fish")


def _scenarios(_: Sequence[str]) -> Iterable[str]:
    return shipped_names()


def _topologies(_: Sequence[str]) -> Iterable[str]:
    return (topology.name for topology in catalogue())


def _kernels(_: Sequence[str]) -> Iterable[str]:
    cached = (offer.spec for offer in cached_offers(Cache.default()))
    return ["distro", "host", *(f"debian:{series}" for series in SERIES), *cached]


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
