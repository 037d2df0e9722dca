# SPDX-License-Identifier: GPL-2.0-only
"""fio jobs by fio's own rules (init.c of fio 3.42): job files, commands in shell scripts, and fio's output; and the job
of a 0-day performance report, by its parameters as a table or as ``key: value`` lines, and its commit.

Values are by "Parameter types" of fio's HOWTO (3.42) with kb_base=1024. What the parameters of a report mean to fio is
by setup/fio-setup-basic of lkp-tests (4f8edfb3de94).
"""

import email
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise, takewhile
from pathlib import Path

from harness.intake.documents import accepts
from lab.base.errors import InputErrors, Misuse, Problem
from lab.base.reading import LIMIT, parse_json, read_regular
from lab.base.units import printable
from lab.topology.fields import FS_TYPE
from lab.yaml.strict import quoted

_MICROSECONDS = {"d": 86_400_000_000, "h": 3_600_000_000, "m": 60_000_000, "s": 1_000_000, "ms": 1000, "us": 1}


def fio_integer(text: str) -> int:
    """A decimal or 0x number without a unit. Raises ValueError."""
    if not re.fullmatch(r"[0-9]{1,18}|0[xX][0-9a-fA-F]{1,15}", text):
        raise ValueError(f'"{text}" is not a whole number')
    return int(text, 16 if text[:2].lower() == "0x" else 10)


def fio_size(text: str) -> int:
    """Bytes; with a unit k, m, g, t or p these are powers of 1024, and ki, mi ... powers of 1000. Raises ValueError."""
    match = re.fullmatch(r"(0x[0-9a-f]+|[0-9]+)(?:([kmgtp])(i?))?b?", text.lower())
    if match is None:
        raise ValueError(f'"{text}" is not a size')
    power = " kmgtp".index(match[2] or " ")
    return fio_integer(match[1]) * int((1000 if match[3] else 1024) ** power)


def fio_time(text: str, unit: str = "s") -> int:
    """Nanoseconds; a bare number is in ``unit``. Raises ValueError."""
    match = re.fullmatch(r"([0-9]+)(?:([dhm])|([mu]?s)(?:ec)?)?", text.lower())
    if match is None:
        raise ValueError(f'"{text}" is not a time')
    return fio_integer(match[1]) * _MICROSECONDS[match[2] or match[3] or unit] * 1000


def fio_flag(text: str) -> bool:
    """A boolean; an option without a value is true. Raises ValueError."""
    if text not in ("", "0", "1", "true", "false"):
        raise ValueError(f'"{text}" is not 0 or 1')
    return text in ("", "1", "true")


def _read(path: Path, most: int) -> bytes:
    """Raises Misuse."""
    try:
        return read_regular(path, most)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise Misuse(f"{path} cannot be read: {why}", remedy="check the path") from error


_MOST_BYTES, _MOST_OF_MAIL = 1 << 20, 8 << 20
_COMMENT = re.compile(r"[;#]")
_VARIABLE = re.compile(r"\$\{([^}]*)\}")
_KEYWORD = re.compile(r"\$(pagesize|mb_memory|ncpus)\b")
_PAGE = "4096"
ALIASES = {
    "readwrite": "rw",
    "blocksize": "bs",
    "blocksize_range": "bsrange",
    "wait_for_previous": "stonewall",
    "timeout": "runtime",
}
"""Other names that fio has for options of this package."""


@dataclass(frozen=True)
class FioOption:
    """An option as written; ``value`` is empty where it has none. ``line`` counts from 1."""

    name: str
    value: str
    path: str
    line: int

    @property
    def location(self) -> str:
        return f"{self.path}:{self.line}"

    def problem(self, message: str, remedy: str) -> Problem:
        return Problem(self.path, self.line, 1, f"{self.name}: {message}", remedy)


@dataclass(frozen=True)
class FioJob:
    """A section that is not global, with the options of the global sections above it.

    ``left`` are options that no job of fio has, each with why it is left out, ``filesystem`` is where its files are.
    """

    name: str
    path: str
    line: int
    options: Mapping[str, FioOption] = field(default_factory=dict)
    left: Mapping[str, str] = field(default_factory=dict)
    filesystem: str = ""
    notes: tuple[str, ...] = ()


