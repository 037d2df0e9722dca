# SPDX-License-Identifier: GPL-2.0-only
"""Where runs are kept.

    <root>/<scenario>/<run-id>/run.json       what is planned: written first
                               scenario.json  the resolved scenario, to judge the run again
                               scenario.yaml  the scenario file as it was, for people
                               topologies/    and the topology files that it named
                               boots/NNN/     one folder for each boot; counts once boot.json is there
                               effort.json    how long the run took
                               verdict.json   written last: a run without it is not counted
    <root>/<scenario>/latest                  symlink to the run that was judged last

Run ids sort by time. Runs share nothing but ``latest``, so any number may go on at once.
"""

import os
import re
import secrets
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.analysis.document import SCHEMA as VERDICT_SCHEMA
from harness.analysis.document import verdict_document
from harness.analysis.stopping import Rule
from harness.analysis.verdict import Verdict
from harness.boot_files import load_boot
from harness.files import ELSEWHERE, held, json_bytes, link_atomic, read_json, write_atomic, write_json, writing
from harness.plain import from_plain, to_plain
from harness.scenario.model import Scenario
from lab.digest import canonical, digest_bytes
from lab.errors import LabBroken, Misuse
from lab.record import BootRecord

SCHEMA = 2
_READABLE = (1, SCHEMA)
LATEST = "latest"
LEAST_SPACE = 64 << 20
"""Bytes that a run may need for its artefacts."""

PLAN, RESOLVED = "run.json", "scenario.json"
CHECKSUMS = "checksums"
_VERDICT, _EFFORT = "verdict.json", "effort.json"
_UNFIT_FOR_NAMES = re.compile(r"[^A-Za-z0-9._+-]+")


@dataclass(frozen=True)
class KernelFacts:
    """The kernel of a run, as ``lab.kernels.model.Kernel`` has it."""

    spec: str
    release: str
    origin: str
    digest: str
    mutant: str = ""


@dataclass(frozen=True)
class PlannedCell:
    """A boot to be made in ``boots/<boot>``, or none when ``skip`` has reasons.

    ``repeat`` counts the boots of one cell from 0 (``--verify`` makes two).
    """

    arm: str
    seed: int
    boot: str
    repeat: int = 0
    skip: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunFacts:
    """What run.json holds. ``started`` is UTC in ISO 8601; ``command`` repeats the run.

    ``baseline`` is the run id of the same scenario on the BASE kernel and ``base`` that kernel: empty
    and None without one.
    ``arms`` are those that were asked for. ``rule`` says when a run on the wall clock may stop, as fixed
    before its first boot; None under the virtual clock.
    """

    run_id: str
    scenario: str
    scenario_digest: str
    kernel: KernelFacts
    seeds: tuple[int, ...]
    arms: tuple[str, ...]
    cells: tuple[PlannedCell, ...]
    qemu: str = ""
    command: tuple[str, ...] = ()
    baseline: str = ""
    started: str = ""
    schema: int = SCHEMA
    base: KernelFacts | None = None
    rule: Rule | None = None


@dataclass(frozen=True)
class RunFolder:
    """One run on disk. ``scenario`` is the one that was run, whatever its file says now."""

    path: Path
    facts: RunFacts
    scenario: Scenario

    def boot_folder(self, cell: PlannedCell) -> Path:
        return self.path / "boots" / cell.boot

    def fresh_boot_folder(self, cell: PlannedCell) -> Path:
        """An empty folder for a boot that is about to start; what a killed one left there goes."""
        folder = self.boot_folder(cell)
        with writing(folder):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        return folder

    def boot(self, cell: PlannedCell) -> BootRecord | None:
        """The cell's record, None unless it is complete and unaltered."""
        return load_boot(self.boot_folder(cell))

    def missing(self) -> tuple[PlannedCell, ...]:
        """Cells still to be booted: all on a new run, the rest on one that was killed."""
        return tuple(cell for cell in self.facts.cells if not cell.skip and self.boot(cell) is None)

    def finish(self, verdict: Verdict, *, elapsed: float) -> None:
        """Store the verdict and point ``latest`` here. ``elapsed`` in seconds of host time."""
        write_json(self.path / _EFFORT, {"elapsed": elapsed})
        write_json(self.path / _VERDICT, verdict_document(verdict))
        link_atomic(self.path.parent / LATEST, self.path.name)

    def stored_verdict(self) -> dict[str, Any] | None:
        """verdict.json, None when the run was not finished."""
        document = read_json(self.path / _VERDICT)
        if not isinstance(document, dict) or document.get("schema") != VERDICT_SCHEMA:
            return None
        return document

    def elapsed(self) -> float | None:
        """Seconds from start to verdict, None when the run was not finished."""
        effort = read_json(self.path / _EFFORT)
        return float(effort["elapsed"]) if isinstance(effort, dict) and "elapsed" in effort else None

    def held(self) -> AbstractContextManager[None]:
        """Keep others from working on this run. Raises Misuse when somebody is."""
        return held(self.path, "run")


