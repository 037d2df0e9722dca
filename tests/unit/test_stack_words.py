# SPDX-License-Identifier: GPL-2.0-only
"""Layouts of raid10, write-behind, and the flags of dm-crypt: words of mdadm and of tables, sizes, and refusals."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from lab.guest.steps.device import Array, TableStep
from lab.guest.steps.setting import Confirm
from lab.realise.capability import missing
from lab.realise.recipe import devices
from lab.topology.parameters import apply_setting
from tests.unit.payload_samples import kernel
from tests.unit.test_realise_capability import BUILTIN, PARAMETERS
from tests.unit.test_topology_load import load, mistakes

MIB = 1 << 20
FLAGS = ("no_read_workqueue", "no_write_workqueue", "same_cpu_crypt", "submit_from_crypt_cpus")
TEXT = """\
topology: t
memory: 512M
disks:
  d0..3: {size: 129M, service: 1ms}
hbas:
  h: {driver: null_blk, can_queue: 64}
luns:
  l0..3: {hba: h, disks: [d0..3]}
stacks:
  ten: {kind: md, level: raid10, chunk: 64k, over: [l0..1]}
  one: {kind: md, level: raid1, bitmap: internal, write_mostly: 1, over: [l2..3]}
  secret: {kind: crypt, over: [one]}
"""


@pytest.mark.parametrize(
    "changes, says",
    [
        ({"raid10, chunk: 64k": "raid0, chunk: 64k, layout: far"}, "layout: stack ten: raid0 has no layout"),
        ({"write_mostly: 1": "write_behind: 8"}, "stack one: it needs write_mostly and bitmap: internal"),
        (
            {"bitmap: internal, write": "write_behind: 8, write"},
            "stack one: it needs write_mostly and bitmap: internal",
        ),
        ({"raid10": "raid10, same_cpu_crypt: true"}, "stack ten: kind md has no same_cpu_crypt"),
        ({"kind: crypt": "kind: crypt, layout: far"}, "stack secret: kind crypt has no layout"),
        (
            {"kind: crypt, over": "kind: loop, queue: {async_depth: 8}, over"},
            "stack secret: queue.async_depth needs an elevator: write queue.scheduler",
        ),
    ],
)
def test_words_of_another_stack_are_refused(changes: Mapping[str, str], says: str, tmp_path: Path) -> None:
    text = TEXT
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    assert says.replace("layout: stack", "stack") in mistakes(text, tmp_path)


def test_mdadm_gets_layout_and_write_behind(tmp_path: Path) -> None:
    plain = load(TEXT, tmp_path)
    far = apply_setting(apply_setting(plain, "stack.ten.layout", "far"), "stack.one.write_behind", 256)
    words = {step.name: step.words for step in devices(far) if isinstance(step, Array)}
    assert "--level=raid10 --raid-devices=2 --bitmap=none --chunk=64K --layout=f2 --assume-clean" in words["ten"]
    assert "--bitmap=internal --write-behind=256 --assume-clean /lab/l2 --write-mostly /lab/l3" in words["one"]
    confirmed = [step for step in devices(far) if isinstance(step, Confirm)]
    assert [(step.path, step.value) for step in confirmed] == [("/lab/one.sys/md/bitmap/backlog", "256")]
    before = " ".join(step.words for step in devices(plain) if isinstance(step, Array))
    assert "layout" not in before and "behind" not in before


def test_a_raid10_whose_copies_are_apart_uses_an_even_number_of_chunks_of_each_member(tmp_path: Path) -> None:
    plain = load(TEXT.replace("size: 129M", "size: 3M"), tmp_path)
    odd = replace(plain, stacks={**plain.stacks, "ten": replace(plain.stacks["ten"], size=MIB + 65536)})
    # 17 chunks of 64 KiB on each of two members: near has 17 x 2 / 2, far and offset 17 // 2 x 2.
    assert odd.stack_size("ten") == 17 * 65536
    for layout in ("far", "offset"):
        assert apply_setting(odd, "stack.ten.layout", layout).stack_size("ten") == 16 * 65536


def test_a_table_has_the_flags_of_dm_crypt_and_a_kernel_must_know_them(tmp_path: Path) -> None:
    topology = load(TEXT, tmp_path)

    def row() -> str:
        return next(step.rows[0] for step in devices(topology) if isinstance(step, TableStep))

    assert row().endswith(" 0 /lab/one 0")
    for flag in FLAGS:
        topology = apply_setting(topology, f"stack.secret.{flag}", True)
    assert row().endswith(f" 0 /lab/one 0 4 {' '.join(FLAGS)}")
    modules = ("null_blk", "md-mod", "raid10", "raid1", "dm-mod", "dm-crypt", "aesni-intel")
    made = kernel(tmp_path / "k", dict.fromkeys(modules, ""), builtin=BUILTIN, parameters=PARAMETERS)
    assert missing(made, topology, {}) == tuple(
        f"dm-crypt of 6.1.0-50-amd64 has no {flag}, which came with Linux 5.9" for flag in FLAGS[:2]
    )
