# SPDX-License-Identifier: GPL-2.0-only
"""Bisection by a kept find: commits and releases, whose searches are made up."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.bisect.finding import Finding, conclusion, mail, odds_of
from harness.bisect.notebook import CommitWord, SeedOracle
from harness.bisect.releases import between, text
from harness.bisect.search import Bisection
from harness.commands.bisect import Bisect
from harness.commands.parser import build_parser
from harness.grid.lines import GridRow
from harness.hunt.finds import Attempt, KeptFind
from harness.limits.entries import load_scenario
from harness.scenario.model import Scenario
from lab.base.errors import CannotJudge
from tests.unit.history_samples import Bisected, git

KEPT = KeptFind(
    *("hunt/planted-sleep", "null-blk", "source:6.12+race-sleep", "claim: a waits", ("null_enter",)),
    *((), "few", 1, 35, 164),
)
SCENARIO = load_scenario(KEPT.scenario)
FOUND, NOTHING, OTHER = Attempt(35, "claim: a waits 4 ms"), Attempt(164), Attempt(164, others=("oops: NULL",))
WORDS = {"new": replace(NOTHING, elsewhere=True), "good": NOTHING, "bad": FOUND, "oops": OTHER}


@pytest.fixture(autouse=True)
def made_up_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bench of an oracle is a function of a kernel's name, and of whether its layout is another one."""

    def try_find(bench: Any, kernel: Any, kept: KeptFind, own: Scenario, _: object) -> Attempt:
        found: Attempt = bench(kernel, own.name != kept.planned.name)
        return found

    monkeypatch.setattr("harness.bisect.notebook.try_find", try_find)


def oracle(word_of: dict[str, str], tried: list[tuple[str, bool]], told: list[str] | None = None) -> SeedOracle:
    """``word_of`` a commit or spec: good, bad, oops, or why it cannot be searched."""

    def attempt(name: str, moved: bool) -> Attempt:
        tried.append((name, moved))
        if word_of[name] not in WORDS:
            raise CannotJudge(word_of[name])
        return WORDS[word_of[name]]

    own: dict[str, Any] = {"bench": attempt, "kernel": lambda name: name}
    return SeedOracle(KEPT, "s", **own, tell=(told if told is not None else []).append)


def bisected(folder: Path, words: list[str], tried: list[tuple[str, bool]] | None = None) -> tuple[Finding, list[str]]:
    made = Bisected.of(folder, [{f"f{number}": word, "verdict": word} for number, word in enumerate(words)])

    class Reverts(dict[str, str]):
        def __missing__(self, sha: str) -> str:
            return git(made.repository.folder, "show", f"{sha}:verdict")

    own = oracle(Reverts(), [] if tried is None else tried)
    return Bisection(made.repository, own, made.state, folder, made.told.append).run(), made.commits


def test_commands_that_repeat_name_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    """They lost it in a merge, and no test saw it."""
    monkeypatch.setenv("BLKLAB_CONFIG", "/tmp/own.config")
    parser = build_parser(["bisect"])
    run = parser.parse(["bisect", "fair-tags", "--seeds", "2", "--arm", "even"])
    search = parser.parse(["bisect", "--hunt", "planted-list"])
    assert isinstance(run, Bisect) and isinstance(search, Bisect)
    assert run.again("v6.12") == "blklab run fair-tags --kernel v6.12 --seeds 2 --arm even --config /tmp/own.config"
    assert search.again("v6.12") == "blklab hunt --kept planted-list --kernel v6.12 --config /tmp/own.config"
    for asked in (run, search):
        assert asked.words[-2:] == ["--config", "/tmp/own.config"]