class Store:
    """All runs below ``root``, which need not exist before ``check``."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def check(self) -> None:
        """Make sure that results can be kept, before anything is booted. Raises LabBroken."""
        probe = self.root / f".probe.{os.getpid()}.{secrets.token_hex(4)}"
        with writing(self.root):
            self.root.mkdir(parents=True, exist_ok=True)
            write_atomic(probe, b"blklab")
            probe.unlink()
            free = shutil.disk_usage(self.root).free
        if free < LEAST_SPACE:
            raise LabBroken(
                f"{self.root} has {free >> 20} MiB left, a run may need {LEAST_SPACE >> 20} MiB",
                remedy="free some space, or " + ELSEWHERE,
            )

    def new_run(self, scenario: Scenario, facts: RunFacts, *, now: datetime | None = None) -> RunFolder:
        """Make the folder of a run. ``run_id`` and ``started`` of ``facts`` are filled in here."""
        started = now or datetime.now(UTC)
        run_id = new_run_id(started, facts.kernel.release)
        facts = replace(facts, run_id=run_id, started=started.isoformat(timespec="milliseconds"))
        path = self.root / scenario.name / run_id
        with writing(path):
            (path / "boots").mkdir(parents=True)
        # Arms and settings have an order that means something.
        resolved = json_bytes(to_plain(scenario), sort_keys=False)
        write_atomic(path / RESOLVED, resolved)
        _copy_sources(scenario, path)
        write_json(path / PLAN, with_checksums(facts, resolved))
        return RunFolder(path, facts, scenario)

    def runs(self, scenario: str) -> tuple[Path, ...]:
        """Folders of the runs of a scenario that have a verdict, oldest first."""
        return tuple(path for path in self._folders(scenario) if (path / _VERDICT).is_file())

    def unfinished(self, scenario: str) -> tuple[Path, ...]:
        """Folders of runs without a verdict: going on, or killed."""
        return tuple(path for path in self._folders(scenario) if not (path / _VERDICT).is_file())

    def runs_like(self, run: RunFolder) -> "tuple[RunFolder, ...]":
        """Other runs of the same scenario file on the same kernel, oldest first, whether they have a verdict or not."""
        found = []
        for path in self._folders(run.facts.scenario):
            # Damaged, or of another version: nothing that could be used.
            with suppress(Misuse):
                other = load_run(path)
                same = (other.facts.scenario_digest, other.facts.kernel.digest)
                if other.path != run.path.resolve() and same == (run.facts.scenario_digest, run.facts.kernel.digest):
                    found.append(other)
        return tuple(found)

    def latest(self, scenario: str) -> Path | None:
        """The run that was judged last."""
        link = self.root / scenario / LATEST
        return link.resolve() if link.is_dir() else None

    def _folders(self, scenario: str) -> list[Path]:
        return sorted(path for path in (self.root / scenario).glob("[0-9]*") if path.is_dir() and not path.is_symlink())


def load_run(path: Path) -> RunFolder:
    """A run from its folder (or a symlink to it). Raises Misuse when it is none, or of another schema."""
    folder = path.resolve()
    plain_facts, plain_scenario = read_json(folder / PLAN), read_json(folder / RESOLVED)
    if not isinstance(plain_facts, dict) or plain_scenario is None:
        raise Misuse(f"{path} holds no run", remedy="give a folder below results/SCENARIO/, or its link latest")
    if plain_facts.get("schema") not in _READABLE:
        raise Misuse(
            f"{path} has run schema {plain_facts.get('schema')}, this blklab reads up to {SCHEMA}",
            remedy="use the version of blklab that made it",
        )
    # Schema 1 has no checksums; all else is the same.
    plain_facts = {**plain_facts, "schema": SCHEMA}
    plain_facts.pop(CHECKSUMS, None)
    try:
        facts, scenario = from_plain(RunFacts, plain_facts), from_plain(Scenario, plain_scenario)
    except ValueError as error:
        raise Misuse(f"{path} is damaged: {error}", remedy="run the scenario again") from error
    return RunFolder(folder, facts, scenario)


def with_checksums(facts: RunFacts, resolved: bytes) -> dict[str, Any]:
    """The document of run.json; ``resolved`` are the bytes of scenario.json."""
    plan = to_plain(facts)
    return {**plan, CHECKSUMS: {PLAN: digest_of_plan(plan), RESOLVED: digest_bytes(resolved)}}


def digest_of_plan(plain: Mapping[str, Any]) -> str:
    """The checksum of run.json: over all but the checksums in it."""
    return digest_bytes(canonical({key: value for key, value in plain.items() if key != CHECKSUMS}))


def new_run_id(started: datetime, release: str) -> str:
    """Sorts by time; tells the kernel; distinct even for runs that start together."""
    stamp = started.astimezone(UTC).strftime("%Y%m%dT%H%M%S.%f")[:-3] + "Z"
    kernel = _UNFIT_FOR_NAMES.sub("-", release)[:60] or "kernel"
    return f"{stamp}-{kernel}-{secrets.token_hex(3)}"


def planned(cells: Iterable[tuple[str, int, Sequence[str]]], *, repeats: int = 1) -> tuple[PlannedCell, ...]:
    """Number the boots of (arm, seed, reasons to skip); a cell with reasons gets none."""
    plan: list[PlannedCell] = []
    number = 0
    for arm, seed, reasons in cells:
        if reasons:
            plan.append(PlannedCell(arm, seed, "", skip=tuple(reasons)))
            continue
        for repeat in range(repeats):
            plan.append(PlannedCell(arm, seed, f"{number:03d}", repeat))
            number += 1
    return tuple(plan)


def _copy_sources(scenario: Scenario, path: Path) -> None:
    with suppress(FileNotFoundError):
        write_atomic(path / "scenario.yaml", scenario.path.read_bytes())
    sources = {Path(arm.topology.source) for arm in scenario.arms.values() if arm.topology.source}
    for source in sorted(sources):
        with suppress(FileNotFoundError):
            data = source.read_bytes()
            with writing(path):
                (path / "topologies").mkdir(exist_ok=True)
            write_atomic(path / "topologies" / source.name, data)
