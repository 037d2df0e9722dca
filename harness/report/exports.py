# SPDX-License-Identifier: GPL-2.0-only
"""Verdicts as CSV, JUnit XML, KTAP and kcidb."""

import csv
import io
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any
from xml.etree import ElementTree as Xml

from harness.judge.cells import CellResult, Ensemble, arms_needed, ensemble_of
from harness.judge.claims import AS_IT_MUST, XFAIL, XPASS, ClaimVerdict, EntryVerdict, Judgement
from harness.judge.verdict import Verdict
from harness.report.claims import CONTROL, JudgedRun, claim_text, conclusion
from harness.scenario.model import KnownFailure, Status
from harness.scenario.registry import figure_of
from lab.base.digest import canonical, digest_bytes
from lab.base.record import Outcome

CLAIMS, CONTROLS, BOOTS = "claims", "controls", "boots"


@dataclass(frozen=True)
class JudgedPart:
    """``word`` is a status, XFAIL or XPASS; ``counts``: it enters the status of the run.

    ``reason`` is a sentence, or empty; ``facts`` are lines on what was measured. ``hung``: a guest hung and left no
    figure. ``judgement`` is None for a boot. ``seconds`` of host time are those of a boot, 0 for the rest.
    """

    group: str
    name: str
    word: str
    counts: bool = True
    reason: str = ""
    facts: tuple[str, ...] = ()
    hung: bool = False
    judgement: Judgement | None = None
    known: KnownFailure | None = None
    seconds: float = 0.0


def parts(run: JudgedRun) -> Iterator[JudgedPart]:
    """All parts, claims, controls, boots, in the order of the scenario's file."""
    verdict, seconds = run.verdict, defaultdict[tuple[str, int], float](float)
    for arm, seed, wall in run.walls:
        seconds[arm, seed] += sum(wall.values())
    for entry in (*verdict.claims, *verdict.controls):
        yield _entry(entry, verdict)
    for cell in verdict.cells:
        yield replace(_boot(cell), seconds=seconds[cell.arm, cell.seed])
    for cell in verdict.base_incidents:
        yield _boot(cell, "BASE kernel, ")


def _entry(entry: EntryVerdict, verdict: Verdict) -> JudgedPart:
    text, judgement = claim_text(entry), entry.judgement
    if judgement is None:
        return JudgedPart(CONTROLS, entry.that, str(Status.SKIP), reason=text.reason, facts=(entry.ratio,))
    facts: tuple[str, ...] = (f"{text.value}, {text.bound}", entry.ratio)
    hung = _hung(entry, judgement, verdict)
    if isinstance(entry, ClaimVerdict):
        name = f"{entry.that} ({entry.aside})" if entry.draft else entry.that
        counts, known = not entry.optional, entry.known
        return JudgedPart(CLAIMS, name, entry.word, counts, text.explanation, facts, hung, judgement, known)
    reason = f"{CONTROL}{text.explanation}"
    if judgement.status is Status.PASS:
        reason = AS_IT_MUST
        facts = (reason, *facts)
    return JudgedPart(CONTROLS, entry.that, entry.word, True, reason, facts, hung, judgement)


def _boot(cell: CellResult, kernel: str = "") -> JudgedPart:
    facts = (f"digest {cell.digest}",) if cell.digest else ()
    name = f"{kernel}arm {cell.arm}, seed {cell.seed}"
    hung = cell.outcome is Outcome.HANG
    return JudgedPart(BOOTS, name, str(cell.status), reason="; ".join(cell.reasons), facts=facts, hung=hung)


def _hung(entry: EntryVerdict, judgement: Judgement, verdict: Verdict) -> bool:
    """Whether a ratio has no value because a guest hung in one of its arms."""
    if judgement.status is not Status.FAIL or judgement.ensemble is not None:
        return False
    arms = arms_needed([entry.entry.ratio])
    return any(cell.arm in arms and cell.outcome is Outcome.HANG for cell in verdict.cells)


# CSV

_FORMULA = ("=", "+", "-", "@", "\t")
COLUMNS = ("scenario", "run", "kernel", "arm", "load", "role", "metric", "seed", "value", "unit")


def csv_table(run: JudgedRun) -> str:
    """RFC 4180 with a header, lines ended by LF; ``unit`` is empty for a count or a share.

    Rows of the BASE kernel come last, with its own run and release. A text that a spreadsheet would take for a
    formula starts with an apostrophe.
    """
    verdict, facts = run.verdict, run.facts
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in _rows(verdict.cells):
        writer.writerow(_safe(run.scenario.name, facts.run_id, facts.kernel.release, *row))
    if facts.base:
        for row in _rows(verdict.base or ()):
            writer.writerow(_safe(run.scenario.name, facts.baseline, facts.base.release, *row))
    return out.getvalue()