def test_the_commit_from_which_on_a_search_finds_the_fault(tmp_path: Path) -> None:
    """With a find after 35 seeds a search of 164 misses with (35/36)^164 = 0.99 %."""
    tried: list[tuple[str, bool]] = []
    finding, commits = bisected(tmp_path, ["good"] * 9 + ["bad"] * 7, tried)
    assert finding.culprit and finding.culprit.sha == commits[9]
    assert finding.verified
    assert [moved for _, moved in tried].count(True) == 2
    says = odds_of(KEPT, finding.question, [step.seen for step in finding.steps])
    assert says == (
        "The bad end fails after 35 seeds; each good side passed 164: 1.0% of such searches miss it, an estimate of "
        "one find."
    )
    lines = [*conclusion(replace(finding, odds=says), SCENARIO)]
    assert f"Verified. {says}" in lines
    assert not any("Distance" in line for line in lines), "claims of the scenario were not measured"
    letter = mail(replace(finding, odds=says), SCENARIO, ["blklab bisect --hunt x"])
    assert '("change 9") lets a schedule of several CPUs find a fault of the block layer:' in letter
    assert "  164 seeds of few have no fault of kind claim\n    finds per seed\n    0 before, 0.02857 since\n" in letter
    assert says in letter


def test_a_good_side_without_the_functions_of_the_find_has_no_odds(tmp_path: Path) -> None:
    finding, _ = bisected(tmp_path, ["new", "bad"])
    says = odds_of(KEPT, finding.question, [step.seen for step in finding.steps])
    assert says.endswith("passed 164: how many searches miss it is unknown where functions of the find are missing.")
    assert "%" not in says


def test_another_fault_and_kernels_that_cannot_be_searched_are_skipped(tmp_path: Path) -> None:
    finding, commits = bisected(tmp_path, ["good", "good", "oops", "does not boot", "bad", "bad"])
    assert {commit.sha for commit in finding.left} == set(commits[2:5])
    reasons = {step.answer.reason for step in finding.steps if step.answer.word is CommitWord.SKIP}
    assert reasons == {"another fault: oops: NULL", "does not boot"}


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (["good", "good", "good"], "no claim holds on the good end and fails on the bad one"),
        (["bad", "bad", "bad"], "no claim holds on the good end and fails on the bad one"),
        (["bad", "bad", "good"], "the good end fails and the bad one passes"),
        (["oops", "bad", "bad"], "the good end .* cannot be tested: another fault: oops: NULL"),
        (["good", "bad", "does not boot"], "the bad end .* cannot be tested: does not boot"),
    ],
    ids=" ".join,
)
def test_ends_that_do_not_behave_are_refused(words: list[str], wrong: str, tmp_path: Path) -> None:
    with pytest.raises(CannotJudge, match=wrong):
        bisected(tmp_path, words)


SPECS = [f"debian:6.{number}" for number in range(1, 8)]


@pytest.mark.parametrize("bad", [1, 4, 6])
def test_the_release_from_which_on_a_search_finds_the_fault(bad: int) -> None:
    """Two ends, and bisection of the five between them: at most three more."""
    tried: list[tuple[str, bool]] = []
    own = oracle({spec: "bad" if place >= bad else "good" for place, spec in enumerate(SPECS)}, tried)
    releases = between(GridRow.of(SCENARIO, SPECS), own.observed, lambda _: None)
    assert (releases.good, releases.bad, releases.left) == (bad - 1, bad, ())
    assert len(tried) == len({*tried}) <= 5
    lines = [*text(releases, 2, "")]
    assert f"6.{bad} -> 6.{bad + 1}: 6.{bad} is the last good release, 6.{bad + 1} the first bad one" in lines
    assert "  164 seeds of few have no fault of kind claim: 0 -> 0.02857" in lines
    assert f"  {len(tried)} of 7 kernels measured" in lines
    assert "after 35 seeds" in odds_of(KEPT, releases.question, releases.seen.values())


def test_what_a_search_finds_is_told() -> None:
    told: list[str] = []
    oracle({"debian:6.1": "bad"}, [], told).measure("debian:6.1")
    assert told == ["debian:6.1: 35 seeds: claim: a waits 4 ms"]
