# SPDX-License-Identifier: GPL-2.0-only
"""Known bottlenecks on a real kernel: each is named, proven by counterfactual, and missed by a broken precedence."""

import pytest

from harness.commands.common.options import SCENARIOS
from harness.limits import bottleneck as precedence_module
from harness.limits.bottleneck import LEAST_GAIN, PRECEDENCE, Bottleneck
from harness.limits.elements import ElementKind
from harness.record.judging import explain_run
from harness.record.store import RunFolder, Store, load_run
from harness.run.bench import Bench
from harness.scenario.load import find_scenarios, load_scenario
from harness.studies.proof import prove
from harness.studies.selftest import misnamed, run_selftests
from lab.base.cache import Cache
from lab.base.errors import BlklabError
from lab.kernels.model import Kernel
from lab.kernels.resolve import resolve
from lab.session import Lab, open_lab

SELFTESTS = SCENARIOS / "selftest"
KERNEL = "debian:6.1"
NAMES = tuple(name for name in find_scenarios(SELFTESTS) if name.startswith("bottleneck-"))


@pytest.fixture(scope="module")
def machine() -> tuple[Lab, Kernel]:
    cache = Cache.default()
    try:
        return open_lab(cache), resolve(KERNEL, cache)
    except BlklabError as error:
        pytest.skip(f"{KERNEL} cannot be had here: {error.message}")


@pytest.fixture(scope="module")
def store(machine: tuple[Lab, Kernel], tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Runs of all the selftests, each of which passed."""
    lab, kernel = machine
    store = Store(tmp_path_factory.mktemp("results"))
    scenarios = [load_scenario(name, search=SELFTESTS) for name in NAMES]
    trials = run_selftests(Bench(lab, store), scenarios, kernel)
    assert {scenario.name: wrong for scenario, _, wrong in trials} == {name: [] for name in NAMES}
    return store


def latest(store: Store, name: str) -> RunFolder:
    return load_run(store.root / name / "latest")


def missed(run: RunFolder) -> list[str]:
    assert run.scenario.selftest is not None
    return list(misnamed(run.scenario.selftest, run))


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("bottleneck-devices", ElementKind.LUN_DEPTH),
        ("bottleneck-selector", ElementKind.LINK),
    ],
)
def test_another_precedence_turns_a_selftest_red(
    store: Store, monkeypatch: pytest.MonkeyPatch, name: str, first: ElementKind
) -> None:
    run = latest(store, name)
    assert missed(run) == []
    monkeypatch.setattr(precedence_module, "PRECEDENCE", (first, *(kind for kind in PRECEDENCE if kind is not first)))
    assert missed(run) != []


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", NAMES)
def test_each_name_is_proven_by_counterfactual(store: Store, machine: tuple[Lab, Kernel], name: str) -> None:
    lab, kernel = machine
    run = latest(store, name)
    found = [one for one in explain_run(run) if isinstance(one, Bottleneck)]
    assert found
    for one in found:
        proof = prove(Bench(lab, store), kernel, 1, run, one)
        assert proof.proven, proof
        assert proof.named.gain is not None and proof.named.gain > LEAST_GAIN
