# SPDX-License-Identifier: GPL-2.0-only
"""``blklab list``, ``blklab show`` and ``blklab help``: what there is, and how it is used."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.commands.completion import SHELLS, VALUES, script
from harness.commands.options import ARMS, tell
from harness.commands.parser import Command, OneOf, build_parser, flag, option
from harness.limits.load import load_scenario
from harness.report.terminal.scenario import describe_scenario, steps_of
from harness.report.topology import describe_topology
from harness.scenario.load import find_scenario, find_scenarios, shipped_names
from lab.base.cache import Cache
from lab.base.errors import EXIT_MISUSE, EXIT_PASS, InputErrors, Misuse
from lab.kernels.debian import Offer, offers
from lab.topology.load import CATALOGUE, catalogue, load_topology
from lab.yaml.strict import Map, Problems, nearest, parse, quoted, read_bytes


def _list(*, topologies: bool, kernels: bool) -> int:
    titles, code = {}, EXIT_PASS
    if kernels:
        print(_kernel_table(offers(Cache.default(), tell)), end="")
    elif topologies:
        titles = {topology.name: topology.title for topology in catalogue()}
    else:
        for name in shipped_names():
            try:
                titles[name] = load_scenario(name).title
            except InputErrors as error:
                print(error, file=sys.stderr)
                code = EXIT_MISUSE
    _print_titles(titles)
    return code


def _kernel_table(listed: Sequence[Offer]) -> str:
    """A line for each version."""
    heads = ("series", "version", "suite", "cached")
    rows = [(offer.series, offer.version, offer.suite, "yes" if offer.cached else "no") for offer in listed]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    lines = ("  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)) for row in (heads, *rows))
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _print_titles(titles: Mapping[str, str]) -> None:
    width = max(map(len, titles), default=0)
    for name, title in titles.items():
        print(f"{name:{width}}  {title}")


def _show(*, name: str, arms: Sequence[str], steps: bool, topology: bool) -> int:
    if topology or _is_topology(name):
        if arms or steps:
            raise Misuse(f"{name} is a topology and has no arms", remedy="omit --arm and --steps")
        print(describe_topology(load_topology(name, near=Path())))
        return EXIT_PASS
    scenario = load_scenario(name)
    print(describe_scenario(scenario, tuple(arms)))
    if steps:
        print(steps_of(scenario, tuple(arms)))
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


def _help(*, words: Sequence[str], completion: str | None, values: str | None) -> int:
    if completion:
        print(script(build_parser(), completion))
    elif values:
        print("\n".join(VALUES[values](words)))
    else:
        build_parser(words).parse([*words, "--help"])
    return EXIT_PASS


COMMANDS = {
    "list": Command(
        _list,
        (
            OneOf(
                (
                    flag("--topologies", "list the topologies instead"),
                    flag("--kernels", "list the kernels that Debian packages instead"),
                )
            ),
        ),
    ),
    "show": Command(
        _show,
        (
            option("name", metavar="NAME", help="a scenario, a topology, or the path of either file"),
            ARMS,
            flag("--steps", "also print the steps of the guest and the fio jobs"),
            flag("--topology", "the topology, when a scenario has the same name"),
        ),
    ),
    "help": Command(
        _help,
        (
            option("words", nargs="*", metavar="COMMAND", help="the command, such as run or check selftest"),
            option("--completion", choices=SHELLS, help="print the completion script of a shell"),
            option("--values", choices=VALUES, help="print what may complete a word, for those scripts"),
        ),
        'Completion: eval "$(blklab help --completion bash)", or zsh; for fish: blklab help --completion fish | source',
    ),
}
