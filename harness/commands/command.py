# SPDX-License-Identifier: GPL-2.0-only
"""What a module of this folder offers, and what several of them share."""

import argparse
import os
import sys
from pathlib import Path
from typing import Protocol

from harness.base.files import write_atomic

CHECKOUT = Path(__file__).resolve().parents[2]
SCENARIOS = CHECKOUT / "scenarios"
WALL = SCENARIOS / "wall"
RESULT_PAGES = CHECKOUT / "docs" / "results"


class Command(Protocol):
    NAME: str
    HELP: str

    def configure(self, parser: argparse.ArgumentParser) -> None: ...

    def execute(self, options: argparse.Namespace) -> int: ...


def results_root(chosen: str | None) -> Path:
    """Where runs are kept: as chosen, else $BLKLAB_RESULTS, else the checkout's results/."""
    return Path(chosen or os.environ.get("BLKLAB_RESULTS") or CHECKOUT / "results")


def add_results(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--results", metavar="DIR", help="where runs are kept (default: results/ of the checkout)")


def add_page(parser: argparse.ArgumentParser, name: str) -> None:
    """``--out``: the path of a generated page, by default in docs/results/."""
    default = RESULT_PAGES / name
    says = f"the page (default: docs/results/{name})"
    parser.add_argument("--out", type=Path, default=default, metavar="FILE", help=says)


def write_page(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, text.encode())


def tell(text: str) -> None:
    """A line on stderr for the person who waits: what goes on, never a result."""
    print(f"blklab: {text}", file=sys.stderr, flush=True)


def add_kernel(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kernel",
        default=os.environ.get("KERNEL") or "distro",
        metavar="SPEC",
        help="debian:6.1, an exact debian:VERSION, debian:SUITE, distro, path:DIR or host (default: distro)",
    )
