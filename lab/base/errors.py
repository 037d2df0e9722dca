# SPDX-License-Identifier: GPL-2.0-only
"""The kinds of failure that blklab tells apart, each with its exit code.

0 is a pass. ``git bisect run`` reads 1 to 127 except 125 as "bad". So only a failure of the kernel under
test is 1, a run that cannot be judged is 125, and every fault of the lab or of the request is 128 or above:
a typing mistake must not mark a commit as bad.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from lab.base.units import printable

EXIT_PASS = 0
EXIT_FAIL = 1
EXIT_CANNOT_JUDGE = 125
EXIT_LAB_BROKEN = 128
EXIT_MISUSE = 129
EXIT_INTERRUPTED = 130

MOST_SHOWN = 40
_LONGEST, _MOST = 2000, 20_000


def _told(text: str) -> str:
    lines = printable(text).split("\n")
    *_, last = shown = [line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..." for line in lines]
    told = "\n".join(shown)
    return told if len(told) <= _MOST else f"{told[:_MOST]}...\n{last}"


class BlklabError(Exception):
    """A message that says what is wrong, and a remedy. Text from outside cannot control the terminal or flood it."""

    exit_code: ClassVar[int] = EXIT_LAB_BROKEN

    def __init__(self, message: str, *, remedy: str = "") -> None:
        self.message, self.remedy = _told(message), _told(remedy)
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message}\n  remedy: {self.remedy}" if self.remedy else self.message


class KernelFailed(BlklabError):
    """The kernel under test failed after the guest was ready."""

    exit_code = EXIT_FAIL


class CannotJudge(BlklabError):
    """No verdict is possible: kernel not available, requirement missing, guest never ready."""

    exit_code = EXIT_CANNOT_JUDGE


class LabBroken(BlklabError):
    """The lab itself failed: host tool, cache, payload, QEMU, disk space."""

    exit_code = EXIT_LAB_BROKEN


class Misuse(BlklabError):
    """The request cannot be carried out as written."""

    exit_code = EXIT_MISUSE


@dataclass(frozen=True, order=True)
class Problem:
    """One mistake in an input file; a ``symptom`` may be caused by another. ``line`` and ``column`` count from 1."""

    path: str
    line: int
    column: int
    message: str
    remedy: str = ""
    symptom: bool = False

    def __str__(self) -> str:
        remedy = f" ({self.remedy})" if self.remedy else ""
        return f"{self.path}:{self.line}:{self.column}: {self.message}{remedy}"


class InputErrors(Misuse):
    """All mistakes of one document, by place, symptoms last. The message shows the first ``MOST_SHOWN`` of them."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda problem: (problem.symptom, problem)))
        lines = [str(problem) for problem in self.problems[:MOST_SHOWN]]
        if more := len(self.problems) - len(lines):
            lines.append(f"... and {more} more {'mistake' if more == 1 else 'mistakes'}")
        super().__init__("\n".join(lines))


def no_such_folder(path: Path, what: str) -> Misuse:
    """For a ``path`` that is not a folder."""
    problem = "is not a folder" if os.path.lexists(path) else "does not exist"
    return Misuse(f"{what} {path} {problem}", remedy="check the path")
