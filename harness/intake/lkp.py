# SPDX-License-Identifier: GPL-2.0-only
"""The fio job of a 0-day performance report: its parameters, as a table or as ``key: value`` lines, and its commit.

What they mean to fio is by setup/fio-setup-basic of lkp-tests (4f8edfb3de94).
"""

import email
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain, pairwise
from pathlib import Path

from harness.intake.documents import accepts
from harness.intake.jobfile import FioJob, FioOption, fio_size
from lab.base.errors import Misuse
from lab.base.reading import read_regular
from lab.base.units import printable
from lab.topology.fields import FS_TYPE

_MOST_BYTES = 8 << 20
_LONGEST = 200
_QUOTED = re.compile(r"^[>\s]*")
_NAMES = re.compile(r"\w+(/\w+){3,40}:?")
_PAIR = re.compile(r"([a-z]\w{0,40}): (\S+)")
_SAME = ("bs", "rw", "ioengine", "iodepth", "runtime", "rwmixread", "random_distribution")
"""Parameters that are options of fio."""
_FLAGS = {"direct": "direct", "time_based": "tb"}
"""Parameters that are flags of fio, with the word that lkp-tests has for "yes"."""
_DEFAULTS = {"bs": "4k", "ioengine": "sync", "iodepth": "32", "rw": "write", "runtime": "300"}
_TEST = "fio-basic"
_OWN_TEST = re.compile(r"(?:in )?testcase: ([\w-]+)")
_COMMIT = re.compile(r"commit: ([0-9a-f]{12,40})\b")
_TREE = re.compile(r"https?://\S+/([\w.-]{1,40})\.git\b")
_ON_FILES = 256 << 20
"""Bytes of files that a guest keeps in its memory."""
_SUPPLIED = {"disk", "nr_task", "test_size", "testcase"}
_REMEDY = "give the report itself: a line such as bs/disk/fs/ioengine/nr_task/rw/testcase: over its values"

Parameters = Mapping[str, FioOption]


def read_report(path: Path) -> FioJob:
    """The job of the fio test that a mail is about. Raises Misuse."""
    try:
        lines = [_QUOTED.sub("", line).rstrip() for line in _text(read_regular(path, _MOST_BYTES)).split("\n")]
    except OSError as error:
        raise Misuse(f"{path} cannot be read: {error.strerror}", remedy="check the path") from error
    except RecursionError as error:
        raise Misuse(f"{path}: its parts are nested too deeply", remedy=_REMEDY) from error
    blocks = [*_tables(lines, str(path)), *_lists(lines, str(path))]
    tests = [block for block in blocks if "rw" in block and _value(block, "testcase") in ("", _TEST)]
    if not tests:
        others = sorted({_value(block, "testcase") for block in blocks} - {"", _TEST})
        what = f"its tests are {', '.join(others)[:_LONGEST]}" if others else "it has no table of parameters"
        raise Misuse(f"{path} is no report of {_TEST}: {what}", remedy=_REMEDY)
    named = (match[1] for line in lines if (match := _OWN_TEST.fullmatch(line)))
    own = next(chain(named, (_value(block, "testcase") for block in blocks)), "")
    if own not in ("", _TEST):
        where = f"its {_TEST} at line {tests[0]['rw'].line} is of another table"
        raise Misuse(f"{path} is a report of {own}: {where}", remedy="to draft that, give a file with that table alone")
    pairs = ((_COMMIT.match(line), _TREE.search(below)) for line, below in pairwise(lines))
    commits = [(commit[1], tree[1]) for commit, tree in pairs if commit and tree]
    how = (f"the commit is of {tree}: --kernel tree:CLONE@{sha} --base tree:CLONE@{sha}~1" for sha, tree in commits[:1])
    return replace(_job(tests[0], str(path)), notes=tuple(how))


def _text(data: bytes) -> str:
    """The plain text of a mail, decoded; text without headers as it is."""
    mail = email.message_from_bytes(data)
    parts = [part for part in mail.walk() if part.get_content_type() == "text/plain"]
    bodies = [part.get_payload(decode=True) for part in parts] if mail.keys() else []
    return b"\n".join(body for body in bodies or [data] if isinstance(body, bytes)).decode("utf-8", "replace")


def _value(block: Parameters, name: str) -> str:
    return block[name].value if name in block else ""


def _option(name: str, value: str, path: str, line: int) -> FioOption:
    return FioOption(name, printable(value[:_LONGEST]), path, line)


def _tables(lines: list[str], path: str) -> Iterator[Parameters]:
    """Each line of names between slashes with the line of values below it."""
    for number, (line, below) in enumerate(pairwise(lines), start=1):
        names, values = line.removesuffix(":").split("/"), below.split("/")
        if _NAMES.fullmatch(line) and "testcase" in names:
            if len(names) != len(values):
                raise Misuse(
                    f"{path}:{number + 1}: {len(values)} values for {len(names)} parameters",
                    remedy="join the lines of the table that a mail program broke",
                )
            yield {key: _option(key, value, path, number + 1) for key, value in zip(names, values, strict=True)}


def _lists(lines: list[str], path: str) -> Iterator[Parameters]:
    """The ``key: value`` lines below each "parameters:"."""
    for start, line in enumerate(lines):
        if not line.endswith("parameters:"):
            continue
        block: dict[str, FioOption] = {}
        for number, below in enumerate(lines[start + 1 :], start=start + 2):
            pair = _PAIR.fullmatch(below)
            if pair:
                block[pair[1]] = _option(pair[1], pair[2], path, number)
            elif below or block:
                break
        yield block


def _job(block: Parameters, path: str) -> FioJob:
    line = block["rw"].line
    options = {name: FioOption(name, value, path, line) for name, value in _DEFAULTS.items()}
    options |= {name: block[name] for name in _SAME if name in block}
    for name, yes in _FLAGS.items():
        if name in block:
            value = str(int(block[name].value in (yes, "1", "true")))
            options[name] = _option(name, value, path, block[name].line)
    disk = re.sub(r"\W", "", _value(block, "disk")) or "disk"
    filesystem = _value(block, "fs") if accepts(FS_TYPE, _value(block, "fs")) else ""
    name, place = ("directory", f"/fs/{disk}") if filesystem else ("filename", f"/dev/{disk}")
    options[name] = FioOption(name, place, path, line)
    supplied = {*options, *_SUPPLIED, *(("fs",) if filesystem else ())}
    left = {name: "" for name in block if name not in supplied}
    tasks = re.fullmatch(r"([1-9]\d{0,5})t?", _value(block, "nr_task") or "1")
    if tasks:
        options["numjobs"] = FioOption("numjobs", tasks[1], path, line)
    count, total = int(tasks[1]) if tasks else 1, _size(block["test_size"]) if "test_size" in block else 0
    kept = min(total or _ON_FILES, _ON_FILES) if filesystem else total if tasks else 0
    if kept:
        options["size"] = FioOption("size", str(kept // count // 4096 * 4096), path, line)
    if total != kept and "test_size" in block:
        left["test_size"] = f": a guest keeps {kept >> 20} MiB of files in its memory" if kept else ""
    if not tasks:
        left["nr_task"] = ""
    options |= {name: block[name] for name in left}
    return FioJob(_TEST, path, line, options, left, filesystem)


def _size(total: FioOption) -> int:
    try:
        return fio_size(total.value)
    except ValueError as error:
        raise Misuse(f"{total.location}: test_size: {error}", remedy="write a size such as 128G") from error
