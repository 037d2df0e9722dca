# SPDX-License-Identifier: GPL-2.0-only
"""``blklab show``: what a scenario builds, or what a topology is and allows."""

import argparse
from pathlib import Path

from harness.base.files import write_atomic
from harness.commands.command import SCENARIOS
from harness.limits.load import load_scenario
from harness.report.drawing.svg import topology_svg
from harness.report.terminal.explain import describe_scenario
from harness.report.terminal.topology import describe_topology
from harness.scenario.load import find_scenario, find_scenarios
from lab.base.errors import EXIT_PASS, Misuse
from lab.topology.load import CATALOGUE, load_topology
from lab.yaml.strict import Map, Problems, nearest, parse, quoted, read_bytes

NAME = "show"
HELP = "a scenario in words and in exact modprobe, configfs and fio lines, or a topology, drawn and with its bounds"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="a scenario or a topology of the catalogue, or the path of either's file")
    parser.add_argument("--arm", action="append", default=[], metavar="NAME", help="only this arm (may be repeated)")
    parser.add_argument("--topology", action="store_true", help="the topology, where a scenario has the same name")
    parser.add_argument("--svg", metavar="FILE", type=Path, help="draw the topology into this file as well")


def execute(options: argparse.Namespace) -> int:
    if options.topology or _is_topology(options.name):
        return _show_topology(options)
    if options.svg:
        raise Misuse(f"{options.name} is a scenario, and --svg draws topologies", remedy="name its topology")
    scenario = load_scenario(options.name, search=SCENARIOS)
    print(describe_scenario(scenario, tuple(options.arm)))
    return EXIT_PASS


def _show_topology(options: argparse.Namespace) -> int:
    if options.arm:
        raise Misuse(f"{options.name} is a topology and has no arms", remedy="leave out --arm")
    topology = load_topology(options.name, near=Path())
    if options.svg:
        write_atomic(options.svg, topology_svg(topology).encode())
    print(describe_topology(topology))
    return EXIT_PASS


def _is_topology(name: str) -> bool:
    """Scenarios come first; of a file its keys tell. Raises Misuse for a name of neither."""
    try:
        path = find_scenario(name, search=SCENARIOS)
    except Misuse:
        known = [*find_scenarios(SCENARIOS), *(path.stem for path in CATALOGUE.glob("*.yaml"))]
        if name in known:
            return True
        raise Misuse(
            f"no scenario and no topology {quoted(name)}{nearest(name, known)}",
            remedy="blklab list and blklab list --topologies name them all; or give a path with a / or .yaml in it",
        ) from None
    node = parse(read_bytes(path, "scenario or topology"), str(path), Problems())
    return isinstance(node, Map) and "scenario" not in node.entries and "disks" in node.entries
