# SPDX-License-Identifier: GPL-2.0-only
"""What our scenarios say of failures with other causes than the ones that they look for; figures as measured."""

from collections.abc import Mapping

from harness.commands.common.options import SCENARIOS
from harness.judge.cells import CellResult
from harness.judge.verdict import judge
from harness.limits.load import load_scenario
from harness.scenario.model import Status
from lab.base.record import Outcome


def sentences(name: str, arm: str, figures: Mapping[tuple[str, str, str], float]) -> list[str]:
    """What the report says of each claim that fails when one arm has these figures."""
    of = load_scenario(name, search=SCENARIOS)
    idle = {(load, "guest", "cpu.idle"): 0.9 for load in of.loads}
    cell = CellResult(arm, 1, Status.PASS, figures={**idle, **figures}, digest="d", outcome=Outcome.BYE)
    verdict = judge(of, [cell], seeds=(1,), arms=(arm,))
    return [claim.sentence for claim in verdict.claims if claim.judgement.status is Status.FAIL]


def shared(fast: float, slow: float, iops: float) -> dict[tuple[str, str, str], float]:
    """Load together of null-shared-tags: tags that both hold in the mean, and the fast one's IOPS."""
    tags = {"lun": {"fast.tags": fast, "slow.tags": slow}}
    found = {
        ("together", role, f"{name}.{what}"): value
        for role, each in tags.items()
        for name, value in each.items()
        for what in ("mean", "max")
    }
    return {
        **found,
        ("together", "host", "nullb.tags.free"): 64 - fast - slow,
        ("together", "fast", "iops"): iops,
        ("together", "slow", "iops"): slow * 2.5,
    }


def test_starvation_by_another_cause_is_not_blamed_on_the_slow_device() -> None:
    (said,) = sentences("null-shared-tags", "none", shared(16, 16, 3971))
    assert said.startswith("neither device holds its half of the tags (")
    assert "slow device holds more" not in said
    (said,) = sentences("null-shared-tags", "none", shared(1.8, 32, 501))
    assert said.startswith("the fast device has few requests in flight, although tags are free")
    assert "slow device holds more" not in said


def test_a_stripe_that_swaps_chunks_is_not_blamed_on_plug_merging() -> None:
    figures = {
        ("write", "writer", "members.merges"): 79.5,
        ("write", "writer", "members.bios"): 1000.0,
        ("write", "writer", "members.sectors"): 8000.0,
    }
    (said,) = sentences("striped-batches", "pages", figures)
    assert said == (
        "cause unknown; ruled out: bios are smaller than a page of eight sectors"
        " (pages.write.writer.members.sectors / pages.write.writer.members.bios = 8, not < 7.9)"
    )
