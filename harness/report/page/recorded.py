# SPDX-License-Identifier: GPL-2.0-only
"""What the boots of a run recorded of each load besides figures: use of elements, and samples over time."""

from collections.abc import Iterator
from dataclasses import dataclass

from harness.metrics.errors import MeasurementError
from harness.metrics.samples import Samples, read_samples
from harness.metrics.use import LoadUse, mean_use, read_use
from harness.record.store import RunFolder
from harness.scenario.model import Arm, Load
from lab.base.record import BootRecord, Outcome


@dataclass(frozen=True)
class Recorded:
    """``use`` is the mean over all windows of the boots; ``samples`` are those of the first window of ``seed``."""

    arm: Arm
    load: Load
    use: LoadUse
    samples: Samples
    seed: int


def recorded(run: RunFolder) -> tuple[Recorded, ...]:
    """Each load of each arm whose use was recorded in all boots that ended well."""
    return tuple(_recorded(run))


def _recorded(run: RunFolder) -> Iterator[Recorded]:
    for arm in run.scenario.arms.values():
        boots = list(_boots(run, arm))
        for load in run.scenario.loads.values() if boots else ():
            try:
                windows = load.windows(run.scenario.windows)
                uses = [read_use(record.files, arm.topology, one) for _, record in boots for one in windows]
                seed, first = boots[0]
                name = f"{windows[0].name}.samples.json"
                samples = read_samples(first.files[name], name)
            except MeasurementError:
                continue
            yield Recorded(arm, load, mean_use(uses), samples, seed)


def _boots(run: RunFolder, arm: Arm) -> Iterator[tuple[int, BootRecord]]:
    for cell in run.facts.cells:
        record = run.boot(cell) if cell.arm == arm.name and not cell.skip and not cell.repeat else None
        if record is not None and record.outcome is Outcome.BYE:
            yield cell.seed, record
