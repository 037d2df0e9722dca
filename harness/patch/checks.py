# SPDX-License-Identifier: GPL-2.0-only
"""The outcome of a measurement in the words of programs that check patches.

b4 reads a JSON array from a check of ``b4 review``, but from one of ``b4 prep --check`` and ``b4 am --check`` lines as
checkpatch prints them: nothing for a pass, each line is a warning, or a failure where it has "ERROR:" or is on standard
error (b4 0.16: review/checks.py, LoreMessage.run_local_check). NIPA reads the exit status, of which 250 is a warning,
and a text from the descriptor $DESC_FD (core/test.py).
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lab.base.errors import EXIT_FAIL, EXIT_INTERRUPTED, EXIT_PASS, Misuse
from lab.base.units import printable

WARNING = 250
_DESCRIPTOR = "DESC_FD"


@dataclass(frozen=True)
class Outcome:
    """An exit status of blklab with its reason in a line; ``details``: what was printed. Where nothing executes the
    change it is not ``relevant``.
    """

    code: int
    summary: str
    details: str = ""
    relevant: bool = True

    @property
    def status(self) -> str:
        """As b4 names it. A failure is the kernel's alone: where the lab fails nobody has judged the patch."""
        return {EXIT_PASS: "pass", EXIT_FAIL: "fail"}.get(self.code, "warn")


def review(outcome: Outcome) -> int:
    row = {
        "tool": "blklab",
        "status": outcome.status,
        "summary": outcome.summary,
        "url": "",
        "details": outcome.details,
    }
    print(json.dumps([row] if outcome.relevant else []))
    return outcome.code


def prep(outcome: Outcome) -> int:
    if outcome.code != EXIT_PASS:
        print(f"{'ERROR' if outcome.code == EXIT_FAIL else 'WARNING'}: {outcome.summary}")
    return outcome.code


def nipa(outcome: Outcome) -> int:
    """Raises Misuse where $DESC_FD is no open descriptor."""
    print(outcome.details, end="")
    if number := os.environ.get(_DESCRIPTOR):
        try:
            os.write(int(number), f"{printable(outcome.summary)}\n".encode())
        except (ValueError, OSError) as error:
            raise Misuse(f"{_DESCRIPTOR}={number} is no open descriptor", remedy="NIPA sets it to one") from error
    return outcome.code if outcome.code in (EXIT_PASS, EXIT_FAIL, EXIT_INTERRUPTED) else WARNING


QUIET = "b4_prep"  # reads standard error as failures
CHECKS: Mapping[str, Callable[[Outcome], int]] = {"b4": review, QUIET: prep, "nipa": nipa}
