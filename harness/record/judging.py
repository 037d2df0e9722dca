# SPDX-License-Identifier: GPL-2.0-only
"""From a run's raw artefacts to its verdict, now or years later."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from math import isclose
from pathlib import Path
from statistics import fmean
from typing import Any

from harness.base.files import json_bytes, read_json
from harness.base.plain import identity
from harness.figures.boot import LoadFiles, MeasurementError
from harness.figures.fio import disagreements
from harness.figures.samples import read_use
from harness.judge.cells import CellResult, common_result, missing_cell, result_of_boot, worst
from harness.judge.difference import Difference, Precision, compare_cells
from harness.judge.verdict import Verdict, judge, judge_in_sequence, verdict_document
from harness.limits.bottleneck import Bottleneck, bottleneck
from harness.record.store import (
    BOOT,
    CHECKSUMS,
    PLAN,
    RESOLVED,
    SOURCE,
    Damaged,
    KernelFacts,
    PlannedCell,
    RunFolder,
    digest_of_plan,
    load_run,
    read_boot,
)
from harness.scenario.model import Status
from lab.base.digest import digest_bytes, digest_file, digest_results
from lab.base.errors import EXIT_CANNOT_JUDGE, EXIT_PASS, CannotJudge, LabBroken, Misuse
from lab.base.record import BootRecord
from lab.kernels.model import series_of
from lab.kit import EXPECTED, RESULTS, channel_faults, log_faults
from lab.yaml.strict import Problems, parse, plain_value

_VERSION = re.compile(r"^\[[^\]]*\] Linux version (\S+)", re.MULTILINE)
_PACKAGE = re.compile(r"^\[[^\]]*\] Linux version .* #[0-9]+ [A-Z_ ]*Debian (\S+)", re.MULTILINE)
_NAMED = re.compile(r"Debian \S+, linux-\S+ ([^\s,]+)")
_SERIES = re.compile(r"(?:debian|source):([0-9]+\.[0-9]+)")
_WORDS = frozenset(
    {"sentence", "reason", "reasons", "that", "known", "in_words", "because", "diagnosed", "killers", "within_layout"}
)
"""Keys of a verdict whose values are text for readers."""
_FIGURES = "figures"
_RUN = ("blklab", "run")
_CHECKSUMS_SINCE = 2
"""Schema of run.json."""
_NEWER = " -fw_cfg "
"""In QEMU's command line since c6d965ad, which came after that schema (495ea45e)."""


class Altered(CannotJudge):
    """A ``file`` of a run is missing, or is not the one that was written."""

    def __init__(self, run: RunFolder, file: str, what: str) -> None:
        super().__init__(f"{run.path.name}: {file}: {what}", remedy="restore the file, or run the scenario again")


def check_plan(run: RunFolder) -> None:
    """Compare run.json and scenario.json with their checksums and with each other. Raises Altered."""
    plain = read_json(run.path / PLAN)
    checksums = plain.get(CHECKSUMS)
    if checksums is None and plain["schema"] >= _CHECKSUMS_SINCE:
        raise Altered(run, PLAN, "has no checksums")
    if checksums is not None:
        digests = {PLAN: digest_of_plan(plain), RESOLVED: digest_bytes((run.path / RESOLVED).read_bytes())}
        for file, digest in digests.items():
            if digest != checksums.get(file):
                raise Altered(run, file, f"checksum is {digest[:12]}, {PLAN} names {str(checksums.get(file))[:12]}")
    digest = identity(run.scenario)
    if digest != run.facts.scenario_digest:
        raise Altered(
            run, RESOLVED, f"digest of the scenario is {digest[:12]}, {PLAN} names {run.facts.scenario_digest[:12]}"
        )
    cells = {(cell.arm, cell.seed) for cell in run.facts.cells}
    for arm, seed in sorted(cells ^ {*product(run.facts.arms, run.facts.seeds)}):
        raise Altered(run, PLAN, f"its cells are not its arms by its seeds: arm {arm}, seed {seed}")
    asked = dict(pairwise(run.facts.command)).get("--seeds", str(run.scenario.seeds))
    if run.facts.command[:2] == _RUN and run.facts.rule is None and str(len(run.facts.seeds)) != asked:
        raise Altered(run, PLAN, f"its seeds are {len(run.facts.seeds)}, its command and scenario ask for {asked}")
    for what in _other_than_the_file(run):
        raise Altered(run, SOURCE, what)
    planned = {cell.boot for cell in run.facts.cells}
    for record in sorted((run.path / "boots").glob(f"[0-9]*/{BOOT}")):
        if record.parent.name not in planned:
            raise Altered(run, PLAN, f"names no cell for boots/{record.parent.name}")


