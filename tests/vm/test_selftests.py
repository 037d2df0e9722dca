# SPDX-License-Identifier: GPL-2.0-only
"""The selftests and known bottlenecks on a real kernel, and what becomes of them when judge or precedence is broken."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from harness import fitted
from harness.base.checkout import SCENARIOS
from harness.commands.explain import prove
from harness.commands.maintain import misnamed, run_selftests, shortfalls
from harness.judge import cells as cells_module
from harness.judge.cells import ENDINGS
from harness.limits import bottleneck as precedence_module
from harness.limits.bottleneck import PRECEDENCE, Bottleneck
from harness.limits.queues import ElementKind
from harness.record import judging
from harness.record.judging import explain_run, judge_run
from harness.record.store import RunFolder, Store, load_run
from harness.run.bench import Bench
from harness.scenario.load import find_scenarios, read_scenario
from harness.scenario.model import Bound, Status
from lab.base.cache import Cache
from lab.base.errors import BlklabError
from lab.base.record import Outcome
from lab.kernels.model import Kernel
from lab.kernels.resolve import resolve
from lab.session import Lab, open_lab

SELFTESTS = SCENARIOS / "selftest"
KERNEL = "debian:6.1"
JUDGED_ANEW = ("must-fail", "must-io-error", "must-not-repeat")


def run(names: Iterable[str], results: Path) -> dict[str, list[str]]:
    """What was not as it must be, by selftest."""
    cache = Cache.default()
    try:
        kernel, lab = resolve(KERNEL, cache), open_lab(cache)
    except BlklabError as error:
        pytest.skip(f"{KERNEL} cannot be had here: {error.message}")
    scenarios = [read_scenario(name, search=SELFTESTS) for name in names]
    trials = run_selftests(Bench(lab, Store(results)), scenarios, kernel)
    return {scenario.name: wrong for scenario, _, wrong in trials}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of the selftests that are judged anew below, each of which passed."""
    results = tmp_path_factory.mktemp("results")
    assert run(JUDGED_ANEW, results) == {name: [] for name in JUDGED_ANEW}
    return results


def missing_now(runs: Path, name: str) -> list[str]:
    """Judge the run again from its raw artefacts, by the code as it is now."""
    folder = load_run(runs / name / "latest")
    assert folder.scenario.selftest is not None
    return list(shortfalls(folder.scenario.selftest, judge_run(folder)))


def always_holds(bound: Bound, value: float) -> bool:
    return True


def never_minds_warnings(outcome: object, *, warned: bool) -> tuple[Status, str]:
    return ENDINGS[Outcome.BYE]


def never_compares(repetitions: "list[cells_module.CellResult]") -> cells_module.CellResult:
    return repetitions[0]


@pytest.mark.parametrize(
    ("name", "target", "mutation"),
    [
        ("must-fail", (Bound, "holds"), always_holds),
        ("must-io-error", (cells_module, "ending"), never_minds_warnings),
        ("must-not-repeat", (judging, "common_result"), never_compares),
    ],
)
def test_a_broken_judge_turns_a_selftest_red(
    runs: Path, monkeypatch: pytest.MonkeyPatch, name: str, target: tuple[object, str], mutation: Callable[..., object]
) -> None:
    assert missing_now(runs, name) == []
    monkeypatch.setattr(*target, mutation)
    assert missing_now(runs, name) != []


@pytest.mark.slow
def test_every_selftest_ends_as_it_must(tmp_path: Path) -> None:
    names = list(find_scenarios(SELFTESTS))
    assert run(names, tmp_path) == {name: [] for name in names}


NAMES = tuple(name for name in find_scenarios(SELFTESTS) if name.startswith("bottleneck-"))


@pytest.fixture(scope="module")
def store(machine: tuple[Lab, Kernel], tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Runs of all the selftests, each of which passed."""
    lab, kernel = machine
    store = Store(tmp_path_factory.mktemp("results"))
    scenarios = [read_scenario(name, search=SELFTESTS) for name in NAMES]
    trials = run_selftests(Bench(lab, store), scenarios, kernel)
    assert {scenario.name: wrong for scenario, _, wrong in trials} == {name: [] for name in NAMES}
    return store


def latest(store: Store, name: str) -> RunFolder:
    return load_run(store.root / name / "latest")


def missed(run: RunFolder) -> list[str]:
    assert run.scenario.selftest is not None
    return list(misnamed(run.scenario.selftest, run))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "first"), [("bottleneck-devices", ElementKind.LUN_DEPTH), ("bottleneck-selector", ElementKind.LINK)]
)
def test_another_precedence_turns_a_selftest_red(
    store: Store, monkeypatch: pytest.MonkeyPatch, name: str, first: ElementKind
) -> None:
    run = latest(store, name)
    assert missed(run) == []
    monkeypatch.setattr(precedence_module, "PRECEDENCE", (first, *(kind for kind in PRECEDENCE if kind is not first)))
    assert missed(run) != []


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_each_name_is_proven_by_counterfactual(store: Store, machine: tuple[Lab, Kernel], name: str) -> None:
    lab, kernel = machine
    run = latest(store, name)
    found = [one for one in explain_run(run) if isinstance(one, Bottleneck)]
    assert found
    for one in found:
        proof = prove(Bench(lab, store), kernel, 1, run, one)
        assert proof.proven, proof
        assert proof.named.gain is not None and proof.named.gain > fitted.LEAST_GAIN