def read_jobs(path: Path, variables: Mapping[str, str] | None = None) -> tuple[FioJob, ...]:
    """The jobs of a job file, or of the fio commands of a shell script, of which nothing is executed.

    ``variables`` replace ${NAME} (the environment, if not given).

    Raises InputErrors with all mistakes of the file, Misuse if it cannot be read.
    """
    reader = _Reader(os.environ if variables is None else variables)
    jobs = reader.read(path)
    if not jobs and not reader.problems:
        lacks = "no job: the file has no section besides global", "add [job]"
        if reader.is_script:
            remedy = "write fio --name=job ... in a line, or draft the job file that it uses"
            lacks = "a shell script without a fio command that names a job", remedy
        reader.problems.append(Problem(str(path), 1, 1, *lacks))
    if reader.problems:
        raise InputErrors(reader.problems)
    return jobs


_SHELL = re.compile(r"#!\S*[/ ](ba|da|k|z)?sh\b")
_SHELL_VARIABLE = re.compile(r"\$(?:(?=\w)|\{(?=\w+\}))(\w+)\}?")
_COMMAND = re.compile(r"(sudo\s+)?(\S*/)?fio\s+(?=-)")
_NOT_FIRST = re.compile(r"[^#]*[\s;(`&|](\S*/)?fio\s+-")
_OPENS = re.compile(r"(for|while|until|if|case|select|function)\b|\w+\s*\(\)")
_CLOSES = re.compile(r"(^|[;\s])(done|fi|esac|\})\s*(;|$)")
_ASSIGNMENT = re.compile(r"(?:export\s+)?(\w+)=([\"']?)([\w/.:,%-]*)\2\s*(#.*)?")
_ENDS = re.compile(r"[0-9]?[|<>].*|&>.*|;")


class _Reader:
    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = dict(variables)
        self.problems: list[Problem] = []
        self.is_script = False

    def read(self, path: Path) -> tuple[FioJob, ...]:
        common: dict[str, FioOption] = {}
        jobs: list[FioJob] = []
        section = ""
        rows = _read(path, _MOST_BYTES).decode("utf-8", "replace").split("\n")
        self.is_script = bool(_SHELL.match(rows[0]) or any(_COMMAND.match(row.strip()) for row in rows))
        lines = ((number, _COMMENT.split(row)[0].strip()) for number, row in enumerate(rows, start=1))
        for number, line in self._commands(path, rows) if self.is_script else filter(lambda each: each[1], lines):
            if not line:
                common, section = {}, "global"
            elif line.startswith("["):
                # sscanf("[%255[^\n]]") takes the line up to its end, less the last character.
                section = line[1:].rstrip().removesuffix("]")
                if not line.endswith("]") or not section:
                    self.problems.append(Problem(str(path), number, 1, f"{quoted(line)} is no section", "write [job]"))
                if not section.startswith("global"):
                    jobs.append(FioJob(printable(section), str(path), number, common))
            elif section and not section.startswith("global"):
                jobs[-1] = replace(jobs[-1], options=_with(jobs[-1].options, self._option(path, number, line)))
            else:
                common = _with(common, self._option(path, number, line, outside=not section))
        return tuple(jobs)

    def _commands(self, path: Path, rows: Sequence[str]) -> Iterator[tuple[int, str]]:
        """The fio commands of a script as lines of a job file, "" before each; those not executed once are refused.

        fio takes what stands before the first --name as options of all jobs.
        """
        depth, inside, count, begun = 0, False, 0, 0
        for number, row in enumerate(rows, start=1):
            line = row.strip()
            begins = None if inside else _COMMAND.match(line)
            if (begins and depth) or (not begins and not inside and _NOT_FIRST.match(line)):
                what = "a fio command in a loop, in a condition or behind another one: scripts are not executed"
                self._refuse(path, number, what, "write it in a line of its own, with its values")
            elif begins:
                count += 1
                yield number, ""
            elif not depth and (assigned := _ASSIGNMENT.fullmatch(line)):
                self._variables[assigned[1]] = assigned[3]
            inside = inside or bool(begins and not depth)
            for option in self._words(path, number, line[begins.end() :] if begins else line) if inside else ():
                name, _, section = option.partition("=")
                yield number, f"[{section}]" if name == "name" else option
                if name == "name" and begun < count and not section.startswith("global"):
                    # The first job of a later command waits for those of the commands before it.
                    yield from ((number, "stonewall"),) if count > 1 else ()
                    begun = count
            inside = inside and line.endswith("\\")
            depth = max(0, depth + bool(_OPENS.match(line)) - bool(_CLOSES.search(line)))

    def _refuse(self, path: Path, number: int, what: str, remedy: str) -> None:
        self.problems.append(Problem(str(path), number, 1, what, remedy))

    def _words(self, path: Path, number: int, line: str) -> list[str]:
        """The options in a line of a command, up to a pipe or a redirection."""
        options: list[str] = []
        try:
            words = shlex.split(line.removesuffix("\\"), comments=True)
        except ValueError as error:
            self._refuse(path, number, f"{error} in this line", "write the command in one line")
            words = []
        for word in takewhile(lambda word: not _ENDS.fullmatch(word), words):
            if word.startswith("-"):
                options.append(word.lstrip("-"))
            elif options and "=" not in options[-1]:
                options[-1] += f"={word}"
            else:
                remedy = "write each command in lines of its own, and draft job files by themselves"
                self._refuse(path, number, f"{printable(word)} is no option of fio", remedy)
        return options

    def _option(self, path: Path, number: int, line: str, *, outside: bool = False) -> FioOption:
        name, _, value = (printable(part).strip() for part in line.partition("="))
        option = self._expand(FioOption(ALIASES.get(name, name), value, str(path), number))
        if name.startswith("include "):
            self.problems.append(option.problem("included files are not read", "write their options in its place"))
        if outside:
            self.problems.append(option.problem("outside of a section", "write [global] above it"))
        return option

    def _expand(self, option: FioOption) -> FioOption:
        variable = _SHELL_VARIABLE if self.is_script else _VARIABLE
        for name in variable.findall(option.value):
            if not self._variables.get(name):
                # fio puts the empty string there.
                self.problems.append(option.problem(f"${{{name}}} is not set", f"{name}=VALUE blklab draft ..."))
        for word in _KEYWORD.findall(option.value):
            if word != "pagesize":
                message = f"${word} is of the machine that runs fio"
                self.problems.append(option.problem(message, "write the number that it has there"))
        value = variable.sub(lambda name: self._variables.get(name[1], ""), option.value)
        if self.is_script and re.search("[$`*]", value):
            self.problems.append(option.problem("the shell makes its value", "write the value"))
        return replace(option, value=_KEYWORD.sub(_PAGE, value))


