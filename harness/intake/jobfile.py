# SPDX-License-Identifier: GPL-2.0-only
"""fio job files by fio's own rules (init.c of fio 3.42): sections, inheritance, variables, comments; and its output.

Values are by "Parameter types" of fio's HOWTO (3.42) with kb_base=1024.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from lab.base.errors import InputErrors, Misuse, Problem
from lab.base.reading import LIMIT, parse_json, read_regular
from lab.base.units import printable

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
    """A section that is not global, with the options of the global sections above it; the last of a name counts."""

    name: str
    path: str
    line: int
    options: Mapping[str, FioOption] = field(default_factory=dict)


def read_jobs(path: Path, variables: Mapping[str, str] | None = None) -> tuple[FioJob, ...]:
    """The jobs of a file. ``variables`` replace ${NAME} (the environment, if not given).

    Raises InputErrors with all mistakes of the file, Misuse if it cannot be read.
    """
    reader = _Reader(os.environ if variables is None else variables)
    jobs = reader.read(path)
    if not jobs and not reader.problems:
        reader.problems.append(Problem(str(path), 1, 1, "no job: the file has no section besides global", "add [job]"))
    if reader.problems:
        raise InputErrors(reader.problems)
    return jobs


class _Reader:
    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables
        self.problems: list[Problem] = []

    def read(self, path: Path) -> tuple[FioJob, ...]:
        common: dict[str, FioOption] = {}
        jobs: list[FioJob] = []
        section = ""
        try:
            text = read_regular(path, _MOST_BYTES).decode("utf-8", "replace")
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise Misuse(f"{path} cannot be read: {why}", remedy="check the path") from error
        for number, raw in enumerate(text.split("\n"), start=1):
            line = _COMMENT.split(raw)[0].strip()
            if not line:
                continue
            if line.startswith("["):
                # sscanf("[%255[^\n]]") takes the line up to its end, less the last character.
                section = line[1:].rstrip().removesuffix("]")
                if not section.startswith("global"):
                    jobs.append(FioJob(printable(section), str(path), number, dict(common)))
                continue
            option = self._option(path, number, line)
            if not section:
                self.problems.append(option.problem("outside of a section", "write [global] above it"))
            elif section.startswith("global"):
                common[option.name] = option
            else:
                jobs[-1] = replace(jobs[-1], options={**jobs[-1].options, option.name: option})
        return tuple(jobs)

    def _option(self, path: Path, number: int, line: str) -> FioOption:
        name, _, value = (printable(part).strip() for part in line.partition("="))
        option = self._expand(FioOption(ALIASES.get(name, name), value, str(path), number))
        if name.startswith("include "):
            self.problems.append(option.problem("included files are not read", "write their options in its place"))
        return option

    def _expand(self, option: FioOption) -> FioOption:
        for name in _VARIABLE.findall(option.value):
            if not self._variables.get(name):
                # fio puts the empty string there.
                self.problems.append(option.problem(f"${{{name}}} is not set", f"{name}=VALUE blklab draft ..."))
        for word in _KEYWORD.findall(option.value):
            if word != "pagesize":
                message = f"${word} is of the machine that runs fio"
                self.problems.append(option.problem(message, "write the number that it has there"))
        value = _VARIABLE.sub(lambda name: self._variables.get(name[1], ""), option.value)
        return replace(option, value=_KEYWORD.sub(_PAGE, value))


_REMEDY = "write it with fio --output-format=json --output=FILE JOB.fio"


def reported_iops(path: Path) -> dict[str, float]:
    """Reads and writes a second of each job, by its name; of clones their sum. Raises Misuse."""
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
        sides = (job.get(side) for side in ("read", "write"))
        rates = [side.get("iops") for side in sides if isinstance(side, dict)]
        total = sum(float(rate) for rate in rates if isinstance(rate, int | float) and rate > 0)
        name = str(job.get("jobname", ""))
        if total:
            totals[name] = totals.get(name, 0.0) + total
    return totals
