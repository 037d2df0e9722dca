# SPDX-License-Identifier: GPL-2.0-only
"""The strict YAML subset: what is refused, where, and with which remedy."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from lab.base.errors import EXIT_MISUSE, InputErrors, Misuse
from lab.yaml.fields import Field, Flag, Integer, Kind, ListOf, Record, Text, rate, size, time
from lab.yaml.strict import MAX_BYTES, Items, Map, Node, Problems, Scalar, parse, plain_value, read_bytes


def parsed(text: str | bytes) -> tuple[Node, list[str]]:
    problems = Problems()
    node = parse(text.encode() if isinstance(text, str) else text, "f.yaml", problems)
    return node, [str(problem) for problem in sorted(problems.all)]


def mistakes(text: str | bytes) -> list[str]:
    return parsed(text)[1]


def read_with(kind: Field, text: str) -> tuple[object, list[str]]:
    problems = Problems()
    row = Record((kind,)).read(problems, "test", parse(text.encode(), "f.yaml", problems))
    assert row is not None
    return row.get(kind), [str(problem) for problem in sorted(problems.all)]


def test_nodes_have_line_and_column() -> None:
    node, problems = parsed("a: 1\nb:\n  - x\n  - {c: 'd'}\n")
    assert not problems
    assert isinstance(node, Map)
    items = node.entries["b"].value
    assert isinstance(items, Items)
    inner = items.items[1]
    assert isinstance(inner, Map)
    place = inner.entries["c"].value.mark
    assert (place.path, place.line, place.column) == ("f.yaml", 4, 9)


def test_yaml_1_1_booleans_and_dates_are_strings_and_windows_line_ends_are_accepted() -> None:
    node, problems = parsed("[on, off, yes, no, y, 2006-03-14, 1:30, 0777x, true, 12, 1.5, ~]")
    assert not problems
    assert plain_value(node) == ["on", "off", "yes", "no", "y", "2006-03-14", "1:30", "0777x", True, 12, 1.5, None]
    assert len(mistakes("a: &x 1\na: !t 2\n3: 4\n")) == 4
    node, problems = parsed("a: 1\r\nb: x\r\n")
    assert not problems
    assert plain_value(node) == {"a": 1, "b": "x"}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a: 1\nb: 2\na: 3\n", "f.yaml:3:1: a: duplicate key, first in line 1 (remove one)"),
        ("a: &x 1\nb: *x\n", "f.yaml:1:4: anchor &x: anchors and aliases are refused (remove it)"),
        ("a: &x 1\nb: *x\n", "f.yaml:2:4: alias *x: anchors and aliases are refused (write the value out)"),
        ("a: {<<: {b: 1}}\n", "f.yaml:1:5: merge keys are refused (write the keys out)"),
        ("a: !!str 1\n", 'f.yaml:1:4: tag "tag:yaml.org,2002:str": tags are refused (remove it)'),
        ("a: !x {}\n", 'f.yaml:1:4: tag "!x": tags are refused (remove it)'),
        ("a: 1\n---\nb: 2\n", "f.yaml:2:1: more than one document in the file (write one file for each)"),
        ("%YAML 1.1\n---\na: 1\n", "f.yaml:1:1: YAML directives are refused (remove the lines that start with %)"),
        ("6.10: x\n", 'f.yaml:1:1: key 6.10: expected a string (quote it: "6.10")'),
        ("{a: 1}: x\n", "f.yaml:1:1: a key must be a scalar"),
        ("a:\n\tb: 1\n", "f.yaml:2:1: a tab (use spaces)"),
        ("a: \x07\n", "f.yaml:1:4: an invisible character, U+0007 (remove it)"),
        ("\ufeffa: 1\n", "f.yaml:1:1: an invisible character, U+FEFF (remove it)"),
        ("a: b\u202ec\n", "f.yaml:1:5: an invisible character, U+202E (remove it)"),
        ("a: b\u2028c: d\n", "f.yaml:1:5: an invisible character, U+2028 (remove it)"),
        ('a: "\\e[2J"\n', 'f.yaml:1:4: control characters in "\x1b[2J" (remove them)'),
        ("", "f.yaml:1:1: the file is empty"),
        (" \n\n", "f.yaml:1:1: the file is empty"),
        ("# nothing\n", "f.yaml:1:1: the file is empty"),
        (b"a: 1\nb: \xff\n", "f.yaml:2:4: not UTF-8 (save the file as UTF-8)"),
        ("a: [" * 40, "f.yaml:1:"),
        ("[" * 50_000, "nested deeper than 16 levels"),
        ("a: [1, 2\nb: 3\n", "f.yaml:2:2: not YAML"),
        ('a: "x\n', "not YAML"),
        ('a: "\\U00ffffff"\n', "not YAML"),
        ("a: @x\n", "f.yaml:1:4: not YAML"),
        (b"a" * (MAX_BYTES + 1), "larger than 1 MiB"),
    ],
)
def test_refused_yaml_is_reported_at_its_place(text: str | bytes, wanted: str) -> None:
    found = mistakes(text)
    assert any(wanted in problem for problem in found), found


def test_a_scalar_has_the_position_of_each_character() -> None:
    node, _ = parsed('a: "bcd"\ne: fgh\ni: "\\x41bc"\n')
    assert isinstance(node, Map)
    columns = {}
    for key, entry in node.entries.items():
        assert isinstance(entry.value, Scalar)
        columns[key] = entry.value.inside(2).column
    assert columns == {"a": 7, "e": 6, "i": 4}


@pytest.mark.parametrize(
    ("kind", "text", "value", "problem"),
    [
        (Integer(1, 64), "k: 32", 32, ""),
        (Integer(1, 64), 'k: "32"', None, 'f.yaml:1:4: k: expected an integer, got "32" (remove the quotes)'),
        (Integer(1, 64), "k: 3.0", None, "k: expected an integer, got 3.0"),
        (Integer(1, 64), "k: 65", None, "k: expected an integer from 1 to 64, got 65"),
        (Integer(1, 64), "k: " + "9" * 9999, None, "expected an integer from 1 to 64"),
        (Integer(1, 64), "k: 0x10", None, "k: expected an integer, got 0x10"),
        (Integer(1, 64), "k: [1]", None, "k: expected an integer, got a list"),
        (Integer(1, 64), "k:", None, "k: expected an integer, got nothing"),
        (Flag(), "k: true", True, ""),
        (Flag(), "k: on", None, "k: expected true or false, got on (write true, without quotes)"),
        (Flag(), 'k: "true"', None, 'k: expected true or false, got "true" (write true, without quotes)'),
        (Text(), 'k: "6.10"', "6.10", ""),
        (Text(), "k: 6.10", None, 'k: expected a string, got 6.10, a number in YAML (quote it: "6.10")'),
        (Text("a bound", ">= .*"), "k: 0.9", None, "k: expected a bound, got 0.9, a number in YAML"),
        (Text(), "k: 6", None, 'k: expected a string, got 6 (quote it: "6")'),
        (Text(), "k: true", None, 'k: expected a string, got true (quote it: "true")'),
        (Text(), "k: null", None, "k: expected a string, got nothing"),
        (Text(), 'k: " "', None, "k: expected a string"),
        (size(), "k: 4k", 4096, ""),
        (size(), "k: 512", 512, ""),
        (size(), 'k: "4 KiB"', 4096, ""),
        (size(), "k: 4x", None, "k: expected a size such as 4k or 256M, got 4x"),
        (rate(), "k: 1 MB/s", 10**6, ""),
        (rate(), "k: 1", None, "k: expected a rate such as 1 MB/s, got 1 (add the unit)"),
        (time(1, 10**9), "k: 4ms", 4 * 10**6, ""),
        (time(1, 10**9), "k: 2s", None, 'k: expected at most 1 s, got "2s"'),
        (time(0, 10**9, step=1000), "k: 5ns", None, 'k: "5ns" is not a multiple of 1 us'),
        (ListOf(Integer(1, 9), least=1), "k: [1, 2]", (1, 2), ""),
        (ListOf(Integer(1, 9), least=1), "k: []", None, "k: expected 1 to 256 entries, got 0"),
        (ListOf(Integer(1, 9)), "k: 1", None, "k: expected a list, got 1"),
    ],
)
def test_typed_values(kind: Kind, text: str, value: object, problem: str) -> None:
    found, problems = read_with(Field("k", kind), text)
    if problem:
        assert any(problem in each for each in problems), problems
    else:
        assert (found, problems) == (value, [])


def test_a_misspelt_key_gets_a_suggestion_and_a_missing_key_is_reported() -> None:
    problems = Problems()
    record = Record((Field("iodepth", Integer(1, 9), required=True), Field("bs", size(), required=True)))
    record.read(problems, "victim", parse(b"iodpeth: 1\nzzz: 2\n", "f.yaml", problems))
    with pytest.raises(InputErrors) as caught:
        problems.raise_if_any()
    assert str(caught.value).splitlines() == [
        "f.yaml:1:1: iodpeth: unknown key, did you mean iodepth?",
        "f.yaml:2:1: zzz: unknown key (known: iodepth, bs)",
        "f.yaml:1:1: victim: bs is missing",
    ]
    assert caught.value.exit_code == EXIT_MISUSE


def test_a_file_that_never_ends_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """/proc/kmsg says that it is a regular file; without O_NONBLOCK reading it waits for the kernel's next message."""
    path = tmp_path / "kmsg"
    path.write_text("a: 1\n")
    nothing_yet = SimpleNamespace(read=lambda size: None)
    monkeypatch.setattr("lab.base.reading.open_regular", lambda _: nullcontext(nothing_yet))
    with pytest.raises(Misuse, match="its end is never reached"):
        read_bytes(path, "scenario")


def test_an_unreadable_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(Misuse, match="does not exist"):
        read_bytes(tmp_path / "none.yaml", "scenario")
    with pytest.raises(Misuse, match="not a regular file"):
        read_bytes(tmp_path, "scenario")
    with pytest.raises(Misuse):
        read_bytes(tmp_path / "x\0y", "scenario")
    huge = tmp_path / "huge.yaml"
    huge.write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(Misuse, match="larger than 1 MiB"):
        read_bytes(huge, "scenario")
