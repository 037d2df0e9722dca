# SPDX-License-Identifier: GPL-2.0-only
"""What a person reads at the end of a bisection."""

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from harness.bisect.driver import Bisection
from harness.bisect.finding import Finding
from harness.bisect.report import conclusion, mail, plot
from harness.bisect.repository import Repository
from harness.bisect.state import CommitWord, State
from harness.profile.differential import differential
from harness.profile.mail import differential_lines
from tests.unit.analysis_samples import claim, scenario
from tests.unit.history_samples import TextOracle, history
from tests.unit.profile_samples import AFTER, BEFORE, profile


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[Finding, list[str]]:
    folder = tmp_path_factory.mktemp("bisect")
    changes = [{f"f{number}": "x", "verdict": "bad" if number >= 5 else "good"} for number in range(12)]
    commits = history(folder / "tree", changes)
    repository = Repository(folder / "tree", folder / "clone.git")
    state = State("t", "tree", commits[0], commits[-1])
    finding = Bisection(repository, TextOracle(repository.folder), state, folder, lambda _: None).run()
    return finding, commits


def test_the_conclusion_names_the_commit_and_its_checks(found: tuple[Finding, list[str]]) -> None:
    finding, commits = found
    text = "\n".join(conclusion(finding))
    assert f'First bad commit: {commits[5][:12]} ("change 5")' in text
    assert "the parent: good" in text
    assert "the commit: bad" in text
    assert "the bad end with the commit reverted: good" in text
    assert "Verified." in text


def test_a_finding_that_was_not_verified_says_so(found: tuple[Finding, list[str]]) -> None:
    finding, _ = found
    doubtful = replace(
        finding, checks=(*finding.checks[:2], (finding.checks[2][0], CommitWord.BAD)), cautions=("look",)
    )
    text = "\n".join(conclusion(doubtful))
    assert "NOT verified" in text
    assert "Caution: look." in text
    undecided = replace(finding, culprit=None, left=(finding.steps[0].commit,))
    assert "Not decided: it is one of 1" in "\n".join(conclusion(undecided))
    assert mail(undecided, scenario([claim()]), []) == ""


def test_the_mail_is_ready_to_be_sent(found: tuple[Finding, list[str]]) -> None:
    finding, commits = found
    changed = differential_lines(differential(profile(BEFORE), profile(AFTER)))
    text = mail(finding, scenario([claim()]), ["blklab run x"], changed)
    rows = [line.split() for line in text.splitlines() if line.endswith("schedule (new)")]
    assert rows == [["+60", "0", "->", "60", "0.00", "->", "1.00", "schedule", "(new)"]]
    assert text.startswith("Subject: [REGRESSION] ")
    assert f"#regzbot introduced: {commits[5]}\n" in text
    assert "0.9900 .. 1.000 before, 0.02000 .. 0.03000 since" in text
    assert "    blklab run x" in text
    assert max(map(len, text.splitlines())) <= 120


def test_the_plot_has_a_point_for_each_value_and_the_culprit(found: tuple[Finding, list[str]], tmp_path: Path) -> None:
    finding, commits = found
    picture = ElementTree.fromstring(plot(finding, commits))  # noqa: S314
    circles = picture.findall("{http://www.w3.org/2000/svg}circle")
    assert len(circles) == 2 * len(finding.steps)
    words = [text.text for text in picture.findall("{http://www.w3.org/2000/svg}text")]
    assert commits[5][:12] in words
