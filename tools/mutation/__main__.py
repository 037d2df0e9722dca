# SPDX-License-Identifier: GPL-2.0-only
"""Generated mutants of the block layer, and which of them compare and claims detect."""

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace

from harness.base.files import write_atomic
from harness.commands.common import options as shared
from harness.commands.common.boots import bench_of, every_scenario, watched
from harness.limits.load import load_scenario
from harness.matrix.cluster import elsewhere
from harness.scenario.model import Scenario
from lab.base.cache import Cache
from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_PASS, CannotJudge, Misuse
from lab.kernels.packaged import DEFAULT, named_source
from tools.command import run_tool
from tools.mutation.campaign import SEED, MutantCampaign, cheap
from tools.mutation.kernel import build_schemata, generate
from tools.mutation.page import fate, mutants_page, score_lines
from tools.mutation.trial import MutantBench, ReferenceArm, Trial, reference

FOLDER, PAGE = "mutants", "mutants.md"
_COUNT, _MOST = 100, 3


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help="instead of all cheap ones")
    parser.add_argument(
        "--source",
        type=shared.kernel_spec,
        default=DEFAULT,
        metavar="SPEC",
        help=f"what is mutated (default: {DEFAULT})",
    )
    parser.add_argument(
        "--count", type=shared.number(1), default=_COUNT, metavar="N", help=f"mutants to try (default: {_COUNT})"
    )
    parser.add_argument(
        "--most", type=shared.number(1), default=_MOST, metavar="N", help=f"arms for a mutant (default: {_MOST})"
    )
    parser.add_argument(
        "--seed",
        type=shared.number(1),
        default=SEED,
        metavar="N",
        help=f"of the sample (default: {SEED}, that of the held-out one)",
    )
    parser.add_argument("--stored", action="store_true", help="try no mutant: show what was stored")
    shared.add_dask(parser)
    shared.add_jobs(parser)
    shared.add_results(parser)
    parser.epilog = f"The same command resumes. Score and trials are in {PAGE} below the results."


def execute(options: argparse.Namespace) -> int:
    chosen = [load_scenario(name) for name in options.scenarios]
    bench = bench_of(options, FOLDER)
    source = named_source(options.source, Cache.default(), shared.tell)
    if source is None:
        raise Misuse(f"--source {options.source}: mutants are built from source", remedy="--source source:6.12")
    generated = generate(source)
    kernel = build_schemata(generated, bench.lab.cache, shared.tell)
    with elsewhere(options.dask, shared.tell) as others, watched() as listener:
        boots = MutantBench(replace(bench, watch=lambda: nullcontext(listener), cluster=others), kernel)
        arms = tuple(_references(boots, chosen or filter(cheap, every_scenario())))
        root = bench.store.root / kernel.digest[:16]
        campaign = MutantCampaign(root, generated.numbers, arms, options.most, options.seed)
        wanted = campaign.sample(options.count)
        if not options.stored:
            campaign.measure_all(boots, wanted, _tell)
    trials = {generated.numbers[number]: campaign.trial(number) for number in wanted}
    tried = [(mutant, trial) for mutant, trial in trials.items() if trial is not None]
    lines = [*score_lines(len(generated.numbers), len(campaign.reached), [trial for _, trial in tried])]
    lines.append(f"{len(arms)} arms of {len({arm.scenario.name for arm in arms})} scenarios")
    lines.append(f"source: {source.title}, QEMU {bench.lab.qemu.version_text}")
    print("\n".join(lines))
    page = root / PAGE
    write_atomic(page, mutants_page(tried, lines, seed=options.seed, most=options.most).encode())
    shared.tell(f"{len(tried)} mutants written to {page}")
    return EXIT_PASS if len(tried) == len(wanted) else EXIT_CANNOT_JUDGE


def _tell(trial: Trial) -> None:
    by = trial.died or trial.claim or next((figure.name for figure in trial.marked), "")
    shared.tell(f"{fate(trial)}: {trial.place} {by} ({trial.seconds:.0f} s)")


def _references(bench: MutantBench, chosen: Iterable[Scenario]) -> Iterator[ReferenceArm]:
    for scenario in chosen:
        try:
            yield from reference(bench, scenario)
        except CannotJudge as error:
            shared.tell(error.message)


def main(arguments: Sequence[str] | None = None) -> int:
    described = "Score the scenarios on generated mutants of the block layer."
    return run_tool("mutation", described, configure, execute, arguments)


if __name__ == "__main__":
    sys.exit(main())
