# SPDX-License-Identifier: GPL-2.0-only
"""The search for a commit on real git histories, with an oracle that only reads a file; and what it reports."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.bisect.finding import Finding, conclusion, mail, margins
from harness.bisect.notebook import ClaimSeen, CommitWord, Observation, Question, State, load_state
from harness.bisect.repository import Repository
from harness.bisect.search import Bisection
from harness.profile.model import differential
from harness.profile.report import differential_lines
from harness.scenario.model import Status
from harness.scenario.ratio import parse_bound
from lab.base.errors import CannotJudge, LabBroken, Misuse
from tests.unit.analysis_samples import claim, scenario
from tests.unit.history_samples import THAT, Bisected, TextOracle, commit, git, history, line
from tests.unit.profile_samples import AFTER, BEFORE, profile

JUDGED = scenario([replace(claim(parse_bound(">= 0.5")), that=THAT)])


class Rig(Bisected):
    def __init__(self, folder: Path, commits: list[str], bad: str = "") -> None:
        super().__init__(folder, commits, bad)
        self.oracle = TextOracle(self.repository.folder)

    def run(self, ahead: int = 0) -> Finding:
        work = self.folder / "work"
        work.mkdir(exist_ok=True)
        return Bisection(self.repository, self.oracle, self.state, work, self.told.append, ahead=ahead).run()


@pytest.mark.parametrize("culprit", [1, 31, 63])
def test_the_culprit_is_found_and_verified(culprit: int, tmp_path: Path) -> None:
    made = Rig.of(tmp_path, line(64, culprit))
    finding = made.run()
    assert finding.culprit is not None and finding.culprit.sha == made.commits[culprit]
    assert finding.verified
    assert finding.checks[2][1] is CommitWord.GOOD
    assert len(made.oracle.measured) <= 2 + 6 + 1 + 2
    assert [(shift.ratio, shift.moved) for shift in finding.layout] == [(0.995, 0.995), (0.025, 0.025)]
    assert list(margins(finding, JUDGED))[1:] == [f"  not moved, not moved: {THAT} (>= 0.5)"]


def test_a_step_that_another_layout_turns_is_not_verified(tmp_path: Path) -> None:
    made = Rig.of(tmp_path, line(16, 5))
    made.oracle.nudge = -0.6
    finding = made.run()
    assert finding.culprit is not None and finding.culprit.sha == made.commits[5]
    assert dict(finding.checks)["the parent in another layout"] is CommitWord.BAD
    assert dict(finding.checks)["the commit in another layout"] is CommitWord.BAD
    assert not finding.verified
    assert [shift.moved for shift in finding.layout] == pytest.approx([0.395, -0.575])


def test_a_shift_by_layout_that_turns_nothing_is_said(tmp_path: Path) -> None:
    made = Rig.of(tmp_path, line(16, 5))
    made.oracle.nudge = 0.097
    finding = made.run()
    assert finding.verified
    # 0.995 and 0.025 are 0.495 and 0.475 from the bound, and another layout moves both by 0.097.
    for text in ("\n".join(conclusion(finding, JUDGED)), mail(finding, JUDGED, [])):
        assert "in units of what another layout moves the ratio, before and since:" in text
        assert f"\n  5.103, 4.897: {THAT} (>= 0.5)\n" in text


def test_commits_that_do_not_build_are_skipped(tmp_path: Path) -> None:
    made = Rig.of(tmp_path, line(64, 40, broken=(30, 31, 32, 33)))
    finding = made.run()
    assert finding.culprit is not None and finding.culprit.sha == made.commits[40]
    assert {step.answer.word for step in finding.steps} == {CommitWord.GOOD, CommitWord.BAD, CommitWord.SKIP}
    assert any("does not build" in step.answer.reason for step in finding.steps)


def test_what_lies_between_skipped_commits_is_not_guessed(tmp_path: Path) -> None:
    made = Rig.of(tmp_path, line(10, 6, broken=(4, 5)))
    finding = made.run()
    assert finding.culprit is None
    assert {found.sha for found in finding.left} == set(made.commits[4:7])
    assert not finding.verified


@pytest.mark.parametrize("last", [1, 2, 3, 6])
def test_a_killed_bisection_loses_no_verdict(last: int, tmp_path: Path) -> None:
    made = Rig.of(tmp_path, line(64, 37))
    whole = TextOracle(made.repository.folder)
    seen: list[str] = []

    def kill(sha: str) -> None:
        seen.append(sha)
        if len(seen) == last:
            raise KeyboardInterrupt

    made.oracle = TextOracle(made.repository.folder, before=kill)
    with pytest.raises(KeyboardInterrupt):
        made.run()
    first = made.oracle.measured
    made.oracle = whole
    finding = made.run()
    assert finding.culprit is not None and finding.culprit.sha == made.commits[37]
    assert not set(first) & set(whole.measured)
    assert len(finding.steps) >= 8


def test_a_verdict_of_another_setting_is_not_reused(tmp_path: Path) -> None:
    made = Rig.of(tmp_path, line(16, 5))
    made.run()
    again = TextOracle(made.repository.folder, setting="another QEMU")
    made.oracle = again
    made.run()
    assert set(made.state.observations) == set()
    assert len(again.measured) >= 6


@pytest.mark.parametrize("head", ["refs/heads/never-made", "refs/heads/elsewhere"])
def test_a_repository_whose_head_names_no_branch(head: str, tmp_path: Path) -> None:
    commits = history(tmp_path / "tree", line(16, 5))
    git(tmp_path / "tree", "symbolic-ref", "HEAD", head)
    if head.endswith("elsewhere"):
        # An object id that names no object, as in a repository of which a part was copied.
        (tmp_path / "tree" / ".git" / head).write_text(f"{'1' * 40}\n")
    finding = Rig(tmp_path, commits).run()
    assert finding.culprit is not None and finding.culprit.sha == commits[5]


def test_what_git_says_is_in_the_error(tmp_path: Path) -> None:
    made = Rig.of(tmp_path, line(4, 2))
    (made.repository.folder / "BISECT_TERMS").mkdir()
    with pytest.raises(LabBroken, match=r"(?s)git .* bisect start .*cannot open file .*BISECT_TERMS"):
        made.repository.next_step([made.commits[-1]], [made.commits[0]], [])


def test_the_user_s_tree_is_left_alone(tmp_path: Path) -> None:
    made = Rig.of(tmp_path, line(16, 5))
    before = git(tmp_path / "tree", "status", "--porcelain", "--branch"), git(tmp_path / "tree", "for-each-ref")
    made.run()
    assert (
        git(tmp_path / "tree", "status", "--porcelain", "--branch"),
        git(tmp_path / "tree", "for-each-ref"),
    ) == before
    assert not (tmp_path / "tree" / ".git" / "BISECT_LOG").exists()


def test_it_builds_ahead_what_either_answer_wants(tmp_path: Path) -> None:
    made = Rig.of(tmp_path, line(64, 37))
    made.run(ahead=2)
    wanted = [sha for sha in made.oracle.measured if sha in made.oracle.prepared]
    assert len(wanted) >= 3


def test_a_culprit_behind_a_merge_is_the_commit_on_its_side(tmp_path: Path) -> None:
    commits = history(tmp_path / "tree", line(4, 99))
    git(tmp_path / "tree", "checkout", "--quiet", "-b", "side", commits[1])
    side = [commit(tmp_path / "tree", 10 + number, {f"s{number}": "x"}) for number in range(3)]
    side.append(commit(tmp_path / "tree", 20, {"verdict": "bad"}))
    side.append(commit(tmp_path / "tree", 21, {"s9": "x"}))
    git(tmp_path / "tree", "checkout", "--quiet", "main")
    git(tmp_path / "tree", "merge", "--quiet", "--no-ff", "-m", "merge side", "side", date=30)
    tip = commit(tmp_path / "tree", 31, {"t": "x"})
    finding = Rig(tmp_path, commits, bad=tip).run()
    assert finding.culprit is not None and finding.culprit.sha == side[3]
    assert finding.cautions == ()


@pytest.mark.parametrize(
    ("files", "caution"),
    [
        ({"Documentation/block/x.rst": "x"}, "documentation only"),
        ({"arch/s390/kernel/x.c": "x"}, "architectures that were not tested"),
        ({"drivers/block/null_blk/main.c": "x", "block/blk-mq.c": "y"}, "it changes null_blk"),
        ({"block/blk-mq.c": "y"}, ""),
    ],
)
def test_cautions(files: dict[str, str], caution: str, tmp_path: Path) -> None:
    changes = line(8, 99)
    changes[5] = dict(files)
    made = Rig.of(tmp_path, changes)
    blamed = made.commits[5]

    class Blames(TextOracle):
        def measure(self, commit: str, *, once: bool = False, moved: bool = False) -> Observation:
            bad = commit in made.commits[5:] and commit != "revert"
            status, values = (Status.FAIL, (0.1,)) if bad else (Status.PASS, (1.0,))
            return Observation(commit, self.setting, (ClaimSeen(THAT, "a / b", status, values),))

    made.oracle = Blames(made.repository.folder)
    finding = made.run()
    assert finding.culprit is not None and finding.culprit.sha == blamed
    assert [caution in text for text in finding.cautions] == ([True] if caution else [])


def test_a_revert_that_does_not_apply_has_no_word(tmp_path: Path) -> None:
    changes = line(8, 5)
    changes[7]["verdict"] = "bad\n"
    made = Rig.of(tmp_path, [*changes, {"verdict": "bad\n\n"}])
    finding = made.run()
    assert finding.culprit is not None
    assert dict(finding.checks)["the bad end with the commit reverted"] is None
    assert finding.verified


def observation(*claims: ClaimSeen, untestable: str = "") -> Observation:
    return Observation("c" * 40, "s", claims, untestable)


def seen(status: str, *values: float) -> ClaimSeen:
    return ClaimSeen(THAT, "a / b", Status(status), values)


@pytest.mark.parametrize(
    ("good", "bad", "wrong"),
    [
        (observation(untestable="no gcc"), observation(seen("FAIL", 0.1)), "the good end c+ cannot be tested"),
        (observation(seen("PASS", 1.0)), observation(untestable="no boot"), "the bad end c+ cannot be tested"),
        (observation(seen("PASS", 1.0)), observation(seen("PASS", 1.0)), "no claim holds on the good end and fails"),
        (observation(seen("FAIL", 0.1)), observation(seen("PASS", 1.0)), "the good end fails and the bad one passes"),
        (observation(seen("PASS", 0.9, 0.5)), observation(seen("FAIL", 0.6, 0.1)), "the ranges of the ends overlap"),
        (observation(seen("PASS", 0.9)), observation(seen("FAIL")), "the ranges of the ends overlap"),
        (observation(seen("DONE", 0.9)), observation(seen("FAIL", 0.1)), "no claim holds"),
    ],
)
def test_ends_that_prove_nothing_stop_the_search(good: Observation, bad: Observation, wrong: str) -> None:
    with pytest.raises(CannotJudge, match=wrong):
        Question.between(good, bad)


@pytest.mark.parametrize(
    ("claim", "word"),
    [
        (seen("PASS", 1.0), CommitWord.GOOD),
        (seen("FAIL", 0.1), CommitWord.BAD),
        (seen("FAIL"), CommitWord.SKIP),
        (seen("DONE", 0.9, 0.1), CommitWord.SKIP),
        (seen("ERROR"), CommitWord.SKIP),
    ],
)
def test_answers(claim: ClaimSeen, word: CommitWord) -> None:
    question = Question.between(observation(seen("PASS", 1.0)), observation(seen("FAIL", 0.1)))
    assert question.answer(observation(claim)).word is word


def test_misuse(tmp_path: Path) -> None:
    made = Rig.of(tmp_path, line(4, 2))
    made.state = State("t", "tree", made.commits[-1], made.commits[0])
    with pytest.raises(Misuse, match="is no ancestor of"):
        made.run()
    with pytest.raises(Misuse, match="has no commit v9"):
        made.repository.resolve("v9")
    with pytest.raises(Misuse, match="is no git repository"):
        Repository(tmp_path, tmp_path / "other.git")
    (tmp_path / "work" / "bisect.json").write_text('{"schema": 1}')
    with pytest.raises(LabBroken, match="is damaged"):
        load_state(tmp_path / "work", made.state)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[Finding, list[str]]:
    made = Rig.of(tmp_path_factory.mktemp("bisect"), line(12, 5))
    return made.run(), made.commits


def test_the_conclusion_names_the_commit_and_its_checks(found: tuple[Finding, list[str]]) -> None:
    finding, commits = found
    text = "\n".join(conclusion(finding, JUDGED))
    assert f'First bad commit: {commits[5][:12]} ("change 5")' in text
    assert "the parent: good" in text
    assert "the commit: bad" in text
    assert "the bad end with the commit reverted: good" in text
    assert "Verified." in text


def test_a_finding_that_was_not_verified_says_so(found: tuple[Finding, list[str]]) -> None:
    finding, _ = found
    assert finding.culprit is not None
    text_only = replace(finding.culprit, files=("Documentation/block/x.rst",))
    doubtful = replace(finding, culprit=text_only, checks=(*finding.checks[:2], (finding.checks[2][0], CommitWord.BAD)))
    text = "\n".join(conclusion(doubtful, JUDGED))
    assert "NOT verified" in text
    assert "Caution: it touches documentation only" in text
    undecided = replace(finding, culprit=None, left=(finding.steps[0].commit,))
    assert "Not decided: it is one of 1" in "\n".join(conclusion(undecided, JUDGED))
    assert mail(undecided, JUDGED, []) == ""


def test_the_mail_is_ready_to_be_sent(found: tuple[Finding, list[str]]) -> None:
    finding, commits = found
    changed = differential_lines(differential(profile(BEFORE), profile(AFTER)))
    text = mail(finding, JUDGED, ["blklab run x"], changed)
    rows = [line.split() for line in text.splitlines() if line.endswith("schedule (only after)")]
    assert rows == [["+60", "0", "->", "60", "0.00", "->", "1.00", "schedule", "(only", "after)"]]
    assert text.startswith("Subject: [REGRESSION] ")
    assert f"#regzbot introduced: {commits[5]}\n" in text
    assert "0.9900 .. 1.000 before, 0.02000 .. 0.03000 since" in text
    assert "    blklab run x" in text
    assert max(map(len, text.splitlines())) <= 120
