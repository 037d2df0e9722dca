# SPDX-License-Identifier: GPL-2.0-only
"""The search for a commit by ratios that scatter: on real git histories with a seeded oracle, and on simulated ones."""

import math
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.bisect.finding import PARENT, conclusion, mail
from harness.bisect.notebook import ClaimSeen, CommitWord, Notebook, Observation, load_state
from harness.bisect.search import Ends, NoisyBisection, Posterior, search
from harness.scenario.model import Status
from lab.base.errors import CannotJudge
from tests.unit.analysis_samples import scenario
from tests.unit.history_samples import THAT, Bisected, commit, git, history, line

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
        status = Status.PASS if word == "good" else Status.FAIL
        return Observation(commit, self.setting, (ClaimSeen(THAT, "a / b", status, ratios),))

    def kernel(self, commit: str) -> None:
        raise AssertionError("a build would disturb a measurement by the host's clock")


class Rig(Bisected):
    def bisection(self, oracle: NoisyOracle) -> NoisyBisection:
        return NoisyBisection(self.repository, oracle, self.state, self.folder, self.told.append)

    def oracle(self, seed: int, shift: float = SHIFT, before: Callable[[], None] = lambda: None) -> NoisyOracle:
        return NoisyOracle(self.repository.folder, seed, shift, before)


def test_the_culprit_is_found_with_its_confidence(tmp_path: Path) -> None:
    made = Rig.of(tmp_path, line(48, 29))
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
    out = Rig.of(tmp_path / "out", line(24, 15, broken=(5, 11, 12)))
    finding = out.bisection(out.oracle(2)).run()
    assert finding.culprit is not None and finding.culprit.sha == out.commits[15]
    assert {step.answer.word for step in finding.steps} == {CommitWord.GOOD, CommitWord.BAD, CommitWord.SKIP}
    (tmp_path / "over").mkdir()
    over = Rig.of(tmp_path / "over", line(24, 12, broken=(11, 12)))
    finding = over.bisection(over.oracle(3)).run()
    assert finding.culprit is None
    assert [left.sha for left in finding.left] == over.commits[11:14]
    assert not finding.verified
    assert "it is one of 3 with a probability of 99." in "\n".join(conclusion(finding, scenario()))


def test_ratios_measured_before_a_kill_count(tmp_path: Path) -> None:
    made = Rig.of(tmp_path, line(32, 20))
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
    made = Rig.of(tmp_path, line(8, 4))
    with pytest.raises(CannotJudge, match="the ends are not apart"):
        made.bisection(made.oracle(3, shift=0.02)).run()
    assert len(load_state(tmp_path, made.state).observations) == 2


def test_what_was_measured_stays_when_a_commit_cannot_be_tested_any_more(tmp_path: Path) -> None:
    made = Rig.of(tmp_path, line(4, 2))
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


MANY = 10**6
"""Degrees of freedom with which Student's distribution is nearly the normal one."""
ENDS = Ends(good=1.0, bad=0.0, deviation=0.5, freedom=MANY)


def test_ends_come_from_what_was_measured() -> None:
    ends = Ends.of([1.0, 1.2, 0.8], [0.5, 0.3])
    assert [ends.good, ends.bad] == pytest.approx([1.0, 0.4])
    assert ends.deviation == pytest.approx(math.sqrt((0.04 + 0.04 + 0.02) / 3))
    assert ends.freedom == 3
    assert ends.apart == pytest.approx(0.6 / ends.deviation)
    with pytest.raises(ValueError, match="two measurements"):
        Ends.of([1.0], [0.5, 0.3])
    with pytest.raises(ValueError, match="do not scatter"):
        Ends.of([1.0, 1.0], [0.5, 0.5])


def test_bayes_rule() -> None:
    posterior = Posterior.of(ENDS, 4).updated(1, 1.0)
    # The ratio of likelihoods of 1.0 under the good and the bad mean is exp(2).
    weights = [1, 1, math.exp(2), math.exp(2)]
    assert posterior.chances == pytest.approx([weight / sum(weights) for weight in weights], rel=1e-4)


def test_a_deviation_known_by_few_measurements_convinces_less() -> None:
    known, few = (Posterior.of(Ends(1.0, 0.0, 0.5, freedom), 2).updated(0, 1.0) for freedom in (MANY, 3))
    # Student's density at 2 deviations over that at none, with 3 degrees of freedom: (1 + 4/3)^-2.
    assert few.chances[0] / few.chances[1] == pytest.approx((7 / 3) ** -2)
    assert few.chances[0] > known.chances[0]


def test_a_ratio_in_the_middle_says_nothing_and_one_far_from_both_breaks_nothing() -> None:
    flat = Posterior.of(ENDS, 8)
    assert flat.updated(3, 0.5).chances == pytest.approx(flat.chances)
    assert sum(flat.updated(3, 1e9).chances) == pytest.approx(1)


@given(st.lists(st.tuples(st.integers(0, 15), st.floats(-3, 4)), max_size=20))
def test_it_stays_a_probability(measurements: list[tuple[int, float]]) -> None:
    posterior = Posterior.of(ENDS, 16)
    for at, ratio in measurements:
        posterior = posterior.updated(at, ratio)
    assert math.fsum(posterior.chances) == pytest.approx(1)
    place = posterior.next_place()
    assert place is not None and 0 <= place < 15


@pytest.mark.parametrize("truth", [0, 1, 100, 255])
def test_without_noise_it_needs_the_logarithm(truth: int) -> None:
    measured: list[int] = []

    def measure(place: int) -> tuple[float]:
        measured.append(place)
        return (0.0 if place >= truth else 1.0,)

    suspects, chance = search(Posterior.of(Ends(1.0, 0.0, 0.01, MANY), 256), measure)
    assert ([*suspects], len(measured)) == ([truth], 8)
    assert chance > 0.999


def test_what_lies_between_two_that_could_be_tested_is_one() -> None:
    posterior = Posterior(ENDS, (0.1, 0.2, 0.3, 0.3, 0.1))
    assert posterior.likeliest() == (range(2, 3), 0.3)
    found, chance = posterior.likeliest({1, 2})
    assert found == range(1, 4)
    assert chance == pytest.approx(0.8)
    assert posterior.next_place({0, 1, 2}) == 3
    assert posterior.next_place({0, 1, 2, 3}) is None


def test_histories_with_noise_and_a_known_culprit() -> None:
    ends, noise, right = Ends(-1.0, 1.0, 1.0, MANY), Random(1), 0  # noqa: S311
    measured: list[int] = []

    def measure(truth: int, place: int) -> tuple[float]:
        measured.append(place)
        return (noise.gauss(1.0 if place >= truth else -1.0, 1.0),)

    for _ in range(150):
        truth = noise.randrange(256)
        suspects, _ = search(Posterior.of(ends, 256), partial(measure, truth))
        right += [*suspects] == [truth]
    # 99 % by its own account; three standard errors of 150 trials below that.
    assert right / 150 >= 0.99 - 3 * math.sqrt(0.99 * 0.01 / 150)
    # Eight steps of five repeats each are wrong with a probability of 10 %, for 40 measurements.
    assert len(measured) / 150 < 24
