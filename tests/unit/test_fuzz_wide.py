# SPDX-License-Identifier: GPL-2.0-only
"""Ten thousand hostile scenario and topology files, and fio JSON with anything in any place."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.metrics.fio import read_fio
from harness.metrics.node import MeasurementError
from lab.base.errors import Misuse
from lab.topology.load import CATALOGUE, load_topology
from tests.unit.test_metrics_fio import recorded
from tests.unit.test_scenario_fuzz import HOSTILE, WORDS, refuses_or_loads

TOPOLOGY = (CATALOGUE / "neighbours.yaml").read_text()
TOPOLOGY_WORDS = re.findall(r"[^\s:{},\[\]\"]+|[:{},\[\]\"]|\s+", TOPOLOGY)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


def changes(words: list[str]) -> st.SearchStrategy[str]:
    """The text of ``words`` with one to six of them replaced."""
    word = st.one_of(st.sampled_from(HOSTILE), st.sampled_from(words), st.text(max_size=8))
    places = st.dictionaries(st.integers(0, len(words) - 1), word, min_size=1, max_size=6)
    return places.map(lambda new: "".join(new.get(index, old) for index, old in enumerate(words)))


def topology_refuses_or_loads(text: str, folder: Path) -> None:
    path = folder / "t.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        load_topology(str(path), near=folder)
    except Misuse as error:
        assert str(error)


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(changes(TOPOLOGY_WORDS))
def test_hostile_topologies(folder: Path, text: str) -> None:
    topology_refuses_or_loads(text, folder)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(max_examples=6000, suppress_health_check=[HealthCheck.too_slow])
@given(changes(WORDS))
def test_six_thousand_scenarios(folder: Path, text: str) -> None:
    refuses_or_loads(text.encode("utf-8", "surrogatepass"), folder)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(max_examples=4000, suppress_health_check=[HealthCheck.too_slow])
@given(changes(TOPOLOGY_WORDS))
def test_four_thousand_topologies(folder: Path, text: str) -> None:
    topology_refuses_or_loads(text, folder)


def paths(value: Any, at: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Every place in a JSON document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(path for key, item in inner for path in paths(item, (*at, key)))]


DOCUMENT = json.loads(recorded("aio"))
PLACES = [path for path in paths(DOCUMENT) if path]
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(PLACES), ANYTHING)
def test_fio_json_with_anything_in_any_place(place: tuple[str | int, ...], value: Any) -> None:
    document = json.loads(recorded("aio"))
    target = document
    for key in place[:-1]:
        target = target[key]
    target[place[-1]] = value
    try:
        (sample,) = read_fio(json.dumps(document).encode(), {"victim": 4096}).values()
    except MeasurementError as error:
        assert error.message
    else:
        assert sample["iops"] >= 0


@settings(max_examples=300)
@given(st.binary(max_size=400))
def test_fio_json_that_is_none(data: bytes) -> None:
    with pytest.raises(MeasurementError):
        read_fio(data, {"victim": 4096})
