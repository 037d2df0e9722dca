# SPDX-License-Identifier: GPL-2.0-only
"""What a value means is the same however many fields with defaults its class has."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harness.base.plain import meaning, to_plain
from harness.scenario.load import load_scenario
from lab.base.digest import canonical


@dataclass(frozen=True)
class Disk:
    rate: int
    ncq: int = 1
    zones: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class LaterDisk(Disk):
    look_ahead: int | None = None


def test_a_field_added_with_a_default_changes_no_meaning_and_what_is_no_default_is_meant() -> None:
    assert canonical(meaning([Disk(8)])) == canonical(meaning([LaterDisk(8)])) == b'[{"rate":8}]'
    assert to_plain(Disk(8)) != to_plain(LaterDisk(8))
    changed = (Disk(8, ncq=2), Disk(8, zones={"inner": 4}), LaterDisk(8, look_ahead=0), Disk(9))
    assert len({canonical(meaning(one)) for one in (*changed, Disk(8))}) == 5


@pytest.fixture
def digest_with(tmp_path: Path) -> Callable[[str, str], str]:
    """The digest of a scenario on one disk of a rate with an origin, from files of that name."""
    path = tmp_path / "s.yaml"
    path.write_text(_SCENARIO)

    def digest(rate: str, why: str) -> str:
        (tmp_path / "t.yaml").write_text(_TOPOLOGY.format(rate=rate, why=why))
        return load_scenario(str(path), search=tmp_path).digest

    return digest


def test_origins_of_figures_are_not_in_the_digest(digest_with: Callable[[str, str], str]) -> None:
    assert digest_with("8 MB/s", "a guess") == digest_with("8 MB/s", "a data sheet")
    assert digest_with("8 MB/s", "a guess") != digest_with("9 MB/s", "a guess")


_TOPOLOGY = """
topology: t
title: One disk
memory: 512M
disks: {{d0: {{size: 64M, rate: {rate}}}}}
hbas: {{host: {{driver: tcmu, can_queue: 1024, cmd_per_lun: 4}}}}
luns: {{d0: {{hba: host, disks: [d0]}}}}
origins:
  - {{of: disk.*.rate, chosen: {why}}}
"""
_SCENARIO = """
scenario: s
title: One reader
clock: virtual
schema: 1
topology: ./t.yaml
queue: {scheduler: none}
window: {ramp: 500ms, runtime: 1s}
arms: {one: {}}
loads:
  stream:
    reader: {disk: d0, rw: read, bs: 64k, iodepth: 1}
claims:
  - that: the disk reads at its own rate
    ratio: one.stream.reader.bw / bound.one.stream.reader.bw
    expect: "0.95 .. 1.05"
controls:
  - that: never
    ratio: one.stream.reader.bw / bound.one.stream.reader.bw
    expect: "<= 0.6"
"""
