# SPDX-License-Identifier: GPL-2.0-only
"""Options that several commands have, and what their values mean."""

import argparse
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from harness.base.checkout import of_results
from harness.base.files import write_atomic
from harness.commands.parser import flag, operand, option
from harness.scenario.ratio import ALL_FIGURES
from harness.scenario.registry import GUEST, OF_ROLES, ROLE, figure_of
from lab.base.errors import Misuse
from lab.base.units import printable
from lab.kernels.debian import RANGE, expand
from lab.kernels.git import build_folders
from lab.kernels.kconfig import read_own
from lab.kernels.resolve import demand
from lab.yaml.strict import nearest

MOST_SEEDS = 64
_OWN = "own"


def number(least: int, most: int | None = None) -> Callable[[str], int]:
    """An argparse type: an integer within bounds."""
    bounds = f"{least} or more" if most is None else f"from {least} to {most}"

    def parse(text: str) -> int:
        value = int(text) if re.fullmatch("-?[0-9]{1,18}", text) else None
        if value is None or value < least or (most is not None and value > most):
            raise argparse.ArgumentTypeError(f"expected an integer, {bounds}, got {text!r}")
        return value

    return parse


def kernel_specs(text: str) -> str:
    """An argparse type: kernels and ranges of kernels that there may be."""
    text = " ".join(word if ":" in word or word == RANGE else demand(word) for word in text.split())
    for spec in expand(text, tuple):
        demand(spec)
    return text


def config_file(text: str) -> Path:
    """An argparse type: a .config; ``own`` is that of the kernel tree, or folder of objects, that this folder is in."""
    files = [Path(text).expanduser().absolute()]
    if text == _OWN:
        files = [path for folder in build_folders(Path.cwd()) if (path := folder / ".config").is_file()]
    if not files:
        raise Misuse("no .config here, at the top of the tree or in KBUILD_OUTPUT", remedy="make defconfig")
    read_own(files[0])
    return files[0]


def kernel_default() -> str:
    return os.environ.get("KERNEL") or "distro"


def dask_address(text: str) -> str:
    """An argparse type: the address of a scheduler."""
    if not re.fullmatch(r"(tcp|tls|ws|wss)://\S+:[0-9]{1,5}", text):
        raise Misuse(f"--dask {text}", remedy="the scheduler's address, such as tcp://host:8786")
    return text


SCENARIO = operand(help="a name from blklab list, or the path of a scenario file")
SOME_SCENARIOS = operand(nargs="*", metavar="SCENARIO", help="only these (default: all of the virtual clock)")
RUN = operand(type=of_results, help="a run folder, such as results/shared-queue/latest")
RESULTS = option(metavar="DIR", help="folder of the runs (default: results/ of the checkout)")
ARMS = option("--arm", action="append", default=[], metavar="NAME", help="only this arm (may be repeated)")
JOBS = option(
    type=number(1),
    default=0,
    metavar="N",
    help="boots, and compilers, at the same time (default: one per core)",
)
NICE = option(type=number(0, 19), metavar="N", help="niceness of a kernel's build (default: that of blklab)")
_CONFIGURATION = "BLKLAB_CONFIG"
CONFIG = option(
    type=config_file,
    metavar="FILE|own",
    help="build kernels with this .config plus what scenarios need (own: the one of the tree here)",
)
SEEDS = option(
    type=number(1, MOST_SEEDS),
    metavar="N",
    help="boots of each arm (wall clock: the maximum) instead of the scenario's number",
)
DASK = option(type=dask_address, metavar="ADDRESS", help="boot on the Dask cluster of this scheduler (tcp://host:8786)")
DRY_RUN = flag("print the boots and the estimated time; boot and download nothing")
METRIC = option(
    "--metric",
    action="append",
    default=[],
    metavar="NAME",
    help="figures such as iops, lat.p99, cpu.per_io (may be repeated)",
)
"""Read it with ``metrics_of``."""
KERNEL = option(
    # Nothing is fetched before all kernels were looked at.
    type=demand,
    default=kernel_default,
    metavar="SPEC",
    help="debian:6.1, an exact debian:VERSION, debian:SUITE, distro, path:DIR or host (default: distro)",
)
_FORMS = 'specs separated by spaces, ranges ("debian:6.12 .. debian:7.3", the newest of each series) and debian:all'


def kernels(default: str) -> Any:
    text = f"{_FORMS}; may be repeated (default: {default})"
    return option(action="append", type=kernel_specs, metavar="SPECS", help=text)


def metrics_of(metrics: Sequence[str], default: tuple[str, ...]) -> tuple[str, ...]:
    """The figures that were named. Raises Misuse for one that does not exist."""
    for metric in metrics:
        if not {ROLE, GUEST} & {*figure_of(GUEST, metric).held_by}:
            raise Misuse(f"no figure is called {metric}{nearest(metric, OF_ROLES)}", remedy=ALL_FIGURES)
    return tuple(metrics or default)


def words_of(**values: object) -> list[str]:
    """The words of the command line for these options, named as their flags; without those that are not given."""
    words: list[str] = []
    for name, value in values.items():
        for item in value if isinstance(value, list | tuple) else [value]:
            if item is not None and item is not False:
                words += [f"--{name}"] if item is True else [f"--{name}", str(item)]
    return words


def config_words() -> list[str]:
    """``--config FILE``, where kernels are built with a .config of the user's."""
    return words_of(config=os.environ.get(_CONFIGURATION) or None)


def tell(text: str) -> None:
    """Print a line of progress on stderr; results go to stdout."""
    print(f"blklab: {printable(text)}", file=sys.stderr, flush=True)


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
