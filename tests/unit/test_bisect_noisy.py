# SPDX-License-Identifier: GPL-2.0-only
"""The search for a commit by ratios that scatter, on real git histories with a seeded oracle."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.bisect.finding import PARENT, conclusion, mail
from harness.bisect.notebook import ClaimSeen, CommitWord, Notebook, Observation, State, load_state
from harness.bisect.repository import Repository
from harness.bisect.search import NoisyBisection
from lab.base.errors import CannotJudge
from tests.unit.analysis_samples import scenario
from tests.unit.history_samples import THAT, commit, git, history

DEVIATION, SHIFT = 0.1, 0.3


class NoisyOracle:
    """1.0 before the culprit and ``1 - shift`` from it on, in seeded ratios; six of them are a whole run."""

    setting = "s"

    def __init__(self, clone: Path, seed: int, shift: float = SHIFT, before: Callable[[], None] = lambda: None) -> None:
        self.clone, self._random, self._shift, self._before = clone, random.Random(seed), shift, before  # noqa: S311
        self.measured: list[str] = []

    def measure(self, commit: str, *, once: bool = False, moved: bool = False) -> Observation:
        self._before()
        word = git(self.clone, "show", f"{commit}:verdict")
        self.measured.append(commit)
        if word not in ("good", "bad"):
            return Observation(commit, self.setting, untestable=word)
        mean = 1.0 if word == "good" else 1.0 - self._shift
        ratios = tuple(self._random.gauss(mean, DEVIATION) for _ in range(1 if once else 6))
        status = "PASS" if word == "good" else "FAIL"
        return Observation(commit, self.setting, (ClaimSeen(THAT, "a / b", status, ratios),))

    def kernel(self, commit: str) -> None:
        raise AssertionError("a build would disturb a measurement by the host's clock")


def line(count: int, culprit: int, broken: tuple[int, ...] = ()) -> list[dict[str, str]]:
    words = ("does not build" if n in broken else "bad" if n >= culprit else "good" for n in range(count))
    return [{f"f{number}": "x", "verdict": word} for number, word in enumerate(words)]


class Rig:
    def __init__(self, folder: Path, commits: list[str]) -> None:
        self.folder, self.commits = folder, commits
        self.repository = Repository(folder / "tree", folder / "clone.git")
        self.state = State("t", str(folder / "tree"), commits[0], commits[-1])
        self.told: list[str] = []

    def bisection(self, oracle: NoisyOracle) -> NoisyBisection:
        return NoisyBisection(self.repository, oracle, self.state, self.folder, self.told.append)

    def oracle(self, seed: int, shift: float = SHIFT, before: Callable[[], None] = lambda: None) -> NoisyOracle:
        return NoisyOracle(self.repository.folder, seed, shift, before)


def rig(folder: Path, changes: list[dict[str, str]]) -> Rig:
    return Rig(folder, history(folder / "tree", changes))


def test_the_culprit_is_found_with_its_confidence(tmp_path: Path) -> None:
    made = rig(tmp_path, line(48, 29))
    oracle = made.oracle(1)
    finding = made.bisection(oracle).run()
    assert finding.culprit is not None and finding.culprit.sha == made.commits[29]
    assert finding.verified
    assert finding.confidence is not None and 0.99 <= finding.confidence < 1
    assert len(oracle.measured) < 48
    text = "\n".join(conclusion(finding, scenario()))
    assert "It is the culprit with a probability of 99." in text
    assert "figures that scatter" in mail(finding, scenario(), [])


def test_commits_that_cannot_be_tested_are_left_out_or_left_over(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    out = rig(tmp_path / "out", line(24, 15, broken=(5, 11, 12)))
    finding = out.bisection(out.oracle(2)).run()
    assert finding.culprit is not None and finding.culprit.sha == out.commits[15]
    assert {step.answer.word for step in finding.steps} == {CommitWord.GOOD, CommitWord.BAD, CommitWord.SKIP}
    (tmp_path / "over").mkdir()
    over = rig(tmp_path / "over", line(24, 12, broken=(11, 12)))
    finding = over.bisection(over.oracle(3)).run()
    assert finding.culprit is None
    assert [left.sha for left in finding.left] == over.commits[11:14]
    assert not finding.verified
    assert "it is one of 3 with a probability of 99." in "\n".join(conclusion(finding, scenario()))


def test_ratios_measured_before_a_kill_count(tmp_path: Path) -> None:
    made = rig(tmp_path, line(32, 20))
    count = 0

    def kill() -> None:
        nonlocal count
        count += 1
        if count == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        made.bisection(made.oracle(4, before=kill)).run()
    before = load_state(tmp_path, made.state).observations
    assert sum(len(seen.claims[0].values) for seen in before.values()) == 2 * 6 + 3
    oracle = made.oracle(5)
    finding = made.bisection(oracle).run()
    assert finding.culprit is not None and finding.culprit.sha == made.commits[20]
    after = load_state(tmp_path, made.state).observations
    for sha, seen in before.items():
        assert after[sha].claims[0].values[: len(seen.claims[0].values)] == seen.claims[0].values
    assert not {made.commits[0], made.commits[-1]} & set(oracle.measured), "the ends are known"


def merged(folder: Path, verdict_on: str) -> tuple[Rig, list[str], str]:
    commits = history(folder / "tree", line(6, 99))
    tree = folder / "tree"
    git(tree, "checkout", "--quiet", "-b", "side", commits[1])
    side = [commit(tree, 10 + number, {f"s{number}": "x"}) for number in range(3)]
    if verdict_on == "side":
        side.append(commit(tree, 20, {"verdict": "bad"}))
    side.append(commit(tree, 21, {"s9": "x"}))
    git(tree, "checkout", "--quiet", "main")
    git(tree, "merge", "--quiet", "--no-ff", "--no-commit", "side")
    if verdict_on == "merge":
        (tree / "verdict").write_text("bad")
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "-m", "merge side", date=30)
    merge = git(tree, "rev-parse", "HEAD")
    tips = [commit(tree, 40 + number, {f"t{number}": "x"}) for number in range(4)]
    return Rig(folder, [*commits, *tips]), side, merge


def test_from_a_merge_it_goes_on_into_what_was_merged(tmp_path: Path) -> None:
    made, side, merge = merged(tmp_path, "side")
    finding = made.bisection(made.oracle(6)).run()
    assert finding.culprit is not None and finding.culprit.sha == side[3]
    assert f"{merge[:12]} is a merge: continuing in its 5 merged commits" in made.told


def test_a_merge_whose_sides_are_good_is_the_culprit_itself(tmp_path: Path) -> None:
    made, _, merge = merged(tmp_path, "merge")
    finding = made.bisection(made.oracle(7)).run()
    assert finding.culprit is not None and finding.culprit.sha == merge
    assert dict(finding.checks)[PARENT] is CommitWord.GOOD
    assert any("it is a merge" in text for text in finding.cautions)


def test_ends_that_are_not_apart_stop_the_search(tmp_path: Path) -> None:
    made = rig(tmp_path, line(8, 4))
    with pytest.raises(CannotJudge, match="the ends are not apart"):
        made.bisection(made.oracle(3, shift=0.02)).run()
    assert len(load_state(tmp_path, made.state).observations) == 2


def test_what_was_measured_stays_when_a_commit_cannot_be_tested_any_more(tmp_path: Path) -> None:
    made = rig(tmp_path, line(4, 2))
    notes = Notebook(tmp_path, made.state, made.oracle(9), made.told.append)
    first = notes.once_more(made.commits[1])
    assert len(notes.once_more(made.commits[1]).claims[0].values) == 2

    class Breaks(NoisyOracle):
        def measure(self, commit: str, *, once: bool = False, moved: bool = False) -> Observation:
            return Observation(commit, self.setting, untestable="the lab was interrupted")

    notes = Notebook(tmp_path, made.state, Breaks(made.repository.folder, 9), made.told.append)
    kept = notes.once_more(made.commits[1])
    assert kept.claims[0].values[0] == first.claims[0].values[0]
    assert not kept.untestable
