# SPDX-License-Identifier: GPL-2.0-only
"""Hostile files: whatever stands in them, the answer is a list of mistakes and never a traceback."""

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.scenario.load import load_scenario
from lab.base.errors import Misuse
from tests.unit.scenario_text import GOOD

WORDS = re.findall(r"[^\s:{},\[\]\"]+|[:{},\[\]\"]|\s+", GOOD)
HOSTILE = [
    "", "~", "null", "[]", "{}", "[[", "}", "-", "- -", "? x", "&a", "*a", "<<", "!!python/object:os.system", "!",
    "|", ">", "%", "@",
    "`", "'", '"', "#", "---", "...", "\t", "\0", "\x7f", "\ufeff", "\u2028", "\ud7ff", "😀", "6.10", "1e999",
    "-1", "0", ".inf", ".nan", "9" * 5000, "true", "on", "0x10", "0o7", "1_000", "../../etc/passwd", "/dev/zero", "/",
    ".", "\\x00", '"\\U00110000"', '"\\ud800"', "a" * 300, "queue.iosched.", "hba..", "disk.p0.rate", "bound", "4k",
    "1s", "²", "٣", "\r", "\r\n", ": ", "{a: 1, a: 2}", "{? [x] : y}", "window", "neighbours-one-queue", "inline",
]  # fmt: skip


def refuses_or_loads(data: bytes, folder: Path) -> None:
    path = folder / "t.yaml"
    path.write_bytes(data)
    try:
        load_scenario(str(path), search=folder)
    except Misuse as error:
        assert str(error)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.tuples(st.integers(0, len(WORDS) - 1), st.one_of(st.sampled_from(HOSTILE), st.sampled_from(WORDS))),
        min_size=1,
        max_size=4,
    )
)
def test_a_valid_file_with_replaced_words_never_crashes_the_loader(
    folder: Path, changes: list[tuple[int, str]]
) -> None:
    words = list(WORDS)
    for index, word in changes:
        words[index] = word
    refuses_or_loads("".join(words).encode(), folder)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=300))
def test_arbitrary_bytes(folder: Path, data: bytes) -> None:
    refuses_or_loads(data, folder)


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet="ab:-[]{}&*!|>'\"%@,#? \n\t0.1~<\\", max_size=80))
def test_arbitrary_yaml(folder: Path, text: str) -> None:
    refuses_or_loads(text.encode(), folder)


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


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(KEYS), VALUES)
def test_any_shape_under_any_key(folder: Path, key: str, value: str) -> None:
    body = re.sub(rf"^{key}:.*?(?=^[a-z]|\Z)", lambda _: f"{key}: {value}\n", GOOD, flags=re.MULTILINE | re.DOTALL)
    refuses_or_loads(body.encode(), folder)
