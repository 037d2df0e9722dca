# SPDX-License-Identifier: GPL-2.0-only
"""fio jobs by fio's own rules (init.c of fio 3.42): job files, commands in shell scripts, and fio's output.

Values are by "Parameter types" of fio's HOWTO (3.42) with kb_base=1024.
"""

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path

from lab.base.errors import InputErrors, Misuse, Problem
from lab.base.reading import LIMIT, parse_json, read_regular
from lab.base.units import printable
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


_MOST_BYTES = 1 << 20
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
        try:
            text = read_regular(path, _MOST_BYTES).decode("utf-8", "replace")
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise Misuse(f"{path} cannot be read: {why}", remedy="check the path") from error
        rows = text.split("\n")
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
    try:
        text = read_regular(path, LIMIT).decode("utf-8", "replace")
        # fio writes warnings in front of the document.
        document = parse_json(text[max(text.find("{"), 0) :])
    except OSError as error:
        raise Misuse(f"{path} cannot be read: {error.strerror}", remedy="check the path") from error
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