def _with(options: Mapping[str, FioOption], option: FioOption) -> dict[str, FioOption]:
    """Of a name the last one counts, but fio adds each filename, and those of global sections too (``dup_files``)."""
    if option.name == "filename" and option.name in options:
        option = replace(option, value=f"{options[option.name].value}:{option.value}")
    return {**options, option.name: option}


_REMEDY = "write it with fio --output-format=json --output=FILE JOB.fio"


def reported_iops(path: Path) -> dict[str, float]:
    """I/Os a second of each job, by its name; of clones their sum. Raises Misuse."""
    text = _read(path, LIMIT).decode("utf-8", "replace")
    try:
        # fio writes warnings in front of the document.
        document = parse_json(text[max(text.find("{"), 0) :])
    except ValueError as error:
        raise Misuse(f"{path} is no JSON: {error}", remedy=_REMEDY) from error
    jobs = document.get("jobs") if isinstance(document, dict) else None
    if not isinstance(jobs, list) or not all(isinstance(job, dict) for job in jobs):
        raise Misuse(f'{path} has no list "jobs": it is no output of fio', remedy=_REMEDY)
    totals: dict[str, float] = {}
    for job in jobs:
        # With unified_rw_reporting=mixed there is their sum alone, with both there is that too.
        sides = (job.get(side) for side in (("mixed",) if "mixed" in job else ("read", "write", "trim")))
        rates = [side.get("iops") for side in sides if isinstance(side, dict)]
        total = sum(float(rate) for rate in rates if isinstance(rate, int | float) and rate > 0)
        name = str(job.get("jobname", ""))
        if total:
            totals[name] = totals.get(name, 0.0) + total
    return totals


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
_NO_REPORT = "give the report itself: a line such as bs/disk/fs/ioengine/nr_task/rw/testcase: over its values"

Parameters = Mapping[str, FioOption]


def read_report(path: Path) -> FioJob:
    """The job of the fio test that a mail is about. Raises Misuse."""
    data = _read(path, _MOST_OF_MAIL)
    try:
        lines = [_QUOTED.sub("", line).rstrip() for line in _text(data).split("\n")]
    except RecursionError as error:
        raise Misuse(f"{path}: its parts are nested too deeply", remedy=_NO_REPORT) from error
    blocks = [*_tables(lines, str(path)), *_lists(lines, str(path))]
    tests = [block for block in blocks if "rw" in block and _value(block, "testcase") in ("", _TEST)]
    if not tests:
        others = sorted({_value(block, "testcase") for block in blocks} - {"", _TEST})
        what = f"its tests are {', '.join(others)[:_LONGEST]}" if others else "it has no table of parameters"
        raise Misuse(f"{path} is no report of {_TEST}: {what}", remedy=_NO_REPORT)
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