def _safe(*row: object) -> tuple[object, ...]:
    """The row without formulas (OWASP, "CSV Injection"); figures stay as they are."""
    return tuple(f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell for cell in row)


def _rows(cells: Sequence[CellResult]) -> Iterator[tuple[object, ...]]:
    """Values as floats, which csv writes by repr: reading them back gives the same figures."""
    for cell in cells:
        for (load, role, metric), figure in sorted(cell.figures.items()):
            yield cell.arm, load, role, metric, cell.seed, figure, figure_of(role, metric).unit


# JUnit XML

_ELEMENTS = {
    Status.FAIL: "failure",
    XPASS: "failure",
    Status.ERROR: "error",
    Status.MISS: "error",
    Status.DONE: "skipped",
    Status.SKIP: "skipped",
    XFAIL: "skipped",
}
# XML 1.0, section 2.2: other characters are not allowed, not even as references.
_UNFIT = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(run: JudgedRun) -> str:
    """The whole document: a suite for the run, a test case for each claim, control and boot.

    FAIL and XPASS are failures; ERROR and MISS are errors; SKIP, DONE (inconclusive), XFAIL ("expected
    failure") and optional claims that did not pass are skipped. ``time`` is a boot's; a claim has none of its own.
    """
    every = list(parts(run))
    counts = _counts(every)
    root = Xml.Element("testsuites", {"name": "blklab", **counts})
    name = f"{run.scenario.name}[{run.facts.kernel.spec}]"
    suite = Xml.SubElement(root, "testsuite", {"name": _fit(name), **counts})
    if run.facts.started:
        suite.set("timestamp", run.facts.started)
    _properties(suite, run)
    for part in every:
        _case(suite, f"{name}.{part.group}", part)
    Xml.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{Xml.tostring(root, encoding="unicode")}\n'


def _counts(every: Sequence[JudgedPart]) -> dict[str, str]:
    elements = [_element(part) for part in every]
    return {
        "tests": str(len(elements)),
        "failures": str(elements.count("failure")),
        "errors": str(elements.count("error")),
        "skipped": str(elements.count("skipped")),
        "time": _seconds(sum(part.seconds for part in every)),
    }


def _element(part: JudgedPart) -> str:
    if part.word != Status.PASS and not part.counts:
        return "skipped"
    return _ELEMENTS.get(part.word, "")


def _properties(suite: Xml.Element, run: JudgedRun) -> None:
    verdict, facts = run.verdict, run.facts
    properties = Xml.SubElement(suite, "properties")
    values = {
        "kernel": f"{facts.kernel.release} ({facts.kernel.origin})",
        "base": facts.base.release if facts.base else "",
        "qemu": facts.qemu,
        "status": str(verdict.status),
        "exit_code": str(verdict.exit_code),
        "conclusion": conclusion(verdict),
        "run": facts.run_id,
    }
    for name, value in values.items():
        if value:
            Xml.SubElement(properties, "property", name=name, value=_fit(value))


def _case(suite: Xml.Element, classname: str, part: JudgedPart) -> None:
    names = {"classname": _fit(classname), "name": _fit(part.name)}
    case = Xml.SubElement(suite, "testcase", {**names, "time": _seconds(part.seconds)})
    element = _element(part)
    if element:
        prefix = "expected failure" if part.word == XFAIL else ""
        prefix = prefix if part.counts else f"optional: {part.word}"
        message = ": ".join(filter(None, (prefix, part.reason))) or part.word
        Xml.SubElement(case, element, type=part.word, message=_fit(message)).text = _fit("\n".join(part.facts))
    elif part.facts:
        Xml.SubElement(case, "system-out").text = _fit("\n".join(part.facts))


def _seconds(time: float) -> str:
    return f"{time:.3f}"


def _fit(text: str) -> str:
    return _UNFIT.sub("\N{REPLACEMENT CHARACTER}", text)


# KTAP

_KTAP = "KTAP version 1"
_INDENT = "  "
_DIRECTIVES = {Status.ERROR: "ERROR", Status.MISS: "ERROR", Status.DONE: "SKIP", Status.SKIP: "SKIP", XFAIL: "XFAIL"}
_NOT_OK = frozenset({Status.FAIL, Status.ERROR, Status.MISS, XPASS})


