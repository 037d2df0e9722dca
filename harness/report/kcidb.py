# SPDX-License-Identifier: GPL-2.0-only
"""kcidb I/O, schema 5.3 (kcidb_io.schema.V5_3): what KernelCI's common report database takes.

Checkout and build represent the packaged kernel, whose source commit is unknown. Every claim and control
is a test whose number is the ratio, every measured figure a test that is DONE. The run as a whole is no
test: the database sums up by path. A claim that is known to fail keeps its status (FAIL, or PASS if it
holds) and has an incident that links it to an issue, present or not. An optional claim that does not hold
is DONE: it was measured and does not count.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.judge.cells import Ensemble
from harness.judge.claims import XFAIL, XPASS
from harness.judge.verdict import Verdict
from harness.report.claims import JudgedRun
from harness.report.exports import BOOTS, JudgedPart, parts
from harness.scenario.model import KnownFailure, Status
from harness.scenario.registry import figure_of
from lab.base.digest import canonical, digest_bytes

ORIGIN = "blklab"
VERSION = {"major": 5, "minor": 3}
ISSUE_VERSION = 1
_REPORTED = ("iops", "bw", "lat.mean", "lat.p99")
_UNITS = {"ns": ("s", 1e9), "1/s": ("IOPS", 1.0)}
"""kcidb's unit, and the divisor that converts a figure to it."""
_STATUSES = {XFAIL: "FAIL", XPASS: "PASS"}
_LONGEST_SLUG = 60

Json = dict[str, Any]


def kcidb_json(run: JudgedRun) -> str:
    """The whole document, indented; its last line ends with a newline."""
    kernel = run.facts.kernel
    packaged = {"id": f"{ORIGIN}:{kernel.digest}", "origin": ORIGIN}
    checkout: Json = {"comment": _text(f"Linux {kernel.release}: {kernel.origin}"), "valid": True}
    build: Json = {"checkout_id": packaged["id"], "comment": _text(kernel.origin), "architecture": "x86_64"}
    # A boot is a test only if it went wrong: it is then the reason why a claim has no figure.
    every = [part for part in parts(run) if part.group != BOOTS or part.word != Status.PASS]
    judged = [(part, _test(run, number, part)) for number, part in enumerate(every, start=1)]
    known = [(part.known, part.word, test) for part, test in judged if part.known and part.word in _STATUSES]
    document = {
        "version": VERSION,
        "checkouts": [{**packaged, **checkout, "misc": {"release": kernel.release, "spec": kernel.spec}}],
        "builds": [
            {**packaged, **build, "status": "PASS", "misc": {"release": kernel.release, "digest": kernel.digest}}
        ],
        "tests": [*(test for _, test in judged), *_measurements(run)],
        "issues": list({issue["id"]: issue for issue in (_issue(entry, test) for entry, _, test in known)}.values()),
        "incidents": [_incident(entry, test, present=word == XFAIL) for entry, word, test in known],
    }
    kept = {key: value for key, value in document.items() if value}
    return json.dumps(kept, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _named_test(run: JudgedRun, name: str, path: Sequence[str], status: str, comment: str, **misc: Any) -> Json:
    """``name`` identifies the test within the run."""
    facts = run.facts
    return {
        "id": f"{ORIGIN}:{facts.run_id}:{name}",
        "origin": ORIGIN,
        "build_id": f"{ORIGIN}:{facts.kernel.digest}",
        "environment": {"comment": _text(f"{facts.qemu}, {run.scenario.clock} clock")},
        "path": ".".join((ORIGIN, run.scenario.name, *path)),
        "comment": _text(comment),
        "status": status,
        **({"start_time": facts.started} if facts.started else {}),
        "misc": {"run": facts.run_id, "verdict": str(run.verdict.status), **misc},
    }


def _test(run: JudgedRun, number: int, part: JudgedPart) -> Json:
    ensemble = part.judgement.ensemble if part.judgement else None
    misc: Json = {"word": part.word, "counts": part.counts, "facts": [_text(fact) for fact in part.facts]}
    if ensemble is not None:
        misc["values"] = _values(ensemble)
    comment = f"{part.name}: {part.reason}" if part.reason else part.name
    status = _STATUSES.get(part.word, part.word)
    if not part.counts and status == Status.FAIL:
        status = str(Status.DONE)
    test = _named_test(run, f"{part.group}:{number}", (part.group, _slug(part.name)), status, comment, **misc)
    if part.seconds:
        test["duration"] = part.seconds
    if ensemble is not None and test["status"] != Status.SKIP:
        test["number"] = {"value": ensemble.median}
    return test


def _measurements(run: JudgedRun) -> Iterator[Json]:
    """The median over the seeds of each metric in _REPORTED, in base units."""
    for (arm, load, role, metric), ensemble in _figures(run.verdict).items():
        path = ("measured", arm, load, role, _slug(metric))
        name = f"measured:{arm}.{load}.{role}.{metric}"
        comment = f"{metric} of {role} under load {load} in arm {arm}, median over the seeds"
        own = figure_of(role, metric).unit
        unit, scale = _UNITS.get(own, (own, 1.0))
        test = _named_test(run, name, path, str(Status.DONE), comment, values=_values(ensemble, scale))
        yield {**test, "number": {"value": ensemble.median / scale, "unit": unit, "prefix": "metric"}}


def _figures(verdict: Verdict) -> Mapping[tuple[str, str, str, str], Ensemble]:
    values: dict[tuple[str, str, str, str], dict[int, float]] = {}
    for cell in verdict.cells:
        for key, value in cell.figures.items():
            if key[2] in _REPORTED:
                values.setdefault((cell.arm, *key), {})[cell.seed] = value
    return {key: Ensemble(by_seed) for key, by_seed in values.items()}


def _values(ensemble: Ensemble, scale: float = 1.0) -> Json:
    return {str(seed): value / scale for seed, value in sorted(ensemble.values.items())}


def _issue(known: KnownFailure, test: Json) -> Json:
    link = known.link if "://" in known.link else f"https://{known.link}"
    return {
        "id": _issue_id(known, test),
        "version": ISSUE_VERSION,
        "origin": ORIGIN,
        "report_url": link,
        "report_subject": _text(known.because),
        "culprit": {"code": True, "tool": False, "harness": False},
        "comment": _text(f"known to fail on kernels {known.kernels}: {known.because}"),
    }


def _incident(known: KnownFailure, test: Json, *, present: bool) -> Json:
    return {
        "id": f"{test['id']}:known",
        "origin": ORIGIN,
        "issue_id": _issue_id(known, test),
        "issue_version": ISSUE_VERSION,
        "test_id": test["id"],
        "present": present,
    }


def _issue_id(known: KnownFailure, test: Json) -> str:
    """The same in all runs for the same entry of the same claim."""
    return f"{ORIGIN}:{digest_bytes(canonical([test['path'], known.kernels, known.because, known.link]))[:40]}"


def _slug(text: str) -> str:
    """A name within a path: letters, digits, - and _."""
    return re.sub(r"[^a-z0-9_]+", "-", text.lower().replace(".", "_")).strip("-")[:_LONGEST_SLUG].strip("-") or "-"


def _text(text: str) -> str:
    return text.replace("\0", "")
