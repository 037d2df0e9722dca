# SPDX-License-Identifier: GPL-2.0-only
"""A git history whose commits change what made-up guests do, and a bench that measures them.

The files of a commit say what its kernel does: a line ``effect NAME`` in a file below block/<scenario>/ has the effect
on that scenario, ``layout N`` moves every figure by up to 0.15 %, as another layout does, ``broken`` does not build,
a kept search finds ``race``, and anything else changes nothing.
"""

import json
import subprocess
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from harness.bisect.repository import Repository
from harness.hunt.finds import Attempt, KeptFind
from harness.patch.choice import ChosenScenario, ScenarioChoice
from harness.patch.sources import Touched
from harness.profile.cells import ProfiledCell
from harness.profile.model import Profile
from harness.record.judging import Run, judge_run
from harness.record.store import KernelFacts, RunFolder, Store, planned, save_boot
from harness.run.bench import Bench
from harness.run.plan import Request
from harness.scenario.model import Scenario
from harness.track.night import Tracker
from harness.track.runs import CommitRuns
from harness.track.state import Folder
from lab.base.errors import CannotJudge
from lab.base.record import Outcome
from lab.kernels.model import Kernel, Release
from lab.kernels.tree import KernelSource
from tests.unit.analysis_samples import claim, control, scenario
from tests.unit.profile_samples import profile
from tests.unit.store_samples import counters, facts, fio_result, record, sampled

SOLO, TOGETHER, SLOW, REQUESTS = 8000.0, 7800.0, 80.0, 100_000
"""IOPS of the fast role alone and with the slow one, those of the slow one, and the reads that a disk counts."""
TAIL = "99.000000"


@dataclass(frozen=True)
class Effect:
    """Factors of what the guest measures; ``function``: of what one function executes, which no other figure shows.
    ``hangs`` is an arm whose guest hangs.

    Any layout moves the slow role by up to half of ``chaos``, as it moves one that starves.
    """

    solo: float = 1.0
    together: float = 1.0
    slow: float = 1.0
    requests: float = 1.0
    tail: float = 1.0
    function: float = 1.0
    hangs: str = ""
    chaos: float = 0.0


def model(name: str) -> Scenario:
    made = scenario([claim()], [control()], ["none", "red"])
    return replace(made, name=name, seeds=2, path=Path(f"{name}.yaml"))


SCENARIOS = {name: model(name) for name in ("alpha", "beta", "gamma")}