@dataclass(frozen=True)
class _Result:
    """A result line, and the lines ``before`` it: facts, or a document of subtests."""

    good: bool
    name: str
    directive: str = ""
    data: str = ""
    before: tuple[str, ...] = ()

    def line(self, number: int) -> str:
        note = " ".join(filter(None, (self.directive, _plain(self.data))))
        return f"{'ok' if self.good else 'not ok'} {number} {_plain(self.name)}" + (f" # {note}" if note else "")


def ktap(run: JudgedRun) -> str:
    """KTAP version 1 (Documentation/dev-tools/ktap.rst in the kernel's sources); the last line ends with a newline.

    One test for the scenario, with the subtests claims, controls and boots, each with a subtest for every member.

    ============================  =======  =========
    word                          result   directive
    ============================  =======  =========
    PASS                          ok
    FAIL, XPASS                   not ok
    FAIL: a guest hung            not ok   TIMEOUT
    XFAIL                         ok       XFAIL
    ERROR, MISS                   not ok   ERROR
    SKIP, DONE (inconclusive)     ok       SKIP
    optional and not PASS         ok       SKIP
    ============================  =======  =========

    XFAIL is "ok" as in kselftest's ksft_test_result_xfail(), so that a reader that does not know the
    directive sees no failure. A test with a subtest that is "not ok" is "not ok" itself.
    """
    groups = []
    for name, members in groupby(parts(run), lambda part: part.group):
        results = [_result(part) for part in members]
        groups.append(_Result(all(result.good for result in results), name, before=_subtests(results)))
    verdict, kernel = run.verdict, run.facts.kernel
    about = (run.scenario.title, f"kernel {kernel.release} ({kernel.origin})", run.facts.qemu)
    before = (*_subtests(groups), *(f"# {_plain(text)}" for text in about if text))
    good, directive = verdict.status not in _NOT_OK, _DIRECTIVES.get(verdict.status, "")
    whole = _Result(good, verdict.scenario, directive, conclusion(verdict), before)
    version, count, *rest = _document([whole])
    # By the comment blklab knows its file again (harness.commands.parser).
    return "".join(f"{line}\n" for line in (version, count, "# blklab", *rest))


def _document(results: Sequence[_Result]) -> Iterator[str]:
    yield _KTAP
    yield f"1..{len(results)}"
    for number, result in enumerate(results, start=1):
        yield from result.before
        yield result.line(number)


def _subtests(results: Sequence[_Result]) -> tuple[str, ...]:
    return tuple(_INDENT + line for line in _document(results))


def _result(part: JudgedPart) -> _Result:
    facts = tuple(f"# {_plain(fact)}" for fact in part.facts)
    if part.word == Status.PASS:
        return _Result(True, part.name, before=facts)
    if not part.counts:
        return _Result(True, part.name, "SKIP", f"optional: {part.word}: {part.reason}", facts)
    directive = "TIMEOUT" if part.hung and part.word == Status.FAIL else _DIRECTIVES.get(part.word, "")
    return _Result(part.word not in _NOT_OK, part.name, directive, part.reason, facts)


def _plain(text: str) -> str:
    """One line without hash signs: a hash starts the directive and cannot be escaped."""
    return re.sub(r"[^\S ]+|[\x00-\x1f\x7f]+| {2,}", " ", text.replace("#", "-")).strip()


# kcidb

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
    """kcidb I/O, schema 5.3 (kcidb_io.schema.V5_3): what KernelCI's common report database takes; ends with a newline.

    Checkout and build represent the packaged kernel, whose source commit is unknown. Every claim and control is a test
    whose number is the ratio, every measured figure a test that is DONE. The run as a whole is no test: the database
    sums up by path. A claim that is known to fail keeps its status (FAIL, or PASS if it holds) and has an incident that
    links it to an issue, present or not. An optional claim that does not hold is DONE: it was measured and does not
    count.
    """
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
    cells = run.verdict.cells
    keys = dict.fromkeys((cell.arm, key) for cell in cells for key in cell.figures if key[2] in _REPORTED)
    for arm, (load, role, metric) in keys:
        ensemble = ensemble_of(cells, arm, (load, role, metric))
        if ensemble is None:
            continue
        path = ("measured", arm, load, role, _slug(metric))
        name = f"measured:{arm}.{load}.{role}.{metric}"
        comment = f"{metric} of {role} under load {load} in arm {arm}, median over the seeds"
        own = figure_of(role, metric).unit
        unit, scale = _UNITS.get(own, (own, 1.0))
        test = _named_test(run, name, path, str(Status.DONE), comment, values=_values(ensemble, scale))
        yield {**test, "number": {"value": ensemble.median / scale, "unit": unit, "prefix": "metric"}}


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
