# SPDX-License-Identifier: GPL-2.0-only
"""Files that somebody else made: only regular ones of bounded size are read, and only sane JSON."""

import os
from pathlib import Path

import pytest

from harness.base.files import read_json
from harness.figures.boot import MeasurementError, Node, parse
from lab.base import reading


def test_a_regular_file_is_read_through_a_symlink(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b'{"a": 1}')
    (tmp_path / "link").symlink_to("file")
    assert reading.read_regular(tmp_path / "link") == b'{"a": 1}'
    assert read_json(tmp_path / "link") == {"a": 1}


@pytest.mark.timeout(20)
def test_a_device_a_fifo_and_a_folder_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for path in (tmp_path / "fifo", tmp_path / "zero", tmp_path):
        with pytest.raises(OSError, match=r"not a regular file|Is a directory"):
            reading.read_regular(path)
        assert read_json(path) is None


def test_a_file_above_the_limit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.truncate(reading.LIMIT + 1)
    with pytest.raises(OSError, match="larger than 256 MiB"):
        reading.read_regular(path)
    path.write_bytes(b"abc")
    assert reading.read_regular(path, limit=3) == b"abc"
    with pytest.raises(OSError, match="larger than"):
        reading.read_regular(path, limit=2)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[" * 10**6, "nested more than 100 deep"),
        ("[" * 101 + "]" * 101, "nested more than 100 deep"),
        ('{"a": ' * 101 + "1" + "}" * 101, "nested more than 100 deep"),
        ("9" * 400, "an integer of 400 digits"),
        ("9" * 5000, "an integer of 5000 digits"),
        ("NaN", "NaN is not a figure"),
        ("{", "Expecting"),
    ],
    ids=["open", "lists", "objects", "400 digits", "5000 digits", "NaN", "half"],
)
def test_json_that_no_reader_can_use(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        reading.parse_json(text)
    (tmp_path / "x.json").write_text(text)
    assert read_json(tmp_path / "x.json") is None
    with pytest.raises(MeasurementError, match=says):
        parse(text.encode(), "x.json")


def test_json_of_any_common_shape() -> None:
    assert reading.parse_json("[" * 100 + "]" * 100)
    assert reading.parse_json(str(2**64 - 1)) == 2**64 - 1
    assert reading.parse_json(b'{"a": [1, -2.5, null, "x"]}') == {"a": [1, -2.5, None, "x"]}


@pytest.mark.parametrize("key", ["inf", "nan", "1e999", "x"])
def test_a_key_that_is_no_figure(key: str) -> None:
    with pytest.raises(MeasurementError, match="is not a figure"):
        Node({key: 1}, "x.json", "").key_number(key)
