# SPDX-License-Identifier: GPL-2.0-only
"""Every free parameter of the catalogue has an origin, and every origin a parameter."""

from pathlib import Path

import pytest

from lab.base.errors import InputErrors
from lab.topology import load as loading
from lab.topology.load import load_topology
from tests.unit.test_topology_load import mistakes

BARE = """\
topology: t
title: t
memory: 1G
links:
  wide: {pcie: {generation: 1, lanes: 8}, efficiency: 90}
disks:
  d0..3: {size: 1G, rate: 80 MB/s, seek: 8ms, links: [wide]}
  e: {size: 1G, rate: 80 MB/s, links: [wide]}
hbas:
  h: {driver: tcmu, can_queue: 64}
luns:
  d0..3: {hba: h, disks: [d0..3]}
  e: {hba: h, disks: [e]}
"""
SOME = "origins:\n  - {of: disk.*.rate, cites: the data sheet}\n  - {of: disk.d*.seek, fitted: the stripe}\n"
REST = "  - {of: hba.h.can_queue, cites: x}\n  - {of: link.*.*, chosen: x}\n"


def in_catalogue(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(loading, "CATALOGUE", folder)
    (folder / "t.yaml").write_text(text)
    try:
        load_topology("t", near=Path())
    except InputErrors as errors:
        return str(errors)
    return ""


def test_every_parameter_in_the_catalogue_needs_an_origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = in_catalogue(BARE, tmp_path, monkeypatch)
    every = "disk.*.rate, disk.*.seek, link.*.rate, link.*.efficiency, hba.*.can_queue"
    assert f"parameters without an origin: {every} (write origins: " in found
    found = in_catalogue(BARE + SOME, tmp_path, monkeypatch)
    assert "t.yaml:15:3" in found
    assert "without an origin: link.*.rate, link.*.efficiency, hba.*.can_queue (" in found
    assert in_catalogue(BARE + SOME + REST, tmp_path, monkeypatch) == ""


def test_parameters_without_an_origin_are_listed_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = (SOME + REST).replace("disk.*.rate", "disk.e.rate")
    found = in_catalogue(BARE + few, tmp_path, monkeypatch)
    assert "without an origin: disk.d0.rate, disk.d1.rate, disk.d2.rate, disk.d3.rate (" in found


def test_the_catalogue_has_no_guesses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guess = SOME.replace("cites: the data sheet", "guessed: usual")
    assert "t.yaml:15:5: origins: the catalogue has no guesses" in in_catalogue(BARE + guess, tmp_path, monkeypatch)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "t.yaml").write_text(BARE + guess)
    kinds = {origin.of: origin.kind for origin in load_topology("./t.yaml", near=elsewhere).origins}
    assert kinds["disk.*.rate"] == "guessed"


def test_an_origin_without_a_parameter_is_refused(tmp_path: Path) -> None:
    found = mistakes(BARE + SOME.replace("d*.seek", "*.rpm"), tmp_path)
    assert "t.yaml:16:10: origins: this file has no parameter disk.*.rpm" in found
    assert "(known: disk.*.rate, disk.*.seek, link.*.rate, link.*.efficiency, hba.*.can_queue, disk.*.size)" in found
