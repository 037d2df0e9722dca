# SPDX-License-Identifier: GPL-2.0-only
"""``blklab show``: what a scenario builds and claims, or what a topology is and allows."""

import argparse
from pathlib import Path

from harness.commands.common.options import add_arms
from harness.limits.load import load_scenario
from harness.report.terminal.scenario import describe_scenario, steps_of
from harness.report.topology import describe_topology
from harness.scenario.load import find_scenario, find_scenarios
from lab.base.errors import EXIT_PASS, Misuse
from lab.topology.load import CATALOGUE, load_topology
from lab.yaml.strict import Map, Problems, nearest, parse, quoted, read_bytes


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="a scenario, a topology, or the path of either file")
    add_arms(parser)
    parser.add_argument("--steps", action="store_true", help="also print the steps of the guest and the fio jobs")
    parser.add_argument("--topology", action="store_true", help="the topology, when a scenario has the same name")


def execute(options: argparse.Namespace) -> int:
    if options.topology or _is_topology(options.name):
        return _show_topology(options)
    scenario = load_scenario(options.name)
    print(describe_scenario(scenario, tuple(options.arm)))
    if options.steps:
        print(steps_of(scenario, tuple(options.arm)))
    return EXIT_PASS


def _show_topology(options: argparse.Namespace) -> int:
    if options.arm or options.steps:
        raise Misuse(f"{options.name} is a topology and has no arms", remedy="omit --arm and --steps")
    topology = load_topology(options.name, near=Path())
    print(describe_topology(topology))
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
