# SPDX-License-Identifier: GPL-2.0-only
"""How much of a difference between two packages remains with one configuration."""

from dataclasses import dataclass

import pytest

from harness.bisect.releases import Releases, bisect_releases
from harness.bisect.same_config import lines, same_config
from harness.studies.timeline.sweep import Sweep
from lab.base.errors import CannotJudge
from tests.unit.test_timeline import FIGURE, Kernels


@dataclass
class Both(Kernels):
    """Packages with ``shares``, builds of the ends with ``built``."""

    built: tuple[float | None, float | None] = (None, None)

    def extended(self, swept: Sweep, place: int) -> Sweep:
        if not swept.specs[place].startswith("source:"):
            return super().extended(swept, place)
        built = Kernels(self.built).extended(swept, place)
        self.asked.append(swept.specs[place])
        return built


def found(kernels: Kernels, figure: str = "") -> Releases:
    return bisect_releases(kernels, kernels.sweep(), figure, lambda _: None)


def test_a_claim_that_depends_on_code_alone() -> None:
    kernels = Both([90.0, 90.0, 60.0], built=(90.0, 60.0))
    same = same_config(kernels, found(kernels), "")
    assert kernels.asked[-2:] == ["source:5.10", "source:6.12"]
    (one,) = same.differences
    assert one.remains == pytest.approx(1.0)
    text = "\n".join(lines(same))
    assert "source:5.10 -> source:6.12:" in text
    ends = "0.9010 -> 0.6010"
    assert f"{one.that}: {ends} (packages: {ends}): 100 % of the difference is code" in text


def test_a_difference_remains_in_part_or_vanishes() -> None:
    kernels = Both([100.0, 100.0, 25.0], built=(100.0, 50.0))
    (one,) = same_config(kernels, found(kernels, FIGURE), FIGURE).differences
    assert one.that == FIGURE
    assert one.remains == pytest.approx(0.5, abs=0.01)
    kernels = Both([90.0, 60.0], built=(90.0, 90.0))
    (one,) = same_config(kernels, found(kernels), "").differences
    assert one.remains == pytest.approx(0.0)


def test_a_series_without_a_source() -> None:
    kernels = Both([90.0, 60.0], built=(90.0, None))
    with pytest.raises(CannotJudge, match=r"no comparison with one configuration: source:6\.1: the suite dropped it"):
        same_config(kernels, found(kernels), "")
