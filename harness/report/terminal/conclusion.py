# SPDX-License-Identifier: GPL-2.0-only
"""The last line of a report: why the verdict is what it is."""

from collections.abc import Iterable, Sequence

from harness.judge.claims import XFAIL, XPASS
from harness.judge.verdict import Verdict
from harness.report.format import plural
from harness.scenario.model import Status

_CLAIMS = {
    Status.FAIL: "failed",
    Status.ERROR: "could not be judged, for something went wrong in the boots behind",
    Status.MISS: "could not be judged, for boots are missing",
    Status.DONE: "remained inconclusive",
    Status.SKIP: "could not be judged here, for something is missing that they need",
}
_CONTROLS = {
    Status.FAIL: "met a failure of the kernel",
    Status.ERROR: "did not turn red or went wrong, so the scenario proves nothing here",
    Status.MISS: "could not be judged, for boots are missing",
    Status.DONE: "remained inconclusive",
    Status.SKIP: "could not be run here",
}
_BOOTS = {
    Status.FAIL: "ended in a failure of the kernel itself",
    Status.ERROR: "went wrong",
    Status.MISS: "left no result",
}
_BASE_BOOTS = {
    Status.ERROR: "of the BASE kernel went wrong or cannot be compared",
    Status.MISS: "of the BASE kernel left no result",
}
_BOTH = 2


def conclusion(verdict: Verdict) -> str:
    """One line: what decided the status, and the exit code."""
    required = [claim for claim in verdict.claims if not claim.optional]
    claims = [claim.judgement.status for claim in required if claim.word not in (XFAIL, XPASS)]
    known = [claim.word for claim in required]
    controls = [control.judgement.status for control in verdict.controls if control.judgement is not None]
    if verdict.status is Status.PASS:
        held = f"{_all(len(claims), 'claim')} held under {_all(len(verdict.seeds), 'seed')}" if claims else ""
        text = _joined(held, _times(known, XFAIL, "failed as known"))
        if controls:
            text += f", and {_all(len(controls), 'control')} turned red"
        return f"{text} (exit {verdict.exit_code})"
    parts = [
        _count(claims, verdict.status, "claim", _CLAIMS),
        _times(known, XPASS, "held although known to fail") if verdict.status is Status.FAIL else "",
        _count(controls, verdict.status, "control", _CONTROLS),
        _count((cell.status for cell in verdict.cells), verdict.status, "boot", _BOOTS),
        _count((cell.status for cell in verdict.base or ()), verdict.status, "boot", _BASE_BOOTS),
    ]
    return f"{'; '.join(part for part in parts if part) or 'no claim was made'} (exit {verdict.exit_code})"


def _all(count: int, one: str) -> str:
    if count == 1:
        return f"the {one}"
    return f"both {one}s" if count == _BOTH else f"all {count} {one}s"


def _times(words: Sequence[str], word: str, says: str) -> str:
    count = words.count(word)
    return f"{plural(count, 'claim')} {says}" if count else ""


def _joined(*parts: str) -> str:
    return ", ".join(part for part in parts if part)


def _count(statuses: Iterable[Status], wanted: Status, one: str, words: dict[Status, str]) -> str:
    every = list(statuses)
    hits = every.count(wanted)
    return f"{hits} of {plural(len(every), one)} {words[wanted]}" if hits and wanted in words else ""