def _other_than_the_file(run: RunFolder) -> Iterator[str]:
    """What decides in scenario.json, and is not in the copy of the scenario's file."""
    copy = run.path / SOURCE
    document = plain_value(parse(copy.read_bytes(), SOURCE, Problems())) if copy.is_file() else None
    if document is None:
        return
    rows = document if isinstance(document, dict) else {}
    written = [*rows.get("claims", ()), *rows.get("controls", ())]
    known = {(str(entry.get("ratio")), str(entry.get("expect"))) for entry in written}
    for entry in run.scenario.entries:
        if (entry.ratio.text, entry.expect.text) not in known:
            yield f"has no {entry.ratio.text} {entry.expect.text}, which {RESOLVED} has"
    if {*rows.get("meant", ())} != {*map(str, run.scenario.meant or ())}:
        yield f"has another meant than {RESOLVED}"


def boot_of(run: RunFolder, cell: PlannedCell) -> BootRecord | None:
    """The record of a cell; None when it was not made. Raises Altered when it is damaged or another cell's."""
    folder = run.boot_folder(cell)
    where = f"boots/{cell.boot}"
    if not (folder / BOOT).exists():
        if run.facts.rule is None and run.stored_verdict() is not None:
            raise Altered(run, f"{where}/{BOOT}", "is missing, and the run has a verdict")
        return None
    try:
        record = read_boot(folder)
    except Damaged as damage:
        raise Altered(run, f"{where}/{damage.file}", damage.what) from damage
    wanted = {
        "scenario": run.facts.scenario_digest,
        "kernel": run.facts.kernel.digest,
        "arm": cell.arm,
        "seed": str(cell.seed),
    }
    for key, value in wanted.items():
        stored = record.fingerprint.get(key, "nothing")
        if stored != value:
            raise Altered(run, f"{where}/{BOOT}", f"fingerprint has {key} {stored[:64]}, the cell has {value[:64]}")
    if run.facts.schema < _CHECKSUMS_SINCE and _NEWER in record.fingerprint.get("argv", ""):
        raise Altered(run, PLAN, f"is of schema {run.facts.schema}, without checksums; {where} is of a later version")
    for file, what in _unlike_the_guest(run.facts.kernel, record):
        raise Altered(run, file, f"{what} ({where})")
    for file, actual, named in _digests(record):
        if actual != named:
            raise Altered(run, f"{where}/{file}", f"the results have {actual[:12]}, the file names {named[:12]}")
    for file, what in channel_faults(record):
        raise Altered(run, f"{where}/{file}", what)
    return record


def _unlike_the_guest(kernel: KernelFacts, record: BootRecord) -> Iterator[tuple[str, str]]:
    """What the kernel's log and the job of a boot say against its record and run.json: the file, and what."""
    yield from log_faults(record)
    log = record.files.get("kmsg", b"").decode("utf-8", "replace")
    if (booted := _VERSION.search(log)) and booted[1] != kernel.release:
        yield PLAN, f"kernel release is {kernel.release}, the guest booted {booted[1]}"
    package, named = _PACKAGE.search(log), _NAMED.match(kernel.origin)
    if package and named and package[1] != named[1]:
        yield PLAN, f"kernel origin is {kernel.origin}, the guest booted {package[1]}"
    series = _SERIES.fullmatch(kernel.spec)
    if series and booted and series_of(booted[1]) != series[1]:
        yield PLAN, f"kernel spec is {kernel.spec}, the guest booted {booted[1]}"


def taken_as_written(run: RunFolder) -> Iterator[str]:
    """Facts of run.json that no guest repeats: a rewrite of all files of a run changes them unseen."""
    kernel = run.facts.kernel
    logs = [record.files.get("kmsg", b"").decode(errors="replace") for _, record in run.boots()]
    booted, packaged = (all(map(pattern.search, logs)) for pattern in (_VERSION, _PACKAGE))
    held = {
        f"digest {kernel.digest[:12]}": False,
        f"release {kernel.release}": booted,
        f"spec {kernel.spec}": booted and _SERIES.fullmatch(kernel.spec),
        f"origin {kernel.origin}": packaged and _NAMED.match(kernel.origin),
    }
    yield from (f"kernel {fact}" for fact, against_the_log in held.items() if not against_the_log)


