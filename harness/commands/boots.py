# SPDX-License-Identifier: GPL-2.0-only
"""What commands that boot begin with: results, lab, scenarios and kernels."""

import pickle
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import NoReturn, TypeVar

from harness.base.checkout import CHECKOUT, EXECUTED, SCENARIOS, results_root
from harness.commands.options import tell
from harness.limits.entries import load_scenario
from harness.patch.choice import REMAKE, ScenarioChoice, choose, load_coverage
from harness.patch.sources import CodeChange
from harness.record.store import RunFolder, Store
from harness.report.terminal import console_of
from harness.report.terminal.progress import progress
from harness.report.terminal.scenario import Estimate, print_estimates
from harness.run.bench import Bench, turns_of_host
from harness.run.events import MatrixListener
from harness.run.plan import expand as cells
from harness.scenario.load import find_scenarios
from harness.scenario.model import Scenario
from lab.base.cache import Cache
from lab.base.contents import demand_intact
from lab.base.digest import canonical, digest_bytes, digest_folder
from lab.base.errors import EXIT_PASS, BlklabError, CannotJudge, LabBroken, Misuse
from lab.base.process import beside
from lab.kernels.debian import expand, offers
from lab.kernels.git import kernel_tree
from lab.kernels.model import Kernel
from lab.kernels.mutants import catalogue
from lab.kernels.resolve import DEFAULT, resolve
from lab.session import Lab, announce, open_lab, ready_qemu

K = TypeVar("K")


def store_of(results: str | None, folder: str = "") -> Store:
    """The results, or a folder of them, which can be written. Raises LabBroken."""
    store = Store(results_root(results) / folder)
    store.check()
    return store


def lab_of_host(*, cold: bool = False) -> Lab:
    return open_lab(Cache.default(), tell, cold=cold)


def watched() -> AbstractContextManager[MatrixListener]:
    """A listener that shows progress on standard error."""
    return progress(console_of(stderr=True))


def bench_of(results: str | None, jobs: int = 0, *, cold: bool = False, folder: str = "") -> Bench:
    """What measures, ``jobs`` boots at a time (0: one per core), into a folder of the results. Raises LabBroken."""
    store, lab = store_of(results, folder), lab_of_host(cold=cold)
    return Bench(lab, store, watched, turns_of_host(jobs))


def bench_and_kernels(
    results: str | None, jobs: int, specs: Sequence[str], *, cold: bool = False, refresh: bool = False
) -> tuple[Bench, list[Kernel]]:
    """``bench_of`` and the kernels. Packages are fetched beside what the lab needs."""
    store_of(results)
    _tell_taken(specs)
    announce(Cache.default(), tell)

    def kernels() -> list[Kernel]:
        return [resolve(spec, Cache.default(), refresh=refresh, tell=tell) for spec in specs]

    # An interrupt reaches the main thread, which alone can end what a build has started.
    packaged = all(spec == DEFAULT or spec.startswith(("debian:", "ubuntu:")) for spec in specs)
    resolved = beside(kernels) if packaged else kernels
    return bench_of(results, jobs, cold=cold), resolved()


def print_dry_run(estimates: Sequence[Estimate], results: str | None) -> int:
    print_estimates(estimates, results_root(results))
    tell("nothing was booted or downloaded")
    return EXIT_PASS


def tell_default(taken: str, option: str) -> None:
    """Say, inside a kernel tree, which kernels are ``taken`` where ``option`` names none."""
    if top := kernel_tree(Path.cwd()):
        tell(f"{taken}; {option} . is the tree {top}")


def _tell_taken(specs: Collection[str]) -> None:
    if DEFAULT in specs:
        tell_default("the kernel is the one of this host's distribution", "--kernel")


def kernel_of(spec: str) -> Kernel:
    """The kernel, in the cache. QEMU is looked for before anything is downloaded."""
    _tell_taken([spec])
    ready_qemu(Cache.default(), tell)
    return resolve(spec, Cache.default(), tell=tell)


