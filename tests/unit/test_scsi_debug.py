# SPDX-License-Identifier: GPL-2.0-only
"""scsi_debug as a host adapter: what it is given, what is read back, what it cannot be."""

from dataclasses import replace

import pytest

from lab.guest.steps.device import Module, NameBlock
from lab.guest.steps.setting import Confirm, Tune
from lab.realise.recipe import devices
from lab.topology.limits import refusals
from lab.topology.load import CATALOGUE, load_topology
from lab.topology.model import Topology


def topology(service: int) -> Topology:
    found = load_topology("calibration-scsi-debug", near=CATALOGUE)
    return replace(found, disks={name: replace(disk, service=service) for name, disk in found.disks.items()})


def test_every_parameter_that_matters_is_read_back() -> None:
    steps = devices(topology(20_000_000))
    (module,) = [step for step in steps if isinstance(step, Module) and step.name == "scsi_debug"]
    assert {"num_tgts=2", "ndelay=20000000", "max_queue=16", "host_max_queue=16"} <= set(module.parameters.split())
    confirmed = {step.knob: step.value for step in steps if isinstance(step, Confirm)}
    assert confirmed == {"disk.service": "20000000", "hba.can_queue[left]": "16", "hba.can_queue[right]": "16"}
    assert [step.value for step in steps if isinstance(step, Tune)] == ["16", "16"]
    assert [step.path.rsplit("/", 3)[1] for step in steps if isinstance(step, NameBlock)] == ["*:0:0:0", "*:0:1:0"]


@pytest.mark.parametrize(("service", "refused"), [(999_999_999, 0), (1_000_000_000, 2), (5_000_000_000, 2)])
def test_a_service_that_it_would_ignore_is_refused(service: int, refused: int) -> None:
    reasons = [str(refusal) for refusal in refusals(topology(service))]
    assert len(reasons) == refused
    assert all("scsi_debug needs a service below 1 s" in reason for reason in reasons)
