# SPDX-License-Identifier: GPL-2.0-only
"""Variants of a scenario with a fitted parameter changed."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.base.plain import identity
from harness.record.store import Store
from harness.scenario.model import Reproduction
from harness.studies.sensitivity import Sensitivity, SensitivityRow, fitted, keep, kept, varied
from lab.base.errors import Misuse
from lab.topology.load import load_topology
from lab.topology.model import Origin, Topology
from lab.topology.origins import multiplied
from tests.unit.analysis_samples import SHARE, claim, scenario
from tests.unit.test_topology_language import J4400


@pytest.fixture
def topology(tmp_path: Path) -> Topology:
    (tmp_path / "t.yaml").write_text(J4400)
    return load_topology("./t.yaml", near=tmp_path)


def test_parameters_are_multiplied_by_their_names(topology: Topology) -> None:
    assert multiplied(topology, "disk.d*.seek", 1.25).disks["d1"].seek == 100_000_000
    assert multiplied(topology, "disk.d*.seek", 1.25).disks["e1"] == topology.disks["e1"]
    faster = multiplied(topology, "disk.d0.rate", 0.5).disks["d0"]
    assert (faster.rate, faster.zones[0].rate) == (4_000_000, 2_250_000)
    assert multiplied(topology, "disk.*.rpm", 2).disks["d0"].rotation == 41_666_666
    assert multiplied(topology, "link.port*.efficiency", 0.5).links["port1"].rate == 56_400_000
    assert multiplied(topology, "link.port0.cost", 2).links["port0"].cost == 40_000
    assert multiplied(topology, "hba.*.can_queue", 2).hbas["mpt1"].can_queue == 254
    assert multiplied(topology, "hba.*.cmd_per_lun", 4).hbas["mpt1"].cmd_per_lun == 127
    assert multiplied(topology, "disk.*.service", 2) == topology


def test_a_variant_has_the_arms_that_ratios_need_and_claims_nothing() -> None:
    model = scenario([claim()])
    arm = model.arms["none"]
    origins = (Origin("disk.fast.service", "fitted", "x"), Origin("disk.slow.service", "cites", "y"))
    model = replace(
        model,
        arms={
            "none": replace(arm, topology=replace(arm.topology, origins=origins)),
            "other": replace(arm, name="other"),
        },
        reproduces=(Reproduction("it halves", SHARE, 0.5),),
    )
    assert fitted(model) == ("disk.fast.service",)
    variant = varied(model, "disk.fast.service", 0.8)
    assert list(variant.arms) == ["none"]
    assert variant.digest == identity(variant), "a stored run of it is judged by this digest"
    assert variant.claims == ()
    assert variant.digest not in (model.digest, varied(model, "disk.fast.service", 1.25).digest)
    service = arm.topology.disks["fast"].service
    assert service is not None
    assert variant.arms["none"].topology.disks["fast"].service == round(service * 0.8)


def test_a_variant_that_no_recipe_carries_is_refused() -> None:
    model = replace(scenario([claim()]), reproduces=(Reproduction("it halves", SHARE, 0.5),))
    with pytest.raises(Misuse, match=r"disk\.fast\.service cannot be 100000 times"):
        varied(model, "disk.fast.service", 100_000)


def test_what_was_measured_is_found_again_for_the_same_scenario_only(tmp_path: Path) -> None:
    model = scenario([claim()])
    store = Store(tmp_path)
    found = Sensitivity(model.name, model.digest, "6.1.0", (SensitivityRow("disk.*.seek", 0.8, "it halves", 0.5),))
    keep(store, found)
    assert kept(store, model) == [found]
    assert kept(store, replace(model, digest="another")) == []
