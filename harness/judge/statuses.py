# SPDX-License-Identifier: GPL-2.0-only
"""What every ending means, and how parts roll up into one word and one exit code.

A boot that is PASS was measured without incident; its figures say whether a claim holds.
"""

from collections.abc import Iterable, Mapping

from harness.scenario.model import Status
from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_FAIL, EXIT_LAB_BROKEN, EXIT_PASS
from lab.base.record import Outcome

WORST_FIRST = (Status.FAIL, Status.ERROR, Status.MISS, Status.PASS, Status.DONE, Status.SKIP)


ENDINGS: Mapping[Outcome, tuple[Status, str]] = {
    Outcome.BYE: (Status.PASS, ""),
    Outcome.NOT_READY: (Status.MISS, "the guest never said ready"),
    Outcome.LATE: (Status.MISS, "the host did not bring the guest up in time"),
    Outcome.OOPS: (Status.FAIL, "the kernel oopsed after it was ready"),
    Outcome.HANG: (Status.FAIL, "the kernel hung after it was ready"),
    Outcome.DOUBTFUL: (Status.ERROR, "the guest died or hung, and not surely of its kernel"),
    Outcome.UNFIT: (Status.ERROR, "the guest could not be set up as asked"),
    Outcome.GARBLED: (Status.ERROR, "the result channel broke its format"),
    Outcome.LOST: (Status.ERROR, "the lab lost the guest"),
}
"""What each way in which a boot can end means, and the start of the reason shown."""
WARNED = Status.ERROR, "the kernel complained inside the measured window"
LAB_BROKE = frozenset({Outcome.GARBLED, Outcome.LOST})


def ending(outcome: Outcome, *, warned: bool) -> tuple[Status, str]:
    """A boot that finished is only as good as its console: warnings make it an error."""
    return WARNED if outcome is Outcome.BYE and warned else ENDINGS[outcome]


def worst(statuses: Iterable[Status]) -> Status:
    """The first of kcidb's order that occurs. Raises ValueError when there is none at all."""
    return min(statuses, key=WORST_FIRST.index)


def roll_up(incidents: Iterable[Status], required: Iterable[Status]) -> Status:
    """Status of a run: ``incidents`` are its boots, ``required`` its claims and controls that count.

    A run passes only when everything required was judged and held, so DONE and SKIP among the
    required weigh more than any PASS; a boot that was skipped weighs nothing by itself.
    """
    demanded = list(required)
    bad = [status for status in (*demanded, *incidents) if status in (Status.FAIL, Status.ERROR, Status.MISS)]
    if bad:
        return worst(bad)
    if not demanded:
        return Status.DONE
    for lacking in (Status.DONE, Status.SKIP):
        if lacking in demanded:
            return lacking
    return Status.PASS


def matrix_status(cells: Iterable[Status]) -> Status:
    """Status of a matrix: cells that a kernel cannot run (SKIP) do not count if others were judged.

    One cell that could not be decided (DONE) makes the whole undecided.
    """
    judged = [status for status in cells if status is not Status.SKIP]
    return roll_up((), judged or (Status.SKIP,))


def exit_code(status: Status, *, lab_broke: bool) -> int:
    """What a process that judged ``status`` exits with; 125 means that it could not judge."""
    if status is Status.PASS:
        return EXIT_PASS
    if status is Status.FAIL:
        return EXIT_FAIL
    if status is Status.ERROR and lab_broke:
        return EXIT_LAB_BROKEN
    return EXIT_CANNOT_JUDGE