def _digests(record: BootRecord) -> Iterator[tuple[str, str, str]]:
    """Files that name a digest of what the guest sent: the file, what the results give, and what the file names."""
    if record.digest is not None:
        yield BOOT, digest_results(record.files), record.digest
    sent, expected = record.folder / RESULTS, record.folder / EXPECTED
    if sent.is_file() and expected.is_file():
        yield EXPECTED, digest_file(sent), expected.read_text(errors="replace").partition(" ")[0]


def _rounded(stored: Any, fresh: Any) -> bool:
    """Whether two figures differ by rounding alone: sum() of Python 3.12 and later adds floats more exactly."""
    return isinstance(stored, float) and isinstance(fresh, float) and isclose(stored, fresh, rel_tol=1e-12)


def differences(stored: Any, fresh: Any, path: str = "", *, words: bool = False) -> Iterator[str]:
    """What two verdict documents disagree about.

    Text for readers is compared with ``words`` only, and no figure is that only one of them has: later versions word
    their sentences otherwise and read more of a boot.
    """
    if isinstance(stored, Mapping) and isinstance(fresh, Mapping):
        named = path.endswith(_FIGURES)
        for key in sorted(stored.keys() & fresh.keys() if named else stored.keys() | fresh.keys()):
            if words or key not in _WORDS:
                below = f"{path}.{key}" if path else key
                yield from differences(stored.get(key), fresh.get(key), below, words=words)
    elif isinstance(stored, list) and isinstance(fresh, list) and len(stored) == len(fresh):
        for number, pair in enumerate(zip(stored, fresh, strict=True)):
            yield from differences(*pair, f"{path}[{number}]", words=words)
    elif json_bytes(stored) != json_bytes(fresh) and not _rounded(stored, fresh):
        yield f"{path}: stored {_short(stored)}, judged {_short(fresh)}"


def _short(value: Any) -> str:
    return json_bytes(value).decode().split("\n")[0][:60]


@dataclass(frozen=True)
class Rejudged:
    """``differences`` are those from the stored verdict, empty without one; ``before`` says whether there is one.

    ``worded`` tells that this version judged the run before, so that its sentences must be equal too.
    """

    run: RunFolder
    verdict: Verdict
    before: bool
    differences: tuple[str, ...] = ()
    worded: bool = False

    @property
    def exit_code(self) -> int:
        """That of the verdict, but a pass that differs from the stored verdict, or a verdict of this version that is
        not the stored one, cannot be judged."""
        if self.differences and (self.worded or self.verdict.exit_code == EXIT_PASS):
            return EXIT_CANNOT_JUDGE
        return self.verdict.exit_code


@dataclass(frozen=True)
class Run:
    """A judged run. ``resumed`` counts boots that an interrupted or another run had made.

    ``unfinished``: the host invalidated a boot on the wall clock; the same command repeats only that boot.
    ``earlier``: all of it was measured before, and nothing was booted.
    """

    folder: RunFolder
    verdict: Verdict
    resumed: int = 0
    unfinished: bool = False
    earlier: bool = False

    @property
    def path(self) -> str:
        """The folder relative to the results root."""
        return f"{self.folder.path.parent.name}/{self.folder.path.name}"

    @property
    def boots(self) -> int:
        """Boots that the verdict rests on."""
        return sum(cell.outcome is not None for cell in self.verdict.cells)

    @property
    def made(self) -> int:
        """Those of them that were made for it."""
        return 0 if self.earlier else self.boots - self.resumed

    @property
    def seconds(self) -> float:
        """Host time of its boots, one after another."""
        return sum(sum(record.wall.values()) for _, record in self.folder.boots())

    def demand_lab(self) -> None:
        """Raise LabBroken where a boot was the lab's fault."""
        broken = [cell for cell in self.verdict.cells if cell.lab_broke]
        if broken:
            raise LabBroken("; ".join(broken[0].reasons) or "a boot broke", remedy=f"see {self.folder.path}")


def judge_run(run: RunFolder) -> Verdict:
    """The verdict from what the boots left, computed anew.

    Raises Misuse when the baseline run is gone, Altered when evidence is missing or altered.
    """
    facts, results = run.facts, results_of(run)
    baseline, path = None, run.path.parent / facts.baseline
    if facts.baseline:
        if not path.is_dir():
            raise Misuse(f"the BASE run {path} is gone", remedy="run the scenario again with BASE=")
        baseline = results_of(load_run(path))

    def judged(seeds: Sequence[int]) -> Verdict:
        kernel = {"release": facts.kernel.release, "mutant": facts.kernel.mutant}
        return judge(run.scenario, results, baseline, seeds, facts.arms, rule=facts.rule, **kernel)

    if facts.rule is None:
        return judged(facts.seeds)
    return judge_in_sequence(facts.rule, facts.seeds, (*results, *(baseline or ())), judged)


