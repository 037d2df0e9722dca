# SPDX-License-Identifier: GPL-2.0-only
"""The kept searches on several kernels, within a budget of time."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from harness.base.files import read_json, write_json
from harness.base.plain import from_plain, to_plain
from harness.hunt.finds import every_find, try_find
from harness.report.format import plural
from harness.run.bench import Bench
from lab.base.errors import BlklabError, CannotJudge
from lab.base.units import Tell
from lab.kernels.model import Kernel

_FILE = "hunts.json"


@dataclass(frozen=True)
class HuntCell:
    """What a kept search found on a kernel within its part of the budget: ``seeds`` were tried, of ``wanted``.

    ``fault``, ``others`` and ``elsewhere`` are of ``Attempt``; ``reason`` is why the kernel could not be searched.
    ``failed``: it has the fault, and the file of the find calls it good.
    """

    find: str
    kernel: str
    wanted: int
    seeds: int = 0
    fault: str = ""
    others: tuple[str, ...] = ()
    elsewhere: bool = False
    reason: str = ""
    failed: bool = False

    @property
    def status(self) -> str:
        if self.fault:
            return "FAIL" if self.failed else "found"
        return "other" if self.others else "none" if self.seeds else "SKIP"

    @property
    def says(self) -> str:
        if self.reason:
            return self.reason
        where = ", not in the functions of the find" if self.elsewhere else ""
        faults = [self.fault] if self.fault else self.others
        ended = "" if faults or self.seeds >= self.wanted else ", ended by the budget"
        return "; ".join([f"{self.seeds} of {plural(self.wanted, 'seed')}{where}{ended}", *faults])


def keep_hunts(folder: Path, hunts: Sequence[HuntCell]) -> None:
    """Beside the record of the matrix in ``folder``."""
    write_json(folder / _FILE, to_plain(hunts))


def kept_hunts(folder: Path) -> Iterator[HuntCell]:
    """None of a matrix without."""
    yield from (from_plain(HuntCell, row) for row in read_json(folder / _FILE) or ())


def hunt_matrix(
    bench: Bench, kernels: Mapping[str, Kernel | BlklabError], minutes: float, shard: tuple[int, int], tell: Tell
) -> Iterator[HuntCell]:
    """Part ``shard`` of finds x kernels; what a search leaves of ``minutes`` others have, without any none is begun."""
    wanted = [(Path(name).stem, kept, spec) for name, kept in every_find().items() for spec in kernels]
    own = wanted[shard[0] - 1 :: shard[1]]
    end = time.monotonic() + 60 * minutes
    for place, (name, kept, spec) in enumerate(own):
        within = (end - time.monotonic()) / 60 / (len(own) - place)
        cell = HuntCell(name, spec, kept.seeds)
        if within <= 0:
            yield cell
            continue
        tell(f"hunt {name} on {spec}: up to {plural(kept.seeds, 'seed')}, {within:.1f} min")
        try:
            kernel = kernels[spec]
            if isinstance(kernel, BlklabError):
                raise kernel
            tried = try_find(bench, kernel, kept, kept.planned, tell, minutes=within)
            yield replace(cell, **asdict(tried), failed=bool(tried.fault) and spec in kept.good)
        except CannotJudge as error:
            yield replace(cell, reason=error.message)
