# SPDX-License-Identifier: GPL-2.0-only
"""Seconds of runs, warm, cold and by another checkout, as ratios within interleaved rounds."""

import json
import os
import resource
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from harness.base.checkout import CHECKOUT
from harness.commands.options import KERNEL, number, tell
from harness.commands.parser import Command, option
from harness.report.format import markdown_table
from lab.base import process
from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_FAIL, EXIT_PASS, LabBroken, no_such_folder
from tools.command import tool

_ROUNDS = 5
_WORK = ("run shared-queue", "run io-cost --arm null-blk-none")


@dataclass(frozen=True)
class SpeedSample:
    """Seconds of a command: ``wall``, ``cpu``, and ``first`` until the first complete boot.

    ``starting`` is the share of boot and set-up in the seconds of all boots.
    """

    wall: float
    cpu: float
    first: float
    starting: float


Way = Callable[[], SpeedSample]
Rounds = Mapping[str, Sequence[SpeedSample]]
"""Samples by row, one of each round; the first row is the reference."""


class CompareSpeed(Command):
    base: Path | None = option(type=Path, metavar="DIR", help="compare with another checkout of blklab")
    rounds: int = option(type=number(1), default=_ROUNDS, metavar="N", help=f"default: {_ROUNDS}")
    work: Sequence[Sequence[str]] | None = option(
        action="append",
        type=shlex.split,
        metavar="WORDS",
        help=f"a command of blklab to measure (may be repeated; default: {', '.join(_WORK)})",
    )
    kernel: str = KERNEL

    def __call__(self) -> int:
        if self.base is not None and not self.base.is_dir():
            raise no_such_folder(self.base, "checkout")
        checkout = self.base.absolute() if self.base else None
        for given in self.work or map(shlex.split, _WORK):
            text, words = shlex.join(given), [*given]
            words += ["--kernel", self.kernel] if words[0] == "run" else []
            samples = measure(ways(words, CHECKOUT, checkout), self.rounds)
            load = f"{self.rounds} rounds, load average {os.getloadavg()[0]:.1f}"
            print("\n".join([f"blklab {text} ({load})", "", *table(samples), ""]))
        return EXIT_PASS


def ways(words: Sequence[str], checkout: Path, base: Path | None) -> Mapping[str, Way]:
    """Ways to carry out ``blklab WORDS``: by another checkout, by this one cold, and by this one warm."""
    own = [sys.executable, "-m", "harness", *words]
    by_name: dict[str, Way] = {}
    if base is not None:
        by_name["base"] = lambda: _run([str(base / "scripts" / "run"), "blklab", *words], base)
    if words[0] == "run":
        by_name["cold"] = lambda: _run([*own, "--cold"], checkout)
    return {**by_name, "warm": lambda: _run(own, checkout)}


def measure(by_name: Mapping[str, Way], rounds: int) -> Rounds:
    """Carry out each way once to fill the caches, then ``rounds`` times in turn. Raises LabBroken."""
    samples: dict[str, list[SpeedSample]] = {name: [] for name in by_name}
    for place in range(rounds + 1):
        for name, way in by_name.items():
            sample = way()
            tell(f"round {place} of {rounds}: {name}: {sample.wall:.1f} s")
            if place:
                samples[name].append(sample)
    return samples


def table(rounds: Rounds) -> Iterator[str]:
    """A row for each way. A ratio is the median of the ratios within the rounds, so that other work on the host
    concerns both sides; in brackets the smallest and the largest."""
    reference = next(iter(rounds))
    heads = (
        "",
        "wall (s)",
        "CPU (s)",
        f"ratio to {reference}",
        "first boot (s)",
        "boot and set-up (% of boot-seconds)",
    )
    rows = []
    for name, samples in rounds.items():
        ratios = sorted(each.wall / other.wall for each, other in zip(samples, rounds[reference], strict=True))
        wall, cpu, first, starting = (
            median(getattr(each, column) for each in samples) for column in ("wall", "cpu", "first", "starting")
        )
        ratio = f"{median(ratios):.2f} [{ratios[0]:.2f}..{ratios[-1]:.2f}]"
        rows.append((name, f"{wall:.1f}", f"{cpu:.1f}", ratio, f"{first:.1f}", f"{100 * starting:.1f}"))
    yield from markdown_table(heads, rows, numbers=len(heads) - 1)


def _run(argv: Sequence[str], checkout: Path) -> SpeedSample:
    accepted, hint = (EXIT_PASS, EXIT_FAIL, EXIT_CANNOT_JUDGE), "run the command by hand"
    with tempfile.TemporaryDirectory(prefix="blklab-") as folder:
        began, used = time.time(), _cpu_of_children()
        process.run([*argv, "--results", folder], cwd=checkout, env=os.environ, accept=accepted, hint=hint)
        wall, cpu = time.time() - began, _cpu_of_children() - used
        boots = sorted(Path(folder).glob("*/[0-9]*/boots/[0-9]*/boot.json"), key=lambda path: path.stat().st_mtime)
        if not boots:
            raise LabBroken(f"no boot was made: {shlex.join(argv)}", remedy=hint)
        spans = [json.loads(path.read_bytes())["wall"] for path in boots]
        total = sum(seconds for span in spans for seconds in span.values())
        starting = sum(span.get(name, 0.0) for span in spans for name in ("boot", "setup"))
        return SpeedSample(wall, cpu, boots[0].stat().st_mtime - began, starting / total)


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


main = tool("speed", "Compare warm runs with cold ones and another checkout.", CompareSpeed)


if __name__ == "__main__":
    sys.exit(main())
