# SPDX-License-Identifier: GPL-2.0-only
"""Digests of results and the meaning of values, which no field with a default changes."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.base.plain import meaning, to_plain
from harness.scenario.load import read_scenario
from lab.base.digest import canonical, digest_bytes, digest_file, digest_results


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
        return read_scenario(str(path), search=tmp_path).digest

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


GOLDEN = {"solo.json": b'{"b": 1.50, "a": [1, "x"]}\n', "readback": b"k\tp\t1\n", "kmsg": b"[ 1.0] noise"}


def test_the_definition_leaves_out_evidence_white_space_and_order() -> None:
    text = '{"readback":"k\\tp\\t1\\n","solo.json":{"a":[1,"x"],"b":1.5}}'
    assert digest_results(GOLDEN) == hashlib.sha256(text.encode()).hexdigest()
    same = {"kmsg": b"other", "readback": GOLDEN["readback"], "solo.json": b'{"a":[1,"x"],"b":15e-1}'}
    assert digest_results(same) == digest_results(GOLDEN)


@pytest.mark.parametrize(
    "change",
    [
        {"solo.json": b'{"b": 1.5000000000000002, "a": [1, "x"]}'},
        {"solo.json": b'{"b": 1.50, "a": [1, "x"]'},
        {"solo.json": b""},
        {"readback": b"k\tp\t2\n"},
        {"readback": b"k\tp\t1"},
        {"solo.before": b""},
    ],
)
def test_every_measured_byte_counts(change: dict[str, bytes]) -> None:
    assert digest_results({**GOLDEN, **change}) != digest_results(GOLDEN)


@pytest.mark.parametrize(
    "data",
    [
        b"NaN",
        b'{"iops": Infinity}',
        b'{"iops": -Infinity}',
        b'{"iops": 1e999}',
        b'"\\ud800"',
        b"[" * 100_000,
        b"9" * 5000,
        b"\xff\xfe",
        b"",
        b"{",
    ],
    ids=range(10),
)
def test_a_damaged_document_has_a_digest_too(data: bytes) -> None:
    assert digest_results({"solo.json": data}) == digest_results({"solo.json": data})
    assert digest_results({"solo.json": data}) != digest_results({"solo.json": data + b"0"})


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
    max_leaves=10,
)
SOUND = VALUES.filter(lambda value: "\\ud" not in json.dumps(value))


@given(SOUND)
def test_canonical_text_means_the_same_value(value: object) -> None:
    assert json.loads(canonical(value)) == value
    assert digest_results({"a.json": json.dumps(value, indent=3).encode()}) == digest_results(
        {"a.json": canonical(value)}
    )


@given(st.dictionaries(st.text("abcdefgh.json", min_size=1), st.binary(max_size=60), max_size=4))
def test_any_files_have_a_digest_that_does_not_depend_on_their_order(files: dict[str, bytes]) -> None:
    assert digest_results(files) == digest_results(dict(reversed(files.items())))


def test_a_file_has_the_digest_of_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * 10**6)
    assert digest_file(tmp_path / "f") == digest_bytes(b"x" * 10**6) == hashlib.sha256(b"x" * 10**6).hexdigest()
