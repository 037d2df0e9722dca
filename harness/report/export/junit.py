# SPDX-License-Identifier: GPL-2.0-only
"""JUnit XML: a suite for the run, a test case for each claim, control and boot.

FAIL and XPASS are failures; ERROR and MISS are errors; SKIP, DONE (inconclusive), XFAIL ("expected
failure") and optional claims that did not pass are skipped. ``time`` is a boot's; a claim has none of its own.
"""

import re
from collections.abc import Sequence
from xml.etree import ElementTree as Xml

from harness.judge.claims import XFAIL, XPASS
from harness.report.export.parts import Export, JudgedPart, parts
from harness.report.words import conclusion
from harness.scenario.model import Status

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


def junit_xml(export: Export) -> str:
    """The whole document, with its XML declaration."""
    every = list(parts(export))
    counts = _counts(every)
    root = Xml.Element("testsuites", {"name": "blklab", **counts})
    name = f"{export.scenario.name}[{export.facts.kernel.spec}]"
    suite = Xml.SubElement(root, "testsuite", {"name": _fit(name), **counts})
    if export.facts.started:
        suite.set("timestamp", export.facts.started)
    _properties(suite, export)
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


def _properties(suite: Xml.Element, export: Export) -> None:
    verdict, facts = export.verdict, export.facts
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