class History:
    """A repository with one branch, ``main``, and others on request."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._number = folder, 0
        folder.mkdir(parents=True)
        self.git("init", "-q", "-b", "main")
        self.commit("first", {"block/alpha/base.c": "nothing"})

    def git(self, *words: str) -> str:
        own = ["-c", "user.name=A", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        return subprocess.run(
            ["git", *own, *words], cwd=self.folder, check=True, capture_output=True, text=True
        ).stdout.strip()

    def commit(self, subject: str, files: Mapping[str, str | None]) -> str:
        """A commit with these files; None removes one."""
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink() if text is None else path.write_text(f"{text}\n")
        self.git("add", "-A")
        self._number += 1
        when = f"{1_600_000_000 + 60 * self._number} +0000"
        self.git("-c", "core.editor=true", "commit", "-q", "--allow-empty", "-m", subject, "--date", when)
        return self.git("rev-parse", "HEAD")


@dataclass
class MadeUpBench:
    """Builds and measures commits of ``history`` by their ``effects``; ``dies`` raises after so many runs.

    ``lacks``: what the kernel lacks for a scenario.
    """

    history: History
    store: Store
    effects: Mapping[str, Effect]
    made: Counter[tuple[str, str]] = field(default_factory=Counter)
    built_commits: list[str] = field(default_factory=list)
    profiled: list[tuple[str, str]] = field(default_factory=list)
    dies: int = -1
    lacks: Mapping[str, str] = field(default_factory=dict)
    turns: Any = field(default_factory=lambda: SimpleNamespace(lanes=SimpleNamespace(at_once=2)))
    cluster: Any = None
    lab: Any = field(default_factory=lambda: SimpleNamespace(cache=None))
    _kernels: dict[str, tuple[Mapping[str, list[str]], str]] = field(default_factory=dict)

    def built(self, source: KernelSource, *_: object, tell: Callable[[str], None]) -> Kernel:
        lines = self._lines(source)
        said = [line for text in lines.values() for line in text]
        if "broken" in said:
            raise CannotJudge(f"{source.title} does not build: block/a.c:1: error")
        code = sorted(line for line in said if line.partition(" ")[0] in ("effect", "layout", "race"))
        digest = sha256("\n".join(code).encode()).hexdigest()
        fresh = digest not in self._kernels
        self.built_commits += [source.revision] if fresh else []
        self._kernels[digest] = lines, source.revision
        version, folder = Release.parse("6.12.7"), Path("/kernel")
        made = Kernel(source.spec, "6.12.7", version, "", folder / "bzImage", None, folder, {}, digest)
        return replace(made, build="recipe", fresh=fresh)

    def _lines(self, source: KernelSource) -> Mapping[str, list[str]]:
        command = ["git", "-C", str(source.path), "grep", "-e", ".", source.revision, "--"]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        lines: dict[str, list[str]] = {}
        for _, name, text in (line.split(":", 2) for line in said.splitlines()):
            lines.setdefault(name, []).append(text)
        return lines

    def measure(self, request: Request) -> Run:
        if self.dies == 0:
            raise KeyboardInterrupt
        self.dies -= 1
        name, digest = request.scenario.name, request.kernel.digest
        lines, revision = self._kernels[digest]
        self.made[revision, name] += 1
        model, word = request.scenario, name.partition(".")[2]
        why = (self.lacks[name],) if name in self.lacks else ()
        cells = planned([(arm, seed, why) for seed in (1, 2) for arm in model.arms])
        kernel = KernelFacts.of(request.kernel)
        run = self.store.new_run(model, replace(facts(model, cells), kernel=kernel))
        effect = self._effect(lines, name.partition(".")[0])
        layout = self._layout(request.kernel, word)
        effect = replace(effect, slow=effect.slow * (1 + effect.chaos * layout))
        for cell in run.missing():
            jitter = 1 + 0.003 * layout + 0.0005 * cell.seed
            outcome = Outcome.HANG if cell.arm == effect.hangs else Outcome.BYE
            measured = _files(effect, jitter, starved=cell.arm == "red")
            save_boot(record(run.fresh_boot_folder(cell), measured, outcome))
        verdict = judge_run(run)
        run.finish(verdict, elapsed=1.0)
        return Run(run, verdict)

    def profile_of(self, _: object, run: RunFolder, __: object, kernel: Kernel, *, phase_seen: object) -> Profile:
        """One function of 1,000 instructions, which layout moves by 0.05 %, what it calls, and one of fio."""
        name, _, word = run.facts.scenario.partition(".")
        self.profiled.append((self._kernels[kernel.digest][1], run.facts.scenario))
        cost = (
            1000
            * self._effect(self._kernels[kernel.digest][0], name).function
            * (1 + 0.001 * self._layout(kernel, word))
        )
        program = f"user;fio`{name}_fn 100 500000\n"
        return profile(f"{program}kernel;{name}_fn 100 {round(100 * cost)}\nkernel;{name}_fn;called 100 5000")

    def try_find(self, _: object, kernel: Kernel, kept: KeptFind, scenario: Scenario, __: object) -> Attempt:
        """A line ``race`` is found by the third seed."""
        lines, revision = self._kernels[kernel.digest]
        self.made[revision, scenario.name] += 1
        races = "race" in [line for text in lines.values() for line in text]
        return Attempt(3, "warning: list corruption") if races else Attempt(kept.seeds)

    def _layout(self, kernel: Kernel, word: str) -> float:
        """From -0.5 to 0.5."""
        return int(sha256(f"{kernel.digest}{word}".encode()).hexdigest()[:8], 16) / 2**32 - 0.5

    def _effect(self, lines: Mapping[str, list[str]], name: str) -> Effect:
        total = Effect()
        for path, text in lines.items():
            for line in text if path.startswith(f"block/{name}/") else ():
                own = self.effects[line.removeprefix("effect ")] if line.startswith("effect ") else Effect()
                factors = [what for what in vars(own) if what not in ("hangs", "chaos")]
                numbers = {what: getattr(total, what) * getattr(own, what) for what in factors}
                total = Effect(**numbers, hangs=own.hangs or total.hangs, chaos=own.chaos or total.chaos)
        return total


def _files(effect: Effect, jitter: float, *, starved: bool) -> dict[str, bytes]:
    together = 5.0 if starved else TOGETHER * effect.together * effect.solo * jitter
    measured = {"readback": b"device\t/lab/fast\tnullb0\ndevice\t/lab/slow\tnullb1\n", "kmsg": b"quiet\n"}
    loads = {
        "solo": {"fast": SOLO * effect.solo * jitter},
        "together": {"fast": together, "slow": SLOW * effect.slow},
    }
    for load, iops in loads.items():
        document = json.loads(fio_result(iops))
        for job in document["jobs"]:
            job["read"]["clat_ns"]["percentile"][TAIL] = round(4e6 * effect.tail)
        measured[f"{load}.json"] = json.dumps(document).encode()
        measured[f"{load}.before"] = counters(0)
        measured[f"{load}.after"] = counters(round(REQUESTS * effect.requests), busy=10, idle=90)
        measured |= sampled(load, *iops)
    return measured


@dataclass
class MadeUpTracker:
    """A tracker's folder with all that it needs; ``tracker`` opens it anew, as another process would."""

    history: History
    root: Path
    bench: MadeUpBench
    told: list[str] = field(default_factory=list)
    finds: Mapping[str, KeptFind] = field(default_factory=dict)

    def tracker(self, budget: float = 1e9) -> Tracker:
        folder = Folder(self.root)
        folder.load()
        repository = Repository(self.history.folder, self.root / "clone.git")
        bench = cast("Bench", self.bench)
        runs = CommitRuns(folder, bench, repository, SCENARIOS, self.told.append, finds=self.finds)
        return Tracker(runs, "main", budget, _seconds, repository, self.reach)

    def reach(self, before: str, after: str) -> ScenarioChoice:
        """By the folders of what differs."""
        names = self.history.git("diff", "--name-only", before, after).splitlines()
        executed = {name: [f"{name}_fn"] for name in SCENARIOS if any(f"block/{name}/" in file for file in names)}
        return reach(executed, {"queue_rq"} & {Path(file).stem for file in names})


