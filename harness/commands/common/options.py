# SPDX-License-Identifier: GPL-2.0-only
"""Options and small services that several commands share."""

import argparse
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.base.files import write_atomic
from harness.scenario.registry import GUEST, OF_ROLES, ROLE, figure_of
from lab.base.errors import Misuse
from lab.base.units import parse_size, printable
from lab.kernels.resolve import demand
from lab.yaml.strict import nearest

MOST_SEEDS = 64


def write_page(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, text.encode())


def print_or_write(text: str, output: Path | None, *notes: str) -> None:
    """Print a document, or write it to a file and tell the notes."""
    if output is None:
        sys.stdout.write(text)
        return
    write_atomic(output, text.encode())
    for note in notes:
        tell(note)


def tell(text: str) -> None:
    """Print a line of progress on stderr; results go to stdout."""
    print(f"blklab: {printable(text)}", file=sys.stderr, flush=True)


def number(least: int, most: int | None = None) -> Callable[[str], int]:
    """An argparse type: an integer within bounds."""
    bounds = f"{least} or more" if most is None else f"from {least} to {most}"

    def parse(text: str) -> int:
        value = int(text) if re.fullmatch("-?[0-9]{1,18}", text) else None
        if value is None or value < least or (most is not None and value > most):
            raise argparse.ArgumentTypeError(f"expected an integer, {bounds}, got {text!r}")
        return value

    return parse


def kept_bytes(size: str | None) -> int | None:
    """``--keep SIZE`` in bytes; None without it. Raises Misuse."""
    try:
        return None if size is None else parse_size(size)
    except ValueError as error:
        raise Misuse(f"--keep: {error}", remedy="write it as 500M or 2G") from error


def mib(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB"


def words_of(options: argparse.Namespace, *names: str, **defaults: object) -> list[str]:
    """The words of the command line for these options, without those that have their ``defaults`` or are not given."""
    words: list[str] = []
    for name in names:
        value, flag = getattr(options, name), f"--{name}"
        if value == defaults.get(name):
            continue
        for item in value if isinstance(value, list) else [value]:
            words += [flag] if item is True else [] if item is False else [flag, str(item)]
    return words


def kernel_spec(text: str) -> str:
    """An argparse type: a kernel that there may be. Nothing is fetched before all of them were looked at."""
    return demand(text)


def kernel_default() -> str:
    return os.environ.get("KERNEL") or "distro"


def _option(name: str, **settings: Any) -> Callable[..., None]:
    """A function that adds this option or operand to a parser; a command may give it further names and settings."""

    def add(parser: argparse.ArgumentParser, *also: str, **more: Any) -> None:
        parser.add_argument(name, *also, **settings | more)

    return add


add_scenario = _option("scenario", help="a name from blklab list, or the path of a scenario file")
add_topology = _option("topology", help="a name from blklab list --topologies, or the path of a topology file")
add_run = _option("run", type=Path, help="a run folder, such as results/shared-queue/latest")
add_results = _option("--results", metavar="DIR", help="folder of the runs (default: results/ of the checkout)")
add_arms = _option("--arm", action="append", default=[], metavar="NAME", help="only this arm (may be repeated)")
add_jobs = _option(
    "--jobs", type=number(1), default=0, metavar="N", help="boots at the same time (default: one per core)"
)
add_seeds = _option(
    "--seeds",
    type=number(1, MOST_SEEDS),
    metavar="N",
    help="boots of each arm (wall clock: the maximum) instead of the scenario's number",
)
add_dask = _option("--dask", metavar="ADDRESS", help="boot on the Dask cluster of this scheduler (tcp://host:8786)")
add_metrics = _option(
    "--metric", action="append", metavar="NAME", help="figures such as iops, lat.p99, cpu.per_io (may be repeated)"
)
"""Read it with ``metrics_of``."""
add_each_kernel = _option(
    "--kernel",
    action="append",
    type=kernel_spec,
    metavar="SPEC",
    help="as in blklab run; may be repeated (default: $KERNEL or distro)",
)
"""Read it with ``kernels_of``."""


def add_kernel(parser: argparse.ArgumentParser) -> None:
    forms = "debian:6.1, an exact debian:VERSION, debian:SUITE, distro, path:DIR or host"
    text = f"{forms} (default: distro)"
    parser.add_argument("--kernel", type=kernel_spec, default=kernel_default(), metavar="SPEC", help=text)


def metrics_of(options: argparse.Namespace, default: tuple[str, ...]) -> tuple[str, ...]:
    """The figures that were named. Raises Misuse for one that does not exist."""
    for metric in options.metric or ():
        if not {ROLE, GUEST} & {*figure_of(GUEST, metric).held_by}:
            raise Misuse(f"no figure is called {metric}{nearest(metric, OF_ROLES)}", remedy="iops, lat.p99, cpu.per_io")
    return tuple(options.metric or default)


def kernels_of(options: argparse.Namespace) -> list[str]:
    return options.kernel or [kernel_default()]
