# SPDX-License-Identifier: GPL-2.0-only
"""``blklab explain``, ``profile`` and ``sharing``: what limits a load, what it executes, what its CPUs share."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar

from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.base.checkout import results_root
from harness.base.files import write_atomic, writing
from harness.base.plain import to_plain
from harness.commands.boots import kernel_again, lab_of_host, watched
from harness.commands.options import JOBS, RESULTS, RUN, SEEDS, number, tell
from harness.commands.parser import Command, flag, operand, option
from harness.judge.cells import CellResult
from harness.limits.bottleneck import Alteration, Bottleneck, Proof, changes
from harness.limits.queues import ElementKind
from harness.profile.cells import ProfiledCell, chosen_cell, parse_cell, profiles_of_runs, recorded_profile
from harness.profile.formats import Side, executed_code, lines_text, listed_functions, write_profiles
from harness.profile.model import BLIND, Profile, differential
from harness.profile.report import differential_lines, function_lines, most_expensive, profile_lines
from harness.record.index import pairs, side
from harness.record.judging import Unexplained, explain_run, results_of
from harness.record.store import RunFolder, Store, load_run
from harness.report.terminal import console_of, figures, folded, plain_table
from harness.report.terminal.run import bottleneck_rows, sentences
from harness.run.bench import Bench, turns_of_host
from harness.run.plan import Request
from harness.scenario.load import variant
from harness.scenario.model import Arm, Load, Status
from harness.sharing import report as sharing
from harness.sharing.report import MODEL, scaling_sentence, sharing_page
from harness.sharing.window import LINES, figures_by_turn, window_of_cell, with_fields
from lab.base.digest import canonical, digest_bytes
from lab.base.errors import EXIT_FAIL, EXIT_PASS, CannotJudge, Misuse
from lab.kernels.model import Kernel
from lab.kernels.objects import Wanted, source_lines, source_of
from lab.session import Lab

_ALL = ""
_BASE = "as-measured"
_FUNCTIONS = 5


class Explain(Command):
    run: Path = RUN
    prove: str | None = option(
        nargs="?",
        const=_ALL,
        metavar="ARM.LOAD",
        help="boot again with each limit raised by a quarter: only the named one may gain (default: all loads)",
    )
    seeds: int = SEEDS.but(default=1, help="boots for each limit (default: 1)")
    jobs: int = JOBS
    epilog = "Exit status with --prove: 0 proven, 1 refuted, 125 cannot be proven."
    needs: ClassVar = {"seeds": ("prove",), "jobs": ("prove",)}

    def __call__(self) -> int:
        folder = load_run(self.run)
        explained = list(explain_run(folder))
        bottlenecks = [answer for answer in explained if isinstance(answer, Bottleneck)]
        unknown = [answer for answer in explained if isinstance(answer, Unexplained)]
        if not bottlenecks:
            why = f": {unknown[0].reason}" if unknown else ": nothing was measured"
            raise CannotJudge(f"{self.run} cannot be explained{why}", remedy="run the scenario again")
        console = console_of()
        if self.prove is not None:
            return self._prove(console, folder, _named(bottlenecks, self.prove))
        console.print(f"{folder.facts.scenario} on Linux {folder.facts.kernel.release}\n")
        console.print(bottleneck_rows(bottlenecks))
        console.print()
        for sentence in sentences(bottlenecks):
            console.print(sentence)
        for line in (*_functions(folder, bottlenecks), *_scaling(folder, bottlenecks)):
            console.print(line, markup=False, soft_wrap=True)
        for load in unknown:
            console.print(f"{load.arm}.{load.load} cannot be explained: {load.reason}")
        return EXIT_PASS

    def _prove(self, console: Console, run: RunFolder, chosen: Sequence[Bottleneck]) -> int:
        kernel, lab, codes = kernel_again(run), lab_of_host(), list[int]()
        bench = Bench(lab, Store(run.path.parent.parent), watched, turns_of_host(self.jobs))
        for bottleneck in chosen:
            proof = prove(bench, kernel, self.seeds, run, bottleneck)
            console.print(f"\n{bottleneck.arm}.{bottleneck.load}: {bottleneck.label}, {bottleneck.figure}")
            console.print(proof_table(proof))
            console.print(proof_sentence(proof))
            if proof.named.gain is None:
                raise CannotJudge(proof_sentence(proof))
            codes.append(EXIT_PASS if proof.proven else EXIT_FAIL)
        return max(codes)


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


def _named(bottlenecks: Sequence[Bottleneck], wanted: str) -> list[Bottleneck]:
    named = [bottleneck for bottleneck in bottlenecks if bottleneck.binding]
    chosen = [bottleneck for bottleneck in named if wanted in (_ALL, f"{bottleneck.arm}.{bottleneck.load}")]
    if not chosen:
        known = ", ".join(f"{bottleneck.arm}.{bottleneck.load}" for bottleneck in named) or "none"
        raise Misuse(f"no bottleneck is named for {wanted or 'any load'}", remedy=f"named for: {known}")
    return chosen


def prove(bench: Bench, kernel: Kernel, seeds: int, run: RunFolder, bottleneck: Bottleneck) -> Proof:
    """Measures variants of the run's scenario, called ``SCENARIO.proof``, with ``seeds`` boots for each limit.

    Raises CannotJudge when the load cannot be measured again as it was, and what boots raise.
    """
    scenario = run.scenario

    def throughput_of(arms: Mapping[str, Arm], load: Load) -> dict[str, float | str]:
        """Bytes per second of all roles together by arm, or the reason why there is no figure."""
        changed = variant(scenario, "proof", arms=arms, loads={load.name: load}, claims=(), controls=())
        results = results_of(bench.measure(Request(changed, kernel, seeds)).folder)
        return {name: _of_arm([result for result in results if result.arm == name], load) for name in arms}

    arm, load = scenario.arms[bottleneck.arm], scenario.loads[bottleneck.load]
    raised = changes(arm, load, bottleneck)
    possible = [change for change in raised if not change.refused]
    throughput: dict[str, float | str] = {}
    for alike in dict.fromkeys(_key(change.load) for change in possible):
        of_load = [change for change in possible if _key(change.load) == alike]
        arms = {change.label: replace(change.arm, name=change.label) for change in of_load}
        if of_load[0].load == load:
            arms = {_BASE: replace(arm, name=_BASE), **arms}
        throughput |= throughput_of(arms, of_load[0].load)
    base = throughput.get(_BASE, "no other limit could be raised")
    if isinstance(base, str):
        raise CannotJudge(f"{bottleneck.arm}.{bottleneck.load} was not measured again: {base}")
    return Proof(bottleneck, tuple(_measured(row, base, throughput.get(row.label, row.refused)) for row in raised))


def _key(load: Load) -> str:
    return digest_bytes(canonical(to_plain(load)))


def _measured(row: Alteration, base: float, value: float | str) -> Alteration:
    if isinstance(value, str):
        return replace(row, refused=value)
    return replace(row, gain=value * row.times / base - 1)


def _of_arm(results: Sequence[CellResult], load: Load) -> float | str:
    failed = [result for result in results if result.status is not Status.PASS]
    if failed:
        return "; ".join(failed[0].reasons) or str(failed[0].status)
    return fmean(sum(result.figures[load.name, role, "bw"] for role in load.roles) for result in results)


def proof_table(proof: Proof) -> Table:
    """One row for each limit: what was changed, what throughput gained, and what that says."""
    table = plain_table(folded("limit"), folded("changed"), figures("throughput"), folded())
    for row in proof.rows:
        gain = "-" if row.gain is None else f"{100 * row.gain:+.1f} %"
        style = "bold" if row.named else ""
        table.add_row(Text(row.label, style), Text(row.says), gain, Text(*_word(row)))
    return table


def _word(row: Alteration) -> tuple[str, str]:
    if row.gain is None:
        return row.refused, "dim"
    if row.named:
        return ("the bottleneck", "green") if row.agrees else ("named, and gains nothing", "red")
    return ("no limit here", "") if row.agrees else ("not named, and gains as well", "red")


def proof_sentence(proof: Proof) -> str:
    """Whether the named bottleneck is proven, in one line."""
    limit, named = proof.bottleneck, proof.named
    if named.gain is None:
        return f"{limit.label} of {limit.arm}.{limit.load} cannot be proven: {named.refused}"
    if proof.proven:
        return f"Proven: {limit.label} limits {limit.arm}.{limit.load}; raised, it gives {100 * named.gain:+.1f} %."
    against = ", ".join(row.label for row in proof.rows if not row.agrees)
    return f"Refuted: {limit.label} does not limit {limit.arm}.{limit.load} alone; see {against}."


def _further(cells: str) -> Any:
    """``cells`` says which are taken without ARM.LOAD."""
    text = f"a second run to compare with, and the cell (default: {cells})"
    return operand(nargs="*", metavar="NEW, ARM.LOAD", help=text)


class _OneOrTwoRuns(Command):
    """What ``profile`` and ``sharing`` have in common."""

    run: str = operand(metavar="RUN", help="folder of a run, or a kernel that was measured (debian:6.12, 6.12)")
    further: Sequence[str] = _further("the first")
    seed: int = option(type=number(1), default=1, metavar="N", help="the seed (default: 1)")
    scenario: str | None = option(metavar="NAME", help="the scenario, where a kernel was measured in several")
    lines: bool = flag("also lines of source, for kernels that blklab builds")
    results: str | None = RESULTS

    def sides(self, *, most_cells: int = 1) -> tuple[list[RunFolder], list[str]]:
        """The stored runs that ``run`` and a word of ``further`` name, and the cells ARM.LOAD.

        Raises Misuse, CannotJudge.
        """
        root = results_root(self.results)
        second = [word for word in self.further if _is_side(word, root)]
        cells = [word for word in self.further if word not in second]
        if len(second) > 1 or len(cells) > most_cells:
            raise Misuse(f"{' '.join(self.further)}: too many runs or cells", remedy="RUN [NEW] [ARM.LOAD]")
        before = side(self.run, root)
        if second:
            candidates = [list(pair) for pair in pairs(before, side(second[0], root))]
        else:
            candidates = [[run] for run in {run.scenario: run for run in before}.values()]
        candidates = [runs for runs in candidates if self.scenario in (None, runs[0].scenario)]
        if len(candidates) != 1:
            names = ", ".join(sorted(runs[0].scenario for runs in candidates)) or "none"
            raise Misuse(
                f"{self.run} has runs of several scenarios or of none: {names}", remedy="--scenario NAME chooses one"
            )
        chosen = [load_run(Path(run.path)) for run in candidates[0]]
        if lacking := [run for run in chosen if self.seed not in run.facts.seeds]:
            seeds = f"{lacking[0].path.name} has the seeds {', '.join(map(str, lacking[0].facts.seeds))}"
            raise Misuse(f"--seed {self.seed}: {seeds}", remedy="name one of them")
        for run in chosen[1:]:
            if run.scenario.digest != chosen[0].scenario.digest:
                raise CannotJudge(
                    f"{chosen[0].path.name} and {run.path.name} are of different texts of {run.facts.scenario}",
                    remedy="run both kernels with the present scenario file",
                )
        return chosen, cells


def _is_side(word: str, root: Path) -> bool:
    try:
        side(word, root)
    except Misuse:
        return False
    return True


class ShowProfile(_OneOrTwoRuns):
    further: Sequence[str] = _further("the first, or that whose cpu.per_io differs most")
    function: str | None = option(metavar="NAME", help="callers and callees of a function, with counts")
    out: Path | None = option(
        type=Path, metavar="DIR", help="write text, page, callgrind, speedscope and folded stacks there"
    )

    def __call__(self) -> int:
        runs, cells = self.sides()
        chosen = parse_cell(runs[0], cells[0], self.seed) if cells else chosen_cell(runs, self.seed)
        lab, kernels = lab_of_host(), [kernel_again(each) for each in runs]
        profiles = profiles_of_runs(lab, runs, chosen, kernels, tell)
        by_line = _source_lines(lab, profiles, kernels, self.function) if self.lines else []
        if self.function:
            shown = function_lines(profiles, self.function)
        else:
            shown = differential_lines(differential(*profiles)) if profiles[1:] else profile_lines(profiles[0])
        print("\n".join([*shown, *([""] if by_line else []), *by_line]))
        if self.out:
            paths = write_profiles(self.out, profiles, by_line=by_line)
            tell(f"wrote {', '.join(path.name for path in paths)} to {self.out}")
        return EXIT_PASS


def _source_lines(lab: Lab, profiles: Sequence[Profile], kernels: Sequence[Kernel], function: str | None) -> list[str]:
    functions = listed_functions(profiles, function)
    sides = []
    for profile, kernel in zip(profiles, kernels, strict=True):
        codes = executed_code(profile, [(listed.owner, listed.name) for listed in functions])
        wanted = [Wanted(code.owner, code.name, code.counts) for code in codes]
        lines = source_lines(kernel, source_of(kernel, lab.cache, tell), wanted, lab.cache, tell=tell)
        sides.append(Side(profile, dict(zip(codes, lines, strict=True))))
    return list(lines_text(sides, functions))


class ShowSharing(_OneOrTwoRuns):
    further: Sequence[str] = _further("the first; given twice, two cells of one run are compared")
    json: bool = flag("print all lines and locks as JSON")
    out: Path | None = option(type=Path, metavar="DIR", help="write text, JSON and page there")

    def __call__(self) -> int:
        runs, named = self.sides(most_cells=2)
        if len(named) > 1 and len(runs) > 1:
            raise Misuse("two runs and two cells", remedy="compare two runs, or two cells of one run")
        lab = lab_of_host()
        cells = [parse_cell(runs[0], cell, self.seed) for cell in named] or [_first_cell(runs[0], self.seed)]
        kernels = [kernel_again(each) for each in runs]
        windows = [
            [window_of_cell(lab, each, kernel, cell, tell) for cell in cells]
            for each, kernel in zip(runs, kernels, strict=True)
        ]
        bare = [window for of_run in windows for window in of_run]
        moved = [place for place, *_ in sharing.differences(*bare)[:LINES]] if len(bare) > 1 else []
        described = [
            window
            for of_run, kernel in zip(windows, kernels, strict=True)
            for window in with_fields(lab.cache, kernel, of_run, tell, moved, lines=self.lines)
        ]
        if len(described) == 1:
            shown = sharing.window_lines(described[0], turns=figures_by_turn(runs[0], cells[0]))
        else:
            shown = sharing.differential_lines(described[0], described[1])

        def looked_for(items: Iterable[tuple[str, object]]) -> dict[str, object]:
            return {name: value for name, value in items if value or name not in ("field", "source")}

        plain = [asdict(window, dict_factory=looked_for) for window in described]
        document = json.dumps(plain, indent=1, default=sorted) + "\n"
        print(document if self.json else "\n".join(shown))
        if self.out:
            texts = {
                "sharing.txt": "\n".join((*shown, "")),
                "sharing.json": document,
                "sharing.html": sharing_page(described),
            }
            with writing(self.out):
                self.out.mkdir(parents=True, exist_ok=True)
            for name, text in texts.items():
                write_atomic(self.out / name, text.encode())
            tell(f"wrote {', '.join(texts)} to {self.out}")
        return EXIT_PASS


def _first_cell(run: RunFolder, seed: int) -> ProfiledCell:
    """Raises CannotJudge where no arm has several CPUs."""
    for arm in run.facts.arms:
        if run.scenario.arms[arm].topology.processors.several:
            return ProfiledCell(arm, next(iter(run.scenario.loads)), seed)
    raise CannotJudge(
        f"no arm of {run.facts.scenario} has several CPUs", remedy="write machine: {cpus: 4} in its topology"
    )


COMMANDS: dict[str, type[Command]] = {"explain": Explain, "profile": ShowProfile, "sharing": ShowSharing}
