# SPDX-License-Identifier: GPL-2.0-only
"""Generated mutants of the block layer, and which of them compare and claims detect."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace

from harness.base.files import write_atomic
from harness.commands.boots import bench_of, every_scenario, watched
from harness.commands.options import DASK, JOBS, RESULTS, number, tell
from harness.commands.parser import Command, flag, option
from harness.grid.cluster import elsewhere
from harness.limits.entries import load_scenario
from harness.scenario.model import Scenario
from lab.base.cache import Cache
from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_PASS, CannotJudge, Misuse
from lab.kernels.debian_source import DEFAULT, named_source
from tools.command import SOURCE, tool
from tools.mutation.campaign import SEED, MutantCampaign, cheap
from tools.mutation.kernel import build_schemata, generate
from tools.mutation.page import fate, mutants_page, score_lines
from tools.mutation.trial import MutantBench, ReferenceArm, Trial, reference

FOLDER, PAGE = "mutants", "mutants.md"
_COUNT, _MOST = 100, 3


def score(
    *,
    scenarios: Sequence[str],
    source: str,
    count: int,
    most: int,
    seed: int,
    stored: bool,
    dask: str | None,
    jobs: int,
    results: str | None,
) -> int:
    chosen = [load_scenario(name) for name in scenarios]
    bench = bench_of(results, jobs, folder=FOLDER)
    kept = named_source(source, Cache.default(), tell)
    if kept is None:
        raise Misuse(f"--source {source}: mutants are built from source", remedy="--source source:6.12")
    generated = generate(kept)
    kernel = build_schemata(generated, bench.lab.cache, tell)
    with elsewhere(dask, tell) as others, watched() as listener:
        boots = MutantBench(replace(bench, watch=lambda: nullcontext(listener), cluster=others), kernel)
        arms = tuple(_references(boots, chosen or filter(cheap, every_scenario())))
        root = bench.store.root / kernel.digest[:16]
        campaign = MutantCampaign(root, generated.numbers, arms, most, seed)
        wanted = campaign.sample(count)
        if not stored:
            campaign.measure_all(boots, wanted, _tell)
    trials = {generated.numbers[number]: campaign.trial(number) for number in wanted}
    tried = [(mutant, trial) for mutant, trial in trials.items() if trial is not None]
    lines = [*score_lines(len(generated.numbers), len(campaign.reached), [trial for _, trial in tried])]
    lines.append(f"{len(arms)} arms of {len({arm.scenario.name for arm in arms})} scenarios")
    lines.append(f"source: {kept.title}, QEMU {bench.lab.qemu.version_text}")
    print("\n".join(lines))
    page = root / PAGE
    write_atomic(page, mutants_page(tried, lines, seed=seed, most=most).encode())
    tell(f"{len(tried)} mutants written to {page}")
    return EXIT_PASS if len(tried) == len(wanted) else EXIT_CANNOT_JUDGE


def _tell(trial: Trial) -> None:
    by = trial.died or trial.claim or next((figure.name for figure in trial.marked), "")
    tell(f"{fate(trial)}: {trial.place} {by} ({trial.seconds:.0f} s)")


def _references(bench: MutantBench, chosen: Iterable[Scenario]) -> Iterator[ReferenceArm]:
    for scenario in chosen:
        try:
            yield from reference(bench, scenario)
        except CannotJudge as error:
            tell(error.message)


TOOL = Command(
    score,
    (
        option("scenarios", nargs="*", metavar="SCENARIO", help="instead of all cheap ones"),
        SOURCE.but(default=DEFAULT, help=f"what is mutated (default: {DEFAULT})"),
        option("--count", type=number(1), default=_COUNT, metavar="N", help=f"mutants to try (default: {_COUNT})"),
        option("--most", type=number(1), default=_MOST, metavar="N", help=f"arms for a mutant (default: {_MOST})"),
        option(
            "--seed",
            type=number(1),
            default=SEED,
            metavar="N",
            help=f"of the sample (default: {SEED}, that of the held-out one)",
        ),
        flag("--stored", "try no mutant: show what was stored"),
        DASK,
        JOBS,
        RESULTS,
    ),
    f"The same command resumes. Score and trials are in {PAGE} below the results.",
)
main = tool("mutation", "Score the scenarios on generated mutants of the block layer.", TOOL)


if __name__ == "__main__":
    sys.exit(main())
