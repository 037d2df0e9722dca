# SPDX-License-Identifier: GPL-2.0-only
"""Hostile and damaged files: a list of mistakes or a value, and never a traceback."""

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.figures.boot import MeasurementError
from harness.intake.capture import capture
from harness.intake.documents import read_text, yaml_text
from harness.intake.draft import Drafter, made_up_topology
from harness.intake.jobfile import read_jobs
from harness.intake.jobs import draft_jobs
from harness.intake.snapshot import Snapshot, collect
from harness.scenario.load import read_scenario
from lab.base.errors import BlklabError, Misuse
from lab.topology.load import CATALOGUE, load_topology
from tests.unit.machine_samples import MachineTree, megaraid, mpt3sas, nvme_four_paths
from tests.unit.scenario_text import GOOD
from tests.unit.test_figures_fio import read_fio, recorded

WORDS = re.findall(r"[^\s:{},\[\]\"]+|[:{},\[\]\"]|\s+", GOOD)
HOSTILE = [
    "", "~", "null", "[]", "{}", "[[", "}", "-", "- -", "? x", "&a", "*a", "<<", "!!python/object:os.system", "!",
    "|", ">", "%", "@",
    "`", "'", '"', "#", "---", "...", "\t", "\0", "\x7f", "\ufeff", "\u2028", "\ud7ff", "😀", "6.10", "1e999",
    "-1", "0", ".inf", ".nan", "9" * 5000, "true", "on", "0x10", "0o7", "1_000", "../../etc/passwd", "/dev/zero", "/",
    ".", "\\x00", '"\\U00110000"', '"\\ud800"', "a" * 300, "queue.iosched.", "hba..", "disk.p0.rate", "bound", "4k",
    "1s", "²", "٣", "\r", "\r\n", ": ", "{a: 1, a: 2}", "{? [x] : y}", "window", "neighbours-one-queue", "inline",
]  # fmt: skip


VALUES = st.recursive(
    st.sampled_from([word for word in HOSTILE if word.isprintable()] + WORDS).map(repr),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        st.dictionaries(st.sampled_from([word for word in WORDS if word.isidentifier()]), inner, max_size=4).map(
            lambda items: "{" + ", ".join(f"{key}: {value}" for key, value in items.items()) + "}"
        ),
    ),
    max_leaves=8,
)
KEYS = re.findall(r"^[a-z]+(?=:)", GOOD, re.MULTILINE)


def any_shape(key: str, value: str) -> str:
    return re.sub(rf"^{key}:.*?(?=^[a-z]|\Z)", lambda _: f"{key}: {value}\n", GOOD, flags=re.MULTILINE | re.DOTALL)


TOPOLOGY = (CATALOGUE / "neighbours.yaml").read_text()
TOPOLOGY_WORDS = re.findall(r"[^\s:{},\[\]\"]+|[:{},\[\]\"]|\s+", TOPOLOGY)


def changes(words: list[str]) -> st.SearchStrategy[str]:
    """The text of ``words`` with one to six of them replaced."""
    word = st.one_of(st.sampled_from(HOSTILE), st.sampled_from(words), st.text(max_size=8))
    places = st.dictionaries(st.integers(0, len(words) - 1), word, min_size=1, max_size=6)
    return places.map(lambda new: "".join(new.get(index, old) for index, old in enumerate(words)))


def load_near(path: str) -> object:
    return load_topology(path, near=Path(path).parent)


LONG = (pytest.mark.slow, pytest.mark.timeout(1800))


@pytest.mark.parametrize(
    ("texts", "load", "examples"),
    [
        pytest.param(changes(WORDS), read_scenario, 300, id="scenarios"),
        pytest.param(st.binary(max_size=300), read_scenario, 150, id="bytes"),
        pytest.param(st.text("ab:-[]{}&*!|>'\"%@,#? \n\t0.1~<\\", max_size=80), read_scenario, 150, id="yaml"),
        pytest.param(st.builds(any_shape, st.sampled_from(KEYS), VALUES), read_scenario, 200, id="shapes"),
        pytest.param(changes(TOPOLOGY_WORDS), load_near, 200, id="topologies"),
        pytest.param(changes(WORDS), read_scenario, 6000, id="many scenarios", marks=LONG),
        pytest.param(changes(TOPOLOGY_WORDS), load_near, 4000, id="many topologies", marks=LONG),
    ],
)
def test_a_hostile_file_never_crashes_its_loader(
    texts: st.SearchStrategy[bytes | str], load: Callable[[str], object], examples: int, tmp_path: Path
) -> None:
    @settings(max_examples=examples, suppress_health_check=[HealthCheck.too_slow])
    @given(texts)
    def refuses_or_loads(data: bytes | str) -> None:
        path = tmp_path / "t.yaml"
        path.write_bytes(data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass"))
        try:
            load(str(path))
        except Misuse as error:
            assert str(error)

    refuses_or_loads()


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
        (sample,) = read_fio(json.dumps(document).encode()).values()
    except MeasurementError as error:
        assert error.message
    else:
        assert sample["iops"] >= 0


@settings(max_examples=300)
@given(st.binary(max_size=400))
def test_fio_json_that_is_none(data: bytes) -> None:
    with pytest.raises(MeasurementError):
        read_fio(data)


EXAMPLES = sorted((Path(__file__).parent / "fixtures" / "fio").glob("*.fio"))
DAMAGES = (
    "",
    "-1",
    "0",
    "1",
    "7",
    "x",
    "9" * 18,
    "8:16",
    "a\tb\tc",
    "none [x]",
    "1 2 multipath 3",
    "0 1 linear 8:16",
    "[[",
    "\n\n",
    "8:32 8:48",
)


@pytest.mark.parametrize("machine", [megaraid, mpt3sas, nvme_four_paths])
def test_damaged_captures(machine: Callable[[Path], MachineTree], tmp_path: Path) -> None:
    whole = dict(collect(machine(tmp_path).root, ()).files)
    dice = random.Random(20)  # noqa: S311
    refused = 0
    for _ in range(150):
        files = dict(whole)
        for name in dice.sample(sorted(files), dice.choice((1, 3, 20))):
            how = dice.randrange(3)
            if how == 0:
                del files[name]
            else:
                other = files[dice.choice(sorted(files))]
                files[name] = dice.choice(DAMAGES) if how == 1 else other
        try:
            captured = capture(Snapshot("damaged", files), "damaged")
        except BlklabError:
            refused += 1
            continue
        read_text(yaml_text(captured.document, captured.notes), "captured.yaml")
    assert refused < 50


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_damaged_job_files(example: Path, tmp_path: Path) -> None:
    lines = example.read_text().splitlines()
    others = [line for path in EXAMPLES for line in path.read_text().splitlines() if "=" in line]
    dice = random.Random(20)  # noqa: S311
    for number in range(10):
        damaged = list(lines)
        for _ in range(dice.choice((1, 2, 5))):
            place = dice.randrange(len(damaged))
            damaged[place : place + 1] = dice.choice(
                ([], [dice.choice(others)], [damaged[place] * 2], [damaged[place][::-1]], ["\x00\xff=", damaged[place]])
            ) or [""]
        path = tmp_path / f"{number}.fio"
        path.write_text("\n".join(damaged))
        try:
            jobs = draft_jobs(read_jobs(path, {}))
            Drafter("damaged", jobs, made_up_topology(jobs), {}).draft({})
        except BlklabError as error:
            assert str(error)