def rejudge(path: Path) -> Rejudged:
    """Judge a run folder again and compare with its verdict.json. Raises Misuse and Altered."""
    run = load_run(path)
    verdict = judge_run(run)
    stored = run.stored_verdict()
    if stored is None:
        return Rejudged(run, verdict, before=False)
    worded = run.judged_by_this_code()
    return Rejudged(run, verdict, True, tuple(differences(stored, verdict_document(verdict), words=worded)), worded)


def results_of(run: RunFolder) -> list[CellResult]:
    """One result for every planned cell of a run. Raises Altered."""
    check_plan(run)
    repetitions: dict[tuple[str, int], list[CellResult]] = {}
    seeds: dict[tuple[str, str], int] = {}
    for cell in run.facts.cells:
        record = None if cell.skip else boot_of(run, cell)
        job = record.fingerprint.get("job") if record else None
        if job and seeds.setdefault((cell.arm, job), cell.seed) != cell.seed:
            boots = f"seeds {seeds[cell.arm, job]} and {cell.seed} of arm {cell.arm}"
            raise Altered(run, f"boots/{cell.boot}/{BOOT}", f"{boots} booted one job, which names its seed")
        repetitions.setdefault((cell.arm, cell.seed), []).append(result_of(run, cell, record))
    return [common_result(results) for results in repetitions.values()]


def precision_of(before: RunFolder, after: RunFolder) -> Precision:
    """How exactly two runs can be compared: what layout moves decides between kernels of one configuration."""
    exact = all(run.scenario.timing.exact for run in (before, after))
    return Precision(exact, before.facts.kernel.configured_as(after.facts.kernel))


def compare_runs(before: RunFolder, after: RunFolder, metrics: Sequence[str]) -> tuple[Difference, ...]:
    """What differs between two runs of one scenario. Raises Altered."""
    return tuple(compare_cells(results_of(before), results_of(after), metrics, precision_of(before, after)))


@dataclass(frozen=True)
class Unexplained:
    """A load of an arm whose use was not recorded, and why."""

    arm: str
    load: str
    reason: str


def explain_run(run: RunFolder) -> Iterator[Bottleneck | Unexplained]:
    """What limits each load of each arm that was measured, from what the boots left."""
    for arm in run.scenario.arms.values():
        boots: list[tuple[BootRecord, CellResult]] = []
        for cell in run.facts.cells:
            record = boot_of(run, cell) if cell.arm == arm.name and not cell.skip else None
            if record is None:
                continue
            result = result_of(run, cell, record)
            if result.status is Status.PASS:
                boots.append((record, result))
        for load in run.scenario.loads.values() if boots else ():
            try:
                windows = load.windows(run.scenario.windows)
                uses = [read_use(LoadFiles(boot.files, arm.topology, name)) for boot, _ in boots for name in windows]
            except MeasurementError as error:
                yield Unexplained(arm.name, load.name, error.message)
            else:
                moved = {role: fmean(each.figures[load.name, role, "bw"] for _, each in boots) for role in load.roles}
                yield bottleneck(arm, load, uses, moved)


def result_of(run: RunFolder, cell: PlannedCell, record: BootRecord | None) -> CellResult:
    """Of a planned cell: SKIP or MISS where it has no record.

    On the virtual clock FAIL or ERROR where fio's counts disagree with what else was counted.
    Raises Altered where the run's verdict has the cell as PASS.
    """
    if cell.skip:
        return CellResult(cell.arm, cell.seed, Status.SKIP, cell.skip)
    if record is None:
        return missing_cell(cell.arm, cell.seed)
    scenario, release = run.scenario, run.facts.kernel.release
    arm, loads = scenario.arms[cell.arm], scenario.loads.values()
    result = result_of_boot(arm, cell.seed, record, loads, scenario.windows, release=release)
    wrong = {
        f"boots/{cell.boot}/out/{load.name}.json: fio counted {what}": status
        for load in (loads if result.figures and scenario.timing.exact else ())
        for status, what in disagreements(LoadFiles(record.files, arm.topology, load), arm.queue, result.figures)
    }
    if not wrong:
        return result
    judged = (run.stored_verdict() or {}).get("cells", ())
    if (cell.arm, cell.seed, Status.PASS) in {(each["arm"], each["seed"], each["status"]) for each in judged}:
        raise Altered(run, *next(iter(wrong)).split(": ", 1))
    return replace(result, status=worst(wrong.values()), reasons=tuple(wrong), figures={})
