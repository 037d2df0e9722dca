# SPDX-License-Identifier: GPL-2.0-only
"""`blklab bisect` as it is over 64 commits that a made-up make builds: found, and found again after each SIGKILL."""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.base.plain import identity
from harness.bisect.notebook import STATE, KernelOracle, State
from harness.bisect.repository import Repository
from harness.bisect.search import NoisyBisection
from harness.record.store import Store
from harness.run.bench import Bench
from harness.scenario.load import read_scenario
from harness.scenario.timing import Clock
from lab.base.cache import Cache
from lab.base.errors import EXIT_PASS
from lab.kernels.kconfig import fragments, read_fragments
from lab.session import open_lab
from tests.process import fake_lab
from tests.process.fake_lab import BUILTIN, LOADED, FakeLab
from tests.unit.payload_samples import CONFIG
from tests.unit.tree_samples import commit, fake_make, git, write_source
from tests.vm.kernel_history import History, make_history

COUNT, CULPRIT, BROKEN = 66, 41, (32, 33, 37)
_FILES = ("block/bio.c", "Documentation/block/index.rst", "lib/sort.c", "drivers/md/dm-linear.c", "block/elevator.c")
_MUTANT = """\
--- a/block/blk.c
+++ b/block/blk.c
@@ -1 +1 @@
-int blk;
+int mutant;
"""
_PLAN = {"mutant": ["int mutant", {"iops": {"lopsided.victim": 10.0}}]}
_PROGRAM = "import sys, lab.base.host; lab.base.host.BUILD_NEEDS = (); from harness.cli import main; sys.exit(main())"


class Rig:
    """A made-up lab with a history, each commit of which takes two boots."""

    def __init__(self, lab: FakeLab) -> None:
        self.lab = lab
        lab.program = ("-c", _PROGRAM)
        lab.patience = 250
        parameters = [name for names in LOADED.values() for name in names]
        tools = fake_make(lab.folder, "6.12.7-blklab", LOADED, BUILTIN, parameters)
        lab.variables["PATH"] = f"{tools}{os.pathsep}{os.environ['PATH']}"
        lab.variables["FAKE_PLAN"] = json.dumps(_PLAN)
        self.history = _history(lab.folder)

    @property
    def words(self) -> list[str]:
        tree, ends = self.history.repository, (self.history.commits[0], "main")
        return [
            *("bisect", str(self.lab.scenario), "--tree", str(tree), "--good", ends[0], "--bad", ends[1]),
            *("--seeds", "1", "--jobs", "1", "--ahead", "2", "--results", str(self.lab.results)),
        ]

    def run(self) -> "subprocess.CompletedProcess[str]":
        return self.lab.call(*self.words)

    def observed(self) -> dict[str, object]:
        states = list(self.lab.results.glob(f"bisect/*/{STATE}"))
        return dict(json.loads(states[0].read_text())["observations"]) if states else {}


