# SPDX-License-Identifier: GPL-2.0-only
"""``blklab check mutants``: generated mutants of the block layer, and which of them the scenarios detect."""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from harness.base.files import read_json
from harness.base.plain import from_plain
from harness.commands.common import options as shared
from harness.commands.common.boots import elsewhere, lab_of_host, store_of, watched
from harness.judge.thresholds import null_pairs
from harness.limits.load import load_scenario
from harness.matrix.plan import Shard, read_shard
from harness.record.store import Store
from harness.run.boots import Turns
from harness.run.runner import lanes_of_host
from harness.studies.mutation.campaign import MutantCampaign, measure_all, trials
from harness.studies.mutation.kernel import FILES, Generated, build_schemata, generate
from harness.studies.mutation.page import MutantScore, SurvivorNotes, limits_of, mutants_page, summary
from harness.studies.mutation.trial import MutantBench, ReferenceArm, Trial, reference
from lab.base.cache import Cache
from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_PASS, CannotJudge, Misuse
from lab.kernels.packaged import DEFAULT, named_source

FOLDER = "mutants"
_NOTES = shared.SCENARIOS / "mutants" / "survivors.json"
_COUNT, _MOST = 200, 3
ARMS = (
    "page-cache-writes",
    "striped-batches",
    "writes-starved",
    "nr-requests",
    "waiters",
    "idle-lun",
    "lun-depth",
    "last-tag",
    "ioprio",
    "null-shared-tags",
    "low-iops-limit",
    "multipath-rr-min-io",
    "multipath-selectors:as-built",
    "md-rows",
    "split-order",
    "verified-data",
    "verified-arrays",
    "elevator-submit",
    "request-size",
    "throttle-split:limited",
    "throttle-bios:limited,unmerged",
    "low-bps-limit:nine,two",
    "stripe-nowait",
    "held-tags",
    "one-queue-line",
    "idle-util:plain",
    "diskstats:plain",
    "refused-order:plain",
    "sampled-tags",
    "multipath-counts:as-built",
    "verified-paths:bios",
    "mirror-reads",
    "verified-splits",
    "deadline-order:mq-deadline",
    "kyber-targets",
    "kyber-batches:kyber",
    "bfq-alike",
    "bfq-idling:plain",
    "bfq-tags",
    "bfq-weights",
    "io-cost:null-blk-none,null-blk-mq-deadline,null-blk-kyber,null-blk-bfq,md-raid1-none",
)
"""Scenarios, with arms where not all are of use: cheap ones that together execute every kind of device."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "scenarios", nargs="*", metavar="SCENARIO[:ARM,...]", help="instead of the cheap ones that the study takes"
    )
    parser.add_argument(
        "--source", type=shared.given, default=DEFAULT, metavar="SPEC", help=f"what is mutated (default: {DEFAULT})"
    )
    parser.add_argument(
        "--count", type=shared.number(1), default=_COUNT, metavar="N", help=f"mutants to try (default: {_COUNT})"
    )
    parser.add_argument(
        "--most", type=shared.number(1), default=_MOST, metavar="N", help=f"arms for a mutant (default: {_MOST})"
    )
    parser.add_argument("--file", action="append", metavar="FILE", help="only mutants of this file; may be repeated")
    parser.add_argument(
        "--shard", type=read_shard, default=Shard(), metavar="I/N", help="only part I of N of the mutants"
    )
    parser.add_argument("--stored", action="store_true", help="try no mutant: show what was stored")
    parser.add_argument(
        "--dask", metavar="ADDRESS", help="boot on the Dask cluster of this scheduler (tcp://host:8786)"
    )
    shared.add_jobs(parser)
    parser.add_argument("--out", type=Path, metavar="FILE", help="the page (default: docs/results/mutants.md)")
    shared.add_results(parser)
    parser.epilog = "The same command resumes. Shards store into one folder of results; --stored writes the page."


def execute(options: argparse.Namespace) -> int:
    if unknown := sorted(set(options.file or ()) - set(FILES)):
        raise Misuse(f"no mutants are made of {', '.join(unknown)}", remedy=f"known: {', '.join(FILES)}")
    store, lab = store_of(options, FOLDER), lab_of_host()
    source = named_source(options.source, Cache.default(), shared.tell)
    if source is None:
        raise Misuse(f"--source {options.source}: mutants are built from source", remedy="--source source:6.12")
    generated = generate(source)
    kernel = build_schemata(generated, lab.cache, shared.tell)
    with elsewhere(options.dask) as others, watched() as listener:
        turns = others or Turns(lanes_of_host(options.jobs))
        bench = MutantBench(lab, kernel, turns, listener)
        notes = from_plain(SurvivorNotes, read_json(_NOTES) or {})
        campaign = replace(_campaign(options, bench, store, generated), claims=notes.claims)
        part = campaign.part(campaign.wanted(options.count), options.shard.number, options.shard.of)
        if not options.stored:

            def tried(number: int, trial: Trial) -> None:
                shared.tell(f"{trial.fate}: {trial.place} {trial.reason} ({trial.seconds:.0f} s)")

            measure_all(campaign, bench, part, tried, turns.lanes)
    wanted = campaign.wanted(options.count)
    reached = {generated.numbers[number]: arms for number, arms in sorted(campaign.reached.items())}
    found = tuple(trials(campaign, wanted))
    outcome = MutantScore(generated.found, reached, found, campaign.arms, limits_of(campaign.arms, null_pairs()), notes)
    for line in summary(outcome):
        print(line)
    page = options.out or (None if options.file or options.scenarios else shared.PAGES / "mutants.md")
    if page and len(outcome.tried) == len(wanted):
        made_of = f"Source: {source.title}. QEMU {lab.qemu.version_text}."
        shared.write_page(page, mutants_page(outcome, generated.texts, made_of, "blklab check mutants"))
        shared.tell(f"{len(outcome.tried)} mutants written to {page}")
    return EXIT_PASS if all(map(campaign.trial, part)) else EXIT_CANNOT_JUDGE


def _campaign(options: argparse.Namespace, bench: MutantBench, store: Store, generated: Generated) -> MutantCampaign:
    arms = tuple(_reference(bench, store, options.scenarios or ARMS))
    chosen = {number: one for number, one in generated.numbers.items() if not options.file or one.file in options.file}
    return MutantCampaign(store.root / bench.kernel.digest[:16], chosen, arms, options.most)


def _reference(bench: MutantBench, store: Store, wanted: list[str] | tuple[str, ...]) -> Iterator[ReferenceArm]:
    for words in wanted:
        name, _, arms = words.partition(":")
        scenario = load_scenario(name, search=shared.SCENARIOS)
        try:
            yield from reference(bench, store, scenario, tuple(arms.split(",")) if arms else tuple(scenario.arms))
        except CannotJudge as error:
            shared.tell(error.message)
