# SPDX-License-Identifier: GPL-2.0-only
"""The kept searches on several kernels, within a budget of time."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from harness.base.files import read_json, write_json
from harness.hunt.kept import every_find, try_find
from harness.report.format import plural
from harness.run.bench import Bench
from lab.base.errors import BlklabError, CannotJudge
from lab.base.units import Tell
from lab.kernels.model import Kernel

_FILE = "hunts.json"


@dataclass(frozen=True)
class HuntCell:
    """What a kept search found on a kernel within its part of the budget: ``seeds`` were tried, of ``wanted``.

    ``fault`` is empty where it found none, ``reason`` where the kernel could be searched. ``failed``: the kernel is one
    that the file of the find calls good.
    """

    find: str
    kernel: str
    wanted: int
    seeds: int = 0
    fault: str = ""
    reason: str = ""
    failed: bool = False

    @property
    def status(self) -> str:
        if self.reason:
            return "SKIP"
        return "FAIL" if self.failed else "found" if self.fault else "none"

    @property
    def says(self) -> str:
        if self.reason:
            return self.reason
        if self.fault:
            return f"seed {self.seeds} of the search: {self.fault}"
        ended = "" if self.seeds >= self.wanted else ", ended by the budget"
        return f"{self.seeds} of {plural(self.wanted, 'seed')}{ended}"


def keep_hunts(folder: Path, hunts: Sequence[HuntCell]) -> None:
    """Beside the record of the matrix in ``folder``."""
    write_json(folder / _FILE, [asdict(each) for each in hunts])


def kept_hunts(folder: Path) -> Iterator[HuntCell]:
    """None of a matrix without."""
    yield from (HuntCell(**row) for row in read_json(folder / _FILE) or ())


def hunt_matrix(
    bench: Bench, kernels: Mapping[str, Kernel | BlklabError], minutes: float, shard: tuple[int, int], tell: Tell
) -> Iterator[HuntCell]:
    """Each find of hunts/ on each kernel, part ``shard`` of them; what a search leaves of ``minutes`` others have."""
    part, parts = shard
    wanted = [(Path(name).stem, kept, spec) for name, kept in every_find().items() for spec in kernels]
    own = wanted[part - 1 :: parts]
    end = time.monotonic() + 60 * minutes
    for place, (name, kept, spec) in enumerate(own):
        within = max(0.0, end - time.monotonic()) / 60 / (len(own) - place)
        tell(f"hunt {name} on {spec}: up to {plural(kept.seeds, 'seed')}, {within:.1f} min")
        cell = HuntCell(name, spec, kept.seeds)
        try:
            kernel = kernels[spec]
            if isinstance(kernel, BlklabError):
                raise kernel
            tried = try_find(bench, kernel, kept, kept.planned, tell, minutes=within)
        except CannotJudge as error:
            yield replace(cell, reason=error.message)
        else:
            yield replace(cell, seeds=tried.seeds, fault=tried.fault, failed=bool(tried.fault) and spec in kept.good)
