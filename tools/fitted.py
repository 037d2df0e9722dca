# SPDX-License-Identifier: GPL-2.0-only
"""How near stored runs come to the constants of ``harness.fitted`` beyond which a figure cannot be true."""

import json
import sys
from collections.abc import Iterator
from contextlib import suppress

from harness import fitted
from harness.base.checkout import results_root
from harness.commands.options import RESULTS
from harness.commands.parser import Command
from harness.figures.fio import in_flight
from harness.record.judging import judge_run, results_of
from harness.record.store import RunFolder, load_run
from harness.scenario.ratio import BOUND
from lab.base.errors import EXIT_PASS, LabBroken, Misuse
from lab.base.record import SAMPLES
from tools.command import tool

Extreme = tuple[float, str]
"""A figure as a multiple of what it may be, and where it was measured."""


def extremes(run: RunFolder) -> Iterator[tuple[str, Extreme]]:
    """Each by the name of its constant."""
    loads = run.scenario.loads
    for claim, verdict in zip(run.scenario.claims, judge_run(run).claims, strict=True):
        ratio, ensemble = claim.ratio, verdict.judgement.ensemble
        if ensemble and ratio.right and ratio.right.kind == BOUND and ratio.left.path[:3] == ratio.right.path[:3]:
            yield "ABOVE_BOUND", (ensemble.high, f"{run.path} {ratio.text}")
    for result in results_of(run):
        for load in loads.values():
            for role in load.roles.values():
                if (share := in_flight(load, role, result.figures)) > 0:
                    yield "MEAN_ROUNDING", (share, f"{run.path} {result.arm}.{load.name}")
    for cell, record in run.boots():
        for load in loads.values():
            cpu = json.loads(record.files.get(SAMPLES.format(load=load.name), b"{}")).get("cpu", {})
            if cpu.get("resolution", 0) > 1:
                yield "TAKEN_BACK", (cpu["idle"] / cpu["elapsed"], f"{run.path} {cell.arm}.{load.name}")


class PrintExtremes(Command):
    results: str | None = RESULTS

    def __call__(self) -> int:
        """The highest of each constant in all runs that can be judged."""
        highest: dict[str, list[Extreme]] = {}
        for path in sorted(results_root(self.results).glob("*/[0-9]*")):
            with suppress(Misuse, LabBroken):
                for constant, extreme in extremes(load_run(path)):
                    highest.setdefault(constant, []).append(extreme)
        for constant, every in sorted(highest.items()):
            value, where = max(every)
            print(f"{constant} = {getattr(fitted, constant)}: {value:.4f} at most in {len(every)} figures, {where}")
        return EXIT_PASS


main = tool("fitted", "Print how near stored runs come to fitted constants.", PrintExtremes)


if __name__ == "__main__":
    sys.exit(main())
