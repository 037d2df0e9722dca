# SPDX-License-Identifier: GPL-2.0-only
"""KTAP version 1 (Documentation/dev-tools/ktap.rst in the kernel's sources).

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

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.judge.claims import XFAIL, XPASS
from harness.judge.verdict import Verdict
from harness.report.export.parts import GROUPS, Export, JudgedPart, parts
from harness.report.words import conclusion
from harness.scenario.model import Status

VERSION = "KTAP version 1"
_INDENT = "  "
_DIRECTIVES = {Status.ERROR: "ERROR", Status.MISS: "ERROR", Status.DONE: "SKIP", Status.SKIP: "SKIP", XFAIL: "XFAIL"}
_NOT_OK = frozenset({Status.FAIL, Status.ERROR, Status.MISS, XPASS})


@dataclass(frozen=True)
class _Result:
    good: bool
    name: str
    directive: str = ""
    data: str = ""

    def line(self, number: int) -> str:
        note = " ".join(filter(None, (self.directive, _plain(self.data))))
        return f"{'ok' if self.good else 'not ok'} {number} {_plain(self.name)}" + (f" # {note}" if note else "")


def ktap(export: Export) -> str:
    """The whole document; its last line ends with a newline."""
    lines = [VERSION, "1..1", *_indent(_groups(list(parts(export))))]
    kernel = export.facts.kernel
    about = (export.scenario.title, f"kernel {kernel.release} ({kernel.origin})", export.facts.qemu)
    lines += [f"# {_plain(text)}" for text in about if text]
    lines.append(_scenario(export.verdict).line(1))
    return "".join(f"{line}\n" for line in lines)


def _scenario(verdict: Verdict) -> _Result:
    said = conclusion(verdict)
    return _Result(verdict.status not in _NOT_OK, verdict.scenario, _DIRECTIVES.get(verdict.status, ""), said)


def _groups(every: Sequence[JudgedPart]) -> Iterator[str]:
    groups = {name: [part for part in every if part.group == name] for name in GROUPS}
    filled = {name: members for name, members in groups.items() if members}
    yield VERSION
    yield f"1..{len(filled)}"
    for number, (name, members) in enumerate(filled.items(), start=1):
        results = [_result(part) for part in members]
        yield from _indent(_members(members, results))
        yield _Result(all(result.good for result in results), name).line(number)


def _members(members: Sequence[JudgedPart], results: Sequence[_Result]) -> Iterator[str]:
    yield VERSION
    yield f"1..{len(members)}"
    for number, (part, result) in enumerate(zip(members, results, strict=True), start=1):
        yield from (f"# {_plain(fact)}" for fact in part.facts)
        yield result.line(number)


def _result(part: JudgedPart) -> _Result:
    if not part.counts and part.word != Status.PASS:
        return _Result(True, part.name, "SKIP", f"optional: {part.word}: {part.reason}")
    if part.word == Status.PASS:
        return _Result(True, part.name)
    directive = "TIMEOUT" if part.hung and part.word == Status.FAIL else _DIRECTIVES.get(part.word, "")
    return _Result(part.word not in _NOT_OK, part.name, directive, part.reason)


def _indent(lines: Iterator[str]) -> Iterator[str]:
    return (_INDENT + line for line in lines)


def _plain(text: str) -> str:
    """One line without hash signs: a hash starts the directive and cannot be escaped."""
    return re.sub(r"[^\S ]+|[\x00-\x1f\x7f]+| {2,}", " ", text.replace("#", "-")).strip()