def _history(folder: Path) -> History:
    options = [option.option.removeprefix("CONFIG_") for option in read_fragments(fragments())]
    source = write_source(folder / "linux", options=[*options, *(name.removeprefix("CONFIG_") for name in CONFIG)])
    for name in (*_FILES, "block/blk-core.c"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(f"/* {name} */\n")
    commit(source, "source")
    patch = folder / "mutant.patch"
    patch.write_text(_MUTANT)
    tree = git(source, "rev-parse", "HEAD^{tree}")
    objects = source / ".git/objects"
    return make_history(folder / "tree.git", objects, tree, patch, count=COUNT, culprit=CULPRIT, broken=BROKEN)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    yield from map(Rig, fake_lab.standing(tmp_path))


def culprit(rig: Rig) -> str:
    return rig.history.commits[CULPRIT]


def assert_found(rig: Rig, done: "subprocess.CompletedProcess[str]") -> None:
    assert done.returncode == EXIT_PASS, done.stdout + done.stderr
    assert f'First bad commit: {culprit(rig)[:12]} ("change {CULPRIT}")' in done.stdout
    assert "Verified." in done.stdout
    (mail,) = rig.lab.results.glob("bisect/*/mail.txt")
    assert f"#regzbot introduced: {culprit(rig)}\n" in mail.read_text()


def test_exactly_the_culprit_is_found_past_commits_that_do_not_build(rig: Rig) -> None:
    done = rig.run()
    assert_found(rig, done)
    assert "skip does not build: block/blk.c:3:2: error: #error broken" in " ".join(done.stdout.split())
    kernel = f"tree:{rig.history.repository}@{culprit(rig)}"
    assert f"blklab run {rig.lab.scenario} --kernel {kernel} --seeds 1\n" in done.stdout
    # The profile at the end boots outside of the results.
    assert len([folder for folder in rig.lab.boots() if folder.startswith(str(rig.lab.results))]) <= 2 * 12


def test_killed_in_boots_it_measures_nothing_twice(rig: Rig) -> None:
    killed = (1, 6, 11)
    before: dict[str, object] = {}
    for boot in killed:
        process = rig.lab.start(*rig.words, FAKE_PLAN=json.dumps({**_PLAN, "hold": [boot, "load"]}))
        rig.lab.await_boots(len(rig.lab.boots("held-load")) + 1, "held-load")
        process.kill()
        process.communicate()
        seen = rig.observed()
        assert {sha: seen[sha] for sha in before} == before
        before = seen
    assert_found(rig, rig.run())
    after = rig.observed()
    assert {sha: after[sha] for sha in before} == before
    booted = sum(bool(seen["claims"]) for seen in after.values() if isinstance(seen, dict))
    # Boots that were cut short are made again, and no others. The profile at the end boots outside of the results.
    made = [folder for folder in rig.lab.boots() if folder.startswith(str(rig.lab.results))]
    assert len(made) == 2 * booted + len(killed)


def test_killed_wherever_it_is_it_finds_the_culprit(rig: Rig) -> None:
    for count in (1, 4):
        process = rig.lab.start(*rig.words)
        while len(rig.observed()) < count and process.poll() is None:
            time.sleep(0.002)
        process.kill()
        process.communicate()
    assert_found(rig, rig.run())


def test_where_figures_scatter_the_posterior_searches(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = {"noise": 0.05, "mutant": ["int mutant", {"iops": {"lopsided.victim": 600.0}}]}
    for name, value in rig.lab.environment(FAKE_PLAN=json.dumps(plan)).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("lab.base.host.BUILD_NEEDS", ())
    plain = read_scenario(str(rig.lab.scenario), search=rig.lab.folder)
    noisy = replace(plain, clock=Clock.WALL, seeds=6)
    scenario = replace(noisy, digest=identity(noisy))
    commits = rig.history.commits[30:44]
    folder = rig.lab.folder / "noisy"
    folder.mkdir()
    repository = Repository(rig.history.repository, folder / "clone.git")
    told: list[str] = []
    bench = Bench(open_lab(Cache(rig.lab.folder / "cache")), Store(rig.lab.results))
    oracle, other = (KernelOracle(bench, repository, scenario, told.append, seeds, ("limited",)) for seeds in (None, 5))
    assert oracle.setting != other.setting
    own = folder / "own.config"
    own.write_text("CONFIG_X86_64=y\n")
    with monkeypatch.context() as changed:
        changed.setenv("BLKLAB_CONFIG", str(own))
        configured = KernelOracle(bench, repository, scenario, told.append, None, ("limited",))
        assert configured.setting != oracle.setting, "what was observed with another .config is no record"
    state = State(scenario.digest, "tree", commits[0], commits[-1])
    finding = NoisyBisection(repository, oracle, state, folder, told.append).run()
    assert finding.culprit is not None and finding.culprit.sha == culprit(rig)
    assert finding.verified
    assert finding.confidence is not None and finding.confidence >= 0.99
    ratios = [value for step in finding.steps for claim in step.seen.claims for value in claim.values]
    assert len(set(ratios)) > len(finding.steps), "each measurement is a boot of its own"
