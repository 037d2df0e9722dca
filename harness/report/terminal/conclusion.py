# SPDX-License-Identifier: GPL-2.0-only
"""One line that says why the verdict is what it is."""

from collections.abc import Iterable, Sequence

from harness.judge.claims import XFAIL, XPASS
from harness.judge.verdict import Verdict
from harness.report.format import plural
from harness.scenario.model import Status

_CLAIMS = {
    Status.FAIL: "failed",
    Status.ERROR: "could not be judged: boots went wrong",
    Status.MISS: "could not be judged: boots left no result",
    Status.DONE: "inconclusive",
    Status.SKIP: "could not be judged: this kernel or run lacks what they need",
}
_CONTROLS = _CLAIMS | {Status.FAIL: "met a failure of the kernel", Status.SKIP: "could not be run on this kernel"}
_BOOTS = {Status.FAIL: "ended in a failure of the kernel", Status.ERROR: "went wrong", Status.MISS: "left no result"}
_BASE_BOOTS = {
    Status.ERROR: "of the BASE kernel went wrong or cannot be compared",
    Status.MISS: "of the BASE kernel left no result",
}
_MUST = {True: "fails, as it must", False: "fail, as they must"}


def conclusion(verdict: Verdict) -> str:
    """What decided the status, and the exit code: ``1 of 4 claims failed (exit 1)``."""
    return f"{reason(verdict)} (exit {verdict.exit_code})"


def reason(verdict: Verdict) -> str:
    """What decided the status."""
    required = [claim for claim in verdict.claims if not claim.optional]
    claims = [claim.judgement.status for claim in required if claim.word not in (XFAIL, XPASS)]
    known = [claim.word for claim in required]
    run = [control for control in verdict.controls if control.judgement is not None]
    if verdict.status is Status.PASS:
        noisy = any(claim.judgement.interval for claim in verdict.claims)
        over = f"{plural(len(verdict.seeds), 'boot')} a side" if noisy else plural(len(verdict.seeds), "seed")
        held = f"{plural(len(claims), 'claim')} held ({over})" if claims else ""
        controls = f"{plural(len(run), 'negative control')} {_MUST[len(run) == 1]}" if run else ""
        return ", ".join(filter(None, (held, _times(known, XFAIL, "failed as known"), controls)))
    unseen = sum(control.held for control in run)
    statuses = [control.judgement.status for control in run if control.judgement and not control.held]
    drafts = sum(claim.draft for claim in verdict.claims)
    parts = [
        f"{plural(drafts, 'claim')} {'is a draft' if drafts == 1 else 'are drafts'}: set bounds and remove draft: true"
        if drafts and verdict.status is Status.DONE
        else "",
        _count(claims, verdict.status, "claim", _CLAIMS),
        _times(known, XPASS, "held although known to fail") if verdict.status is Status.FAIL else "",
        f"{plural(unseen, 'negative control')} held, but must fail"
        if unseen and verdict.status is Status.ERROR
        else "",
        _count(statuses, verdict.status, "negative control", _CONTROLS),
        _count((cell.status for cell in verdict.cells), verdict.status, "boot", _BOOTS),
        _count((cell.status for cell in verdict.base or ()), verdict.status, "boot", _BASE_BOOTS),
    ]
    return "; ".join(filter(None, parts)) or "the scenario makes no claim"


def _times(words: Sequence[str], word: str, says: str) -> str:
    count = words.count(word)
    return f"{plural(count, 'claim')} {says}" if count else ""


def _count(statuses: Iterable[Status], wanted: Status, one: str, words: dict[Status, str]) -> str:
    every = list(statuses)
    hits = every.count(wanted)
    if not hits or wanted not in words:
        return ""
    return f"{f'{hits} of ' if len(every) > 1 else ''}{plural(len(every), one)} {words[wanted]}"
