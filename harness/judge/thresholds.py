# SPDX-License-Identifier: GPL-2.0-only
"""How far layout and seeds alone move each kind of figure: the data that ``tools/thresholds.py`` measures."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial, reduce
from pathlib import Path

from harness import fitted
from harness.scenario.registry import (
    FUNCTION,
    GUEST,
    HOST,
    IOPS,
    RUNTIME,
    Figure,
    FigureKey,
    Figures,
    Noise,
    figure_of,
    on_several_cpus,
    values_of,
)

DATA = Path(__file__).with_name("thresholds.json")
SHORT_WINDOWS = ", short windows"
SHARED_TAGS = ", shared tags"
"""Lines where CPUs share the tags of a host (it has figures there): which of them use one request's lines is chance.
Made after another layout moved scsi_debug's 5.00 transfers to 16.5 on 6.12.118; arms without such tags: up to 27 %."""


@dataclass(frozen=True)
class Threshold:
    """``share`` of the first figure, and why it is as large."""

    share: float
    because: str


LARGE = Threshold(
    fitted.MODELS,
    "device models are only checked to this precision; only between kernels of one configuration and compiler is a"
    " difference the code's",
)


@dataclass(frozen=True)
class NullEvidence:
    """The largest relative differences of null pairs.

    ``layout``: another layout under the same seed. ``seeds``: two boots of one layout under other seeds.
    ``single``: any two boots. ``pairs`` counts those of ``layout``, ``arms`` those in which boots differ, and
    ``where`` names the figure of the largest ``layout``. ``general``: between kernels of different configuration.
    """

    layout: float
    seeds: float
    single: float
    pairs: int
    arms: int
    where: str
    general: bool = False

    @property
    def suffices(self) -> bool:
        return self.arms >= fitted.LEAST_ARMS

    def usable(self) -> "NullEvidence":
        """With the general thresholds where they are larger and the arms are too few."""
        if self.suffices:
            return self
        return replace(self, layout=max(self.layout, LARGE.share), single=max(self.single, fitted.SINGLE - 1))

    def coarser(self, grain: float) -> "NullEvidence":
        """Each difference larger by ``grain``."""
        return replace(self, layout=self.layout + grain, seeds=self.seeds + grain, single=self.single + grain)

    def between_configurations(self) -> "NullEvidence":
        """With the general threshold of several seeds, which one seed a side exceeds too."""
        return replace(self, layout=LARGE.share, single=max(self.single, LARGE.share), general=True)


def kind(key: FigureKey, figures: Figures) -> str:
    """The kind of a figure of a boot with these ``figures``; empty for properties and shares."""
    load, role, metric = key
    figure, short = figure_of(role, metric), False
    if figure.noise in (Noise.MOVES, Noise.LINES, Noise.EXECUTED):
        name = _counted(figure, key, figures)
    else:
        name = _kind(figure, key, figures)
        short = max((ran for _, ran in values_of(figures, RUNTIME, load)), default=fitted.SHORT) < fitted.SHORT
    if not name or not on_several_cpus(load, figures):
        return name
    return f"{name}, several CPUs{SHORT_WINDOWS if short else ''}"


def _counted(figure: Figure, key: FigureKey, figures: Figures) -> str:
    """The kind of what the plugin counts."""
    of_all = key[1] == GUEST
    sizes = fitted.FEW_MOVED if of_all and figure.noise is Noise.MOVES else ()
    below = next((f" below {most}" for most in sizes if figures.get(key, 0.0) < most), "")
    tags = figure.noise is not Noise.EXECUTED and any(holder == HOST for _, holder, _ in figures)
    return f"{figure.name}{below}, {GUEST if of_all else 'one role'}{SHARED_TAGS if tags else ''}"


def _kind(figure: Figure, key: FigureKey, figures: Figures) -> str:
    load, role, _ = key
    value, iops = figures.get(key, 0.0), [each for _, each in values_of(figures, IOPS, load)]
    company = "one role"
    if len(iops) > 1:
        slow = figures.get((load, role, IOPS), 0.0) < fitted.SLOW
        company = f"several roles{f', below {fitted.SLOW:,} IOPS' if slow else ''}"
    match figure.noise:
        case Noise.NONE | Noise.TICKS:
            return figure.noise
        case Noise.CPU:
            return f"{figure.name}, CPU {'busy' if value * sum(iops) / 1e9 >= fitted.BUSY else 'partly idle'}"
        case Noise.COUNTER:
            return f"counter{f' below {fitted.FEW:,}' if value < fitted.FEW else ''}, {company}"
        case _:
            return f"{figure.noise}, {company}"


@lru_cache
def null_pairs(path: Path = DATA) -> Mapping[str, NullEvidence]:
    """What was measured, by kind; empty before the first measurement."""
    if not path.exists():
        return {}
    return {name: NullEvidence(**row) for name, row in json.loads(path.read_text())["kinds"].items()}


ClaimLayouts = Mapping[str, tuple[float, float]]
"""By the ratio of a claim: its figure on the source, and by how much layout moves it.

That is by the kinds of its figures, or ``TWINS`` times what one other layout moved the claim itself, where its
bound is nearer than the kinds say: the most moved figure of a kind says little of one that a rate limits.
"""


@lru_cache
def claim_layouts(path: Path = DATA) -> Mapping[str, ClaimLayouts]:
    """What was measured of the claims of shipped scenarios, by ``Scenario.measurement_digest``."""
    rows = json.loads(path.read_text()).get("claims", {}) if path.exists() else {}
    return {
        row["measured"]: {ratio: (value, layout) for ratio, (value, layout) in row["ratios"].items()}
        for row in rows.values()
    }


_MOVES = fitted.OF_FUNCTION
_OF_FUNCTION = NullEvidence(_MOVES, _MOVES, _MOVES, 0, fitted.LEAST_ARMS, "")


@lru_cache
def null_evidence(path: Path = DATA) -> Mapping[str, NullEvidence]:
    """What is compared by, by kind of figure: between kernels of one configuration."""
    known = {name: pairs.usable() for name, pairs in null_pairs(path).items()}
    return {f"{FUNCTION.name}, {GUEST}": _OF_FUNCTION} | known if known else {}


_UNKNOWN = NullEvidence(LARGE.share, LARGE.share, fitted.SINGLE - 1, 0, 0, "")
"""Of a kind without null pairs, where it meets one that has some."""


def widest(known: Iterable[NullEvidence | None]) -> NullEvidence | None:
    """The evidence of a figure whose kinds may differ; None where no kind has any."""
    evidence = [*known]
    if not any(evidence):
        return None
    wide = (each or _UNKNOWN for each in evidence)
    return reduce(lambda first, second: first if first == second else _combined(max, first, second), wide)


def product(factors: Iterable[NullEvidence | None]) -> NullEvidence:
    """That of a product or quotient of figures."""
    compound = partial(_combined, lambda first, second: (1 + first) * (1 + second) - 1)
    return reduce(compound, (factor or _UNKNOWN for factor in factors))


def _combined(rule: Callable[[float, float], float], first: NullEvidence, second: NullEvidence) -> NullEvidence:
    layout, seeds = rule(first.layout, second.layout), rule(first.seeds, second.seeds)
    return replace(first, layout=layout, seeds=seeds, single=rule(first.single, second.single))