def reach(
    executing: Mapping[str, Sequence[str]], touched: Collection[str] = (), others: Sequence[str] = ()
) -> ScenarioChoice:
    """A change of ``touched`` functions and ``others``, no C files, with what scenarios execute of it."""
    candidates = (ChosenScenario(SCENARIOS[name], frozenset(of), len(of)) for name, of in executing.items())
    functions = frozenset((name, "block/a.c") for name in touched)
    return ScenarioChoice(Touched(functions, {}, tuple(others)), (), {}, (), tuple(candidates))


def _seconds(_: Scenario) -> float:
    return 60.0


def _no_profiles(*_: object) -> None:
    raise CannotJudge("made-up kernels have no functions that all loads execute")


def made_up(tmp_path: Path, history: History, effects: Mapping[str, Effect]) -> MadeUpTracker:
    root = tmp_path / "track"
    root.mkdir()
    return MadeUpTracker(history, root, MadeUpBench(history, Store(root / "runs"), effects))


def patched_lab(monkeypatch: Any, tracked: MadeUpTracker) -> None:
    monkeypatch.setattr("harness.track.runs.tree.built", tracked.bench.built)
    monkeypatch.setattr("harness.track.runs.setting_of", lambda *_: "setting")
    monkeypatch.setattr("harness.track.runs.busy_cell", lambda _: ProfiledCell("none", "solo"))
    monkeypatch.setattr("harness.track.runs.profile_of", tracked.bench.profile_of)
    monkeypatch.setattr("harness.track.runs.profiles_of_runs", _no_profiles)
    monkeypatch.setattr("harness.track.runs.try_find", tracked.bench.try_find)
    monkeypatch.setattr("os.fsync", lambda _: None)
