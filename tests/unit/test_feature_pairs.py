# SPDX-License-Identifier: GPL-2.0-only
"""A pair of features is refused with its place and a reason, or its guest has each verb and program of its steps."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from lab.base.cache import Cache
from lab.guest import payload
from lab.guest.payload import ArchiveEntry
from lab.guest.steps import Step
from lab.guest.steps.device import Filesystem, Loop
from lab.guest.steps.load import Meanwhile
from lab.native.programs import Steady
from lab.qemu.probe import Qemu
from lab.session import Lab, guest_payload, guest_steps
from tests.feature_pairs import Pair, pairs
from tests.features import features
from tests.unit.payload_samples import lay_out, lay_out_makers


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """A lab with the scripts of the guest and made-up programs."""
    lay_out(tmp_path / "root")
    lay_out_makers(tmp_path / "made")
    monkeypatch.setattr(payload, "_tree_of_maker", lambda cache, name: tmp_path / "made")
    qemu = Qemu(Path("/opt/qemu"), (10, 0, 13), "", frozenset(), None, "q" * 64)
    return Lab(Cache(tmp_path), qemu, Steady(Path("/opt/steady.so"), "s" * 64), payload.assemble(tmp_path / "root", {}))


def every_step(pair: Pair) -> Iterator[Step]:
    for step in guest_steps(pair.arm.topology, replace(pair.job, trace=("block:*",))):
        yield step
        if isinstance(step, Meanwhile):
            yield from (timed for _, timed in step.timed)


def lacking(step: Step, archive: Mapping[str, ArchiveEntry]) -> str:
    """The verb or the program that the step needs, and neither the archive nor the job has."""
    file, _, name = step.verb.rpartition("/")
    script, place = (f"verbs/{file}.sh", f"{file}_{name}()") if file else ("runner.sh", f"\t{name}")
    text = step.files().get(f"/{script}") or (archive[script].data.decode() if script in archive else "")
    if not re.search(rf"^{re.escape(place)}[ )]", text, re.M):
        return step.verb
    program = "losetup" if isinstance(step, Loop) else "sh"
    if isinstance(step, Filesystem):
        program = f"mkfs.{step.words.split()[0]}"
    return "" if f"bin/{program}" in archive else program


AXES = tuple(dict.fromkeys(feature.axis for feature in features()))


@pytest.mark.parametrize("axis", AXES[:-1])
def test_a_pair_is_refused_with_a_reason_or_its_guest_has_the_verbs_and_programs_of_its_steps(
    axis: str, lab: Lab
) -> None:
    archives: dict[frozenset[str], Mapping[str, ArchiveEntry]] = {}
    wrong = []
    for pair in pairs(axis).values():
        if pair.scenario is None:
            wrong += [] if re.match(r"\S*pairs\.yaml:1:[0-9]+: \S.{9}", pair.refusal) else [pair.refusal]
            continue
        topology = pair.arm.topology
        key = frozenset((str(topology.emulated), *(f"{s.kind} {s.type}" for s in topology.stacks.values())))
        if key not in archives:
            archives[key] = guest_payload(lab, topology).entries
        wrong += [f"{pair}: {missing}" for step in every_step(pair) if (missing := lacking(step, archives[key]))]
    assert not wrong
    accepted = {feature for both, made in pairs(axis).items() if made.scenario is not None for feature in both}
    assert {feature for feature in features() if feature.axis == axis} <= accepted


def test_large_requests_need_a_driver_that_takes_them() -> None:
    """The kernel refuses 512 KiB for some: such an arm is refused at load, and a pair takes another driver."""
    made = {tuple(map(str, both)): pair for axis in AXES[:-1] for both, pair in pairs(axis).items()}
    for driver, most in (("null_blk", 127), ("megasas", 128), ("megasas-gen2", 128)):
        refused = made[f"driver {driver}", "attribute max_sectors_kb"]
        assert refused.scenario is None
        assert f"max_sectors_kb 512 exceeds {most}, what {driver} takes in a request" in refused.refusal
    taken = made["stack linear", "attribute max_sectors_kb"]
    assert taken.scenario is not None and "driver null_blk" not in str(taken)


@pytest.mark.parametrize("key", ["stripe_cache_size", "group_thread_cnt", "sync_speed_min"])
def test_a_striped_array_has_no_attributes_of_parity_and_resync(key: str) -> None:
    made = {tuple(map(str, both)): pair for both, pair in pairs("stack").items()}
    refused = made["stack md raid0", f"attribute md {key}"]
    assert refused.scenario is None and f"md.{key}: raid0 has no such attribute" in refused.refusal
    assert made["stack md raid5", f"attribute md {key}"].scenario is not None


def test_a_striped_array_takes_requests_of_a_chunk() -> None:
    """raid0_run of drivers/md/raid0.c sets max_hw_sectors."""
    made = {tuple(map(str, both)): pair for both, pair in pairs("stack").items()}
    refused = made["stack md raid0", "attribute own max_sectors_kb"]
    assert refused.scenario is None and "its chunk, the largest request of raid0" in refused.refusal