def kernel_again(run: RunFolder) -> Kernel:
    """The kernel of a stored run. Raises CannotJudge when its spec names another one now."""
    facts = run.facts.kernel
    kernel = kernel_of(facts.spec)
    if kernel.digest != facts.digest:
        raise CannotJudge(
            f"{facts.spec} is {kernel.origin} now, the run's kernel was {facts.origin}",
            remedy="run the scenario again on the kernel that can be had",
        )
    return kernel


def specs(named: Sequence[str], cache: Cache, *, lenient: bool = False) -> tuple[str, ...]:
    """The specs that ``named`` lists, ranges replaced by what is in them. Raises what ``expand`` raises."""
    return expand(" ".join(named), partial(offers, cache, tell), lenient=lenient)


def refuse_ranges() -> NoReturn:
    """What --dry-run passes to ``expand``: the kernels in a range are known only from the archive."""
    raise Misuse("--dry-run downloads nothing, and a range needs the archive's list", remedy="name the kernels")


def kernels_of(wanted: Sequence[str], get: Callable[[str], K]) -> Mapping[str, K | BlklabError]:
    """What ``get`` gives for each, or why there is none: a missing kernel does not stop the others. Raises Misuse."""
    kernels: dict[str, K | BlklabError] = {}
    for spec in wanted:
        try:
            kernels[spec] = get(spec)
        except Misuse:
            raise
        except BlklabError as error:
            tell(f"{spec}: {error}")
            kernels[spec] = error
    return kernels


def scenario_of(name: str, seeds: int | None, arms: Sequence[str], *, claims: bool = False) -> Scenario:
    """The scenario, which has the arms that are named. ``claims``: one that makes none is a Misuse."""
    scenario = load_scenario(name)
    cells(scenario, seeds, arms or None)
    if claims and not scenario.claims:
        raise Misuse(f"{scenario.name} makes no claim", remedy="add a claim and a negative control")
    return scenario


def distinct(refs: Iterable[str]) -> dict[str, tuple[str, Scenario]]:
    """The scenarios that names and paths refer to, by name, each with its first reference. Raises Misuse."""
    chosen: dict[str, tuple[str, Scenario]] = {}
    for ref, scenario in ((ref, load_scenario(ref)) for ref in refs):
        first, other = chosen.setdefault(scenario.name, (ref, scenario))
        if other.digest != scenario.digest:
            raise Misuse(f"{first} and {ref} are both called {scenario.name}", remedy="rename one of them")
    return chosen


def arms_of(asked: Sequence[str], scenario: Scenario, scenarios: Sequence[Scenario]) -> tuple[str, ...]:
    """Those of the scenario, and those that none of the ``scenarios`` has: planning a run refuses them."""
    known = {arm for other in scenarios for arm in other.arms}
    return tuple(arm for arm in asked if arm in scenario.arms or arm not in known)


def every_scenario() -> list[Scenario]:
    """Those of the virtual clock. To read them takes 1.6 s: the cache keeps them until they or blklab change."""
    folders = [digest_folder(CHECKOUT / name) for name in ("harness", "lab", SCENARIOS.name)]
    key = digest_bytes(canonical([str(CHECKOUT), sys.version, *folders]))
    name = "scenarios.pickle"

    def read(folder: Path) -> None:
        (folder / name).write_bytes(pickle.dumps([load_scenario(name) for name in find_scenarios()]))

    kept = Cache.default().entry("scenarios", key, read) / name
    # The entry is this program's own, and intact.
    scenarios: list[Scenario] = pickle.loads(demand_intact(kept).read_bytes())  # noqa: S301
    return scenarios


def chosen_by(change: CodeChange) -> ScenarioChoice:
    """Those that execute what changes, by the measured list of functions. Raises LabBroken where there is none."""
    tell("looking for the scenarios that execute the change")
    if (executed := load_coverage(EXECUTED)) is None:
        raise LabBroken(f"there is no {EXECUTED}", remedy=REMAKE)
    return choose(change, executed, every_scenario(), catalogue())
