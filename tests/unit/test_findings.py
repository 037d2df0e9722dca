# SPDX-License-Identifier: GPL-2.0-only
"""Kernels with a known defect against our scenarios: figures as measured on source:6.12 and its mutants, one seed.

The scenarios of 2a4248a gave PASS for each of these figures, or did not measure them.
"""

from collections.abc import Mapping

import pytest

from harness.judge.cells import CellResult
from harness.judge.verdict import Verdict, judge
from harness.limits.entries import load_scenario
from harness.scenario.model import Status
from lab.base.record import Outcome

Figures = Mapping[str, Mapping[str, float]]
"""From an arm to its figures, each named LOAD.ROLE.METRIC."""


def verdict(name: str, figures: Figures, mutant: str = "") -> Verdict:
    of = load_scenario(name)
    cells = []
    for arm, measured in figures.items():
        found = {(load, "guest", "cpu.idle"): 0.9 for load in of.loads}
        for key, value in measured.items():
            load, role, metric = key.split(".", 2)
            found[load, role, metric] = value
        cells.append(CellResult(arm, 1, Status.PASS, figures=found, digest="d", outcome=Outcome.BYE))
    return judge(of, cells, seeds=(1,), arms=tuple(figures), mutant=mutant)


def failed(name: str, figures: Figures, mutant: str = "") -> list[str]:
    """The ratios of the claims that fail."""
    claims = verdict(name, figures, mutant).claims
    return [claim.ratio.split(" / ")[0] for claim in claims if claim.judgement.status is Status.FAIL]


def victim(solo: float, lopsided: float, commands: float) -> Mapping[str, float]:
    return {
        "solo.victim.iops": solo,
        "lopsided.victim.iops": lopsided,
        "solo.bystander.iops": 194.8,
        "lopsided.bystander.iops": 194.8,
        "lopsided.lun.p0.commands.mean": commands,
        "lopsided.host.twa0.commands.mean": commands,
    }


FAIR = {
    "shared": victim(892.4, 888.8, 146.9),
    "bursts": victim(892.4, 888.8, 150.5),
    "limited": victim(892.4, 890.8, 32),
}
UNFAIR = {"shared": victim(892.4, 76.8, 253.9), "bursts": victim(892.4, 33.1, 254.0), "limited": victim(893, 892.6, 32)}


def test_shared_queue_fails_on_a_kernel_without_fair_tag_sharing_and_its_report_says_what_fills_the_host() -> None:
    """With serial disks that left tags free between wake-ups the claim gave 0.987 on this mutant, and PASS."""
    assert failed("shared-queue", FAIR) == []
    assert failed("shared-queue", UNFAIR) == ["shared.lopsided.victim.iops", "bursts.lopsided.victim.iops"]
    found = verdict("shared-queue", UNFAIR, "no-fair-tags")
    assert [claim.sentence for claim in found.claims[:2]] == [
        "the hog's commands fill can_queue (shared.lopsided.lun.p0.commands.mean / 254 = 1)",
        "the hog's commands fill can_queue (bursts.lopsided.lun.p0.commands.mean / 254 = 1)",
    ]
    red = [one.judgement.status for one in found.controls if one.mutant and one.judgement]
    assert red == [Status.PASS, Status.PASS]


def test_shared_queue_deep_fails_on_a_kernel_without_fair_tag_sharing() -> None:
    assert failed("shared-queue-deep", {"shared": victim(892, 885.6, 512)}) == []
    assert failed("shared-queue-deep", {"shared": victim(892, 76.8, 1023.9)}) == ["shared.lopsided.victim.iops"]


@pytest.mark.parametrize(
    ("alone", "beside", "expected"),
    [
        (3093, 1596, []),
        (1596, 798, ["shared.alone.busy.iops", "shared.beside.busy.iops"]),
        (3093, 3092, ["shared.beside.busy.iops"]),
    ],
    ids=["fair", "both halved", "not shared"],
)
def test_idle_lun_compares_with_the_closed_form_of_31_tags(alone: float, beside: float, expected: list[str]) -> None:
    """beside / alone is a half for the first two; only the closed form tells them apart."""
    assert failed("idle-lun", {"shared": {"alone.busy.iops": alone, "beside.busy.iops": beside}}) == expected


@pytest.mark.parametrize(
    ("name", "arm", "sound", "broken"),
    [
        ("lun-depth", "none", {"read.reader.iops": 320}, {"read.reader.iops": 160}),
        (
            "writes-starved",
            "default",
            {"mixed.reader.iops": 534, "mixed.writer.iops": 267},
            {"mixed.reader.iops": 800, "mixed.writer.iops": 0},
        ),
        (
            "verified-data",
            "plain",
            {f"read-back.{role}.verify.bad": 0 for role in ("stripe", "mirror", "paths")},
            {"read-back.stripe.verify.bad": 244, "read-back.mirror.verify.bad": 0, "read-back.paths.verify.bad": 0},
        ),
    ],
)
def test_a_lun_s_own_depth_a_mix_of_reads_and_writes_and_data_are_measured(
    name: str, arm: str, sound: Mapping[str, float], broken: Mapping[str, float]
) -> None:
    assert (failed(name, {arm: sound}), len(failed(name, {arm: broken}))) == ([], 1)


def sentences(name: str, arm: str, figures: Mapping[str, float]) -> list[str]:
    """What the report says of each claim that fails when one arm has these figures."""
    claims = verdict(name, {arm: figures}).claims
    return [claim.sentence for claim in claims if claim.judgement.status is Status.FAIL]


def shared(fast: float, slow: float, iops: float) -> dict[str, float]:
    """Load together of null-shared-tags: tags that both hold in the mean, and the fast one's IOPS."""
    tags = {"fast": fast, "slow": slow}
    held = {f"together.lun.{name}.tags.{what}": mean for name, mean in tags.items() for what in ("mean", "max")}
    rates = {"together.fast.iops": iops, "together.slow.iops": slow * 2.5}
    return {**held, **rates, "together.host.nullb.tags.free": 64 - fast - slow}


def test_starvation_by_another_cause_is_not_blamed_on_the_slow_device() -> None:
    (said,) = sentences("null-shared-tags", "none", shared(16, 16, 3971))
    assert said.startswith("neither device holds its half of the tags (")
    assert "slow device holds more" not in said
    (said,) = sentences("null-shared-tags", "none", shared(1.8, 32, 501))
    assert said.startswith("the fast device has few requests in flight, although tags are free")
    assert "slow device holds more" not in said


def test_a_stripe_that_swaps_chunks_is_not_blamed_on_plug_merging() -> None:
    figures = {"merges": 79.5, "bios": 1000.0, "sectors": 8000.0}
    of_writer = {f"write.writer.members.{name}": value for name, value in figures.items()}
    (said,) = sentences("striped-batches", "pages", of_writer)
    assert said == (
        "cause unknown; ruled out: bios are smaller than a page of eight sectors"
        " (pages.write.writer.members.sectors / pages.write.writer.members.bios = 8, not < 7.9)"
    )
