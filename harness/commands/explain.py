# SPDX-License-Identifier: GPL-2.0-only
"""``blklab explain``: what limits each load of a run, from its raw files, and a proof by more boots."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from harness.commands.boots import kernel_again, lab_of_host, watched
from harness.commands.options import JOBS, RUN, SEEDS, tell
from harness.commands.parser import Command, option
from harness.limits.bottleneck import Bottleneck
from harness.limits.elements import ElementKind
from harness.profile.mail import most_expensive
from harness.profile.model import BLIND
from harness.profile.recorded import ProfiledCell, recorded_profile
from harness.record.judging import Unexplained, explain_run
from harness.record.store import RunFolder, Store, load_run
from harness.report.terminal.bottleneck import bottleneck_table, proof_sentence, proof_table, sentences
from harness.report.terminal.printing import console_of
from harness.run.bench import Bench, turns_of_host
from harness.sharing.recorded import window_of_cell
from harness.sharing.scaling import MODEL, scaling_sentence
from harness.studies.proof import prove
from lab.base.errors import EXIT_FAIL, EXIT_PASS, CannotJudge, Misuse

_ALL = ""
_FUNCTIONS = 5


def _explain(*, run: Path, prove: str | None, seeds: int, jobs: int) -> int:
    folder = load_run(run)
    explained = list(explain_run(folder))
    bottlenecks = [answer for answer in explained if isinstance(answer, Bottleneck)]
    unknown = [answer for answer in explained if isinstance(answer, Unexplained)]
    if not bottlenecks:
        why = f": {unknown[0].reason}" if unknown else ": nothing was measured"
        raise CannotJudge(f"{run} cannot be explained{why}", remedy="run the scenario again")
    console = console_of()
    if prove is not None:
        return _prove(console, folder, _chosen(bottlenecks, prove), seeds, jobs)
    console.print(f"{folder.facts.scenario} on Linux {folder.facts.kernel.release}\n")
    console.print(bottleneck_table(bottlenecks))
    console.print()
    for sentence in sentences(bottlenecks):
        console.print(sentence)
    for line in (*_functions(folder, bottlenecks), *_scaling(folder, bottlenecks)):
        console.print(line, markup=False, soft_wrap=True)
    for load in unknown:
        console.print(f"{load.arm}.{load.load} cannot be explained: {load.reason}")
    return EXIT_PASS


def _functions(run: RunFolder, bottlenecks: Sequence[Bottleneck]) -> Iterator[str]:
    """What one CPU executes in each load that it limits: from a recorded profile, else the command that makes one."""
    if not run.scenario.timing.counts_instructions:
        return
    listed = False
    for bottleneck in bottlenecks:
        several = run.scenario.arms[bottleneck.arm].topology.processors.several
        if several or bottleneck.binding is None or bottleneck.binding.kind is not ElementKind.CPU:
            continue
        profile = recorded_profile(run, ProfiledCell(bottleneck.arm, bottleneck.load, run.facts.seeds[0]))
        command = f"blklab profile {run.path} {bottleneck.arm}.{bottleneck.load}"
        known = f"instructions per I/O: {most_expensive(profile, _FUNCTIONS)}" if profile else command
        yield f"functions of {bottleneck.arm}.{bottleneck.load}: {known}"
        listed = listed or profile is not None
    if listed:
        yield BLIND


def _scaling(run: RunFolder, bottlenecks: Sequence[Bottleneck]) -> Iterator[str]:
    """What would saturate with more CPUs, by the counts of each load on several; nothing of one CPU."""
    arms = run.scenario.arms
    several = [each for each in bottlenecks if arms[each.arm].topology.processors.several]
    if not run.scenario.timing.counts_instructions or not several:
        return
    yield f"{MODEL}; not measured (curve: blklab sharing {run.path} ARM.LOAD):"
    for cell in (ProfiledCell(each.arm, each.load, run.facts.seeds[0]) for each in several):
        try:
            says = scaling_sentence(window_of_cell(lab_of_host(), run, kernel_again(run), cell, tell))
        except CannotJudge as error:
            says = f"not known: {error.message}"
        yield f"{cell.arm}.{cell.load}: {says}"


def _chosen(bottlenecks: Sequence[Bottleneck], wanted: str) -> list[Bottleneck]:
    named = [bottleneck for bottleneck in bottlenecks if bottleneck.binding]
    chosen = [bottleneck for bottleneck in named if wanted in (_ALL, f"{bottleneck.arm}.{bottleneck.load}")]
    if not chosen:
        known = ", ".join(f"{bottleneck.arm}.{bottleneck.load}" for bottleneck in named) or "none"
        raise Misuse(f"no bottleneck is named for {wanted or 'any load'}", remedy=f"named for: {known}")
    return chosen


def _prove(console: Console, run: RunFolder, chosen: Sequence[Bottleneck], seeds: int, jobs: int) -> int:
    kernel, lab, codes = kernel_again(run), lab_of_host(), list[int]()
    bench = Bench(lab, Store(run.path.parent.parent), watched, turns_of_host(jobs))
    for bottleneck in chosen:
        proof = prove(bench, kernel, seeds, run, bottleneck)
        console.print(f"\n{bottleneck.arm}.{bottleneck.load}: {bottleneck.label}, {bottleneck.figure}")
        console.print(proof_table(proof))
        console.print(proof_sentence(proof))
        if proof.named.gain is None:
            raise CannotJudge(proof_sentence(proof))
        codes.append(EXIT_PASS if proof.proven else EXIT_FAIL)
    return max(codes)


COMMANDS = {
    "explain": Command(
        _explain,
        (
            RUN,
            option(
                "--prove",
                nargs="?",
                const=_ALL,
                metavar="ARM.LOAD",
                help="boot again with each limit raised by a quarter: only the named one may gain (default: all loads)",
            ),
            SEEDS.but(default=1, help="boots for each limit (default: 1)"),
            JOBS,
        ),
        "Exit status with --prove: 0 proven, 1 refuted, 125 cannot be proven.",
        needs={"seeds": ("prove",), "jobs": ("prove",)},
    )
}
