# SPDX-License-Identifier: GPL-2.0-only
"""fio job files by fio's own rules (init.c of fio 3.42): sections, inheritance, variables, comments."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from lab.base.errors import InputErrors, Misuse, Problem
from lab.base.reading import read_regular
from lab.base.units import printable

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
    def place(self) -> str:
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
