# SPDX-License-Identifier: GPL-2.0-only
"""Layout of the results root, and access to runs in it.

    <root>/<scenario>/<run-id>/run.json       the plan; written first
                               scenario.json  the resolved scenario, from which the run is judged again
                               scenario.yaml  a copy of the scenario file, for people
                               topologies/    copies of the topology files that it names
                               boots/NNN/     one folder per boot; valid once it contains boot.json
                               effort.json    how long the run took, and what code judged it
                               verdict.json   written last; without it the run is unfinished
    <root>/<scenario>/latest                  symlink to the run that was judged last

Run ids sort by time. Runs share only ``latest``, so any number can be in progress at once.
"""

import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from harness.base.files import ELSEWHERE, held, json_bytes, link_atomic, read_json, write_atomic, write_json, writing
from harness.base.plain import from_plain, to_plain
from harness.judge.verdict import SCHEMA as VERDICT_SCHEMA
from harness.judge.verdict import Verdict, verdict_document
from harness.noise import Rule
from harness.scenario.model import Scenario
from lab.base.digest import canonical, digest_bytes, digest_file
from lab.base.errors import LabBroken, Misuse
from lab.base.reading import read_regular, real
from lab.base.record import ABSENT, ROUTED, BootRecord
from lab.kernels.model import Kernel

SCHEMA = 3
_READABLE = (1, 2, SCHEMA)
LATEST = "latest"
LEAST_SPACE = 64 << 20
"""Free bytes required before a run starts: room for its artefacts."""

PLAN, RESOLVED, SOURCE = "run.json", "scenario.json", "scenario.yaml"
CHECKSUMS = "checksums"
BOOT, ARTEFACTS = "boot.json", "out"
"""A boot's record, with checksums of the raw files in the folder ARTEFACTS next to it."""
BOOT_SCHEMA = 1
_OWN = ("folder", "files")
"""Fields of a record that boot.json does not have as they are: instead of files, it names their digests."""
_BUILT = ("source:", "tree:", "mutant:")
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_FORMER_UNFIT = re.compile(r"step [0-9]+: (\S+): (?:nothing matches (.*)|the kernel routes interrupt ([0-9]+) itself)")
_VERDICT, _EFFORT = "verdict.json", "effort.json"
_CODE = "code"
_UNFIT_FOR_NAMES = re.compile(r"[^A-Za-z0-9._+-]+")


@cache
def own_code() -> str:
    """The digest of this version's modules and data, on which the words of a verdict depend."""
    root = Path(__file__).parents[2]
    files = sorted(
        file for part in ("harness", "lab") for kind in ("py", "json") for file in (root / part).rglob(f"*.{kind}")
    )
    return digest_bytes(canonical({str(file.relative_to(root)): digest_file(file) for file in files}))


@dataclass(frozen=True)
class KernelFacts:
    """The kernel of a run; fields as in ``lab.kernels.model.Kernel``."""

    spec: str
    release: str
    origin: str
    digest: str
    mutant: str = ""
    build: str = ""

    @classmethod
    def of(cls, kernel: Kernel) -> "KernelFacts":
        return cls(kernel.spec, kernel.release, kernel.origin, kernel.digest, kernel.mutant, kernel.build)

    @property
    def built(self) -> bool:
        """Whether the kernel was built here, with the lab's configuration."""
        return self.spec.startswith(_BUILT)

    def configured_as(self, other: "KernelFacts") -> bool:
        """Whether both are known to have one configuration and compiler: builds of one recipe, or one kernel."""
        return self.digest == other.digest or (self.build != "" and self.build == other.build)


@dataclass(frozen=True)
class PlannedCell:
    """A boot in ``boots/<boot>``, or no boot when ``skip`` has reasons.

    ``repeat`` numbers the boots of one cell from 0 (``--verify`` makes two).
    """

    arm: str
    seed: int
    boot: str
    repeat: int = 0
    skip: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunFacts:
    """The content of run.json. ``started`` is UTC in ISO 8601; ``command`` repeats the run.

    ``baseline`` is the run id of the same scenario on the BASE kernel ``base`` (empty and None without one).
    ``arms`` are the requested ones. ``rule`` is the stopping rule of a run on the wall clock, fixed before its
    first boot; None under the virtual clock. ``beside`` is the kernel whose rounds on the wall clock alternate with
    those of this BASE run.
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
    beside: KernelFacts | None = None

    @property
    def ref(self) -> str:
        """The name or path by which the command refers to the scenario."""
        return self.command[2] if len(self.command) > 2 else self.scenario  # noqa: PLR2004 # blklab run SCENARIO

    def repeats(self, other: "RunFacts") -> bool:
        """Whether both runs plan the same boots, whatever command and version asked for them and when."""
        return self._planned() == other._planned()

    def _planned(self) -> "RunFacts":
        base, beside = (kernel and replace(kernel, build="") for kernel in (self.base, self.beside))
        kernel = replace(self.kernel, build="")
        unasked = replace(self, run_id="", started="", command=(), schema=SCHEMA)
        return replace(unasked, kernel=kernel, base=base, beside=beside)


@dataclass(frozen=True)
class RunFolder:
    """One run on disk. ``scenario`` is the one that was measured, not the current file."""

    path: Path
    facts: RunFacts
    scenario: Scenario

    def boot_folder(self, cell: PlannedCell) -> Path:
        return self.path / "boots" / cell.boot

    def fresh_boot_folder(self, cell: PlannedCell) -> Path:
        """Create an empty folder for a boot, deleting what an interrupted boot left there."""
        folder = self.boot_folder(cell)
        with writing(folder):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        return folder

    def boot(self, cell: PlannedCell) -> BootRecord | None:
        """The cell's record; None when it is incomplete or altered."""
        try:
            return read_boot(self.boot_folder(cell))
        except Damaged:
            return None

    def boots(self) -> Iterator[tuple[PlannedCell, BootRecord]]:
        """The boots that left a complete record."""
        for cell in self.facts.cells:
            if not cell.skip and (record := self.boot(cell)) is not None:
                yield cell, record

    def missing(self) -> tuple[PlannedCell, ...]:
        """Cells without a valid boot."""
        return tuple(cell for cell in self.facts.cells if not cell.skip and self.boot(cell) is None)

    def finish(self, verdict: Verdict, *, elapsed: float) -> None:
        """Store the verdict and point ``latest`` to this run. ``elapsed`` in seconds of host time."""
        write_json(self.path / _EFFORT, {"elapsed": elapsed, _CODE: own_code()})
        write_json(self.path / _VERDICT, verdict_document(verdict))
        link_atomic(self.path.parent / LATEST, self.path.name)

    def stored_verdict(self) -> dict[str, Any] | None:
        """The content of verdict.json; None when the run is unfinished."""
        return read_verdict(self.path)

    def judged_by_this_code(self) -> bool:
        """Whether the stored verdict has the sentences that this version writes."""
        effort = read_json(self.path / _EFFORT)
        return isinstance(effort, dict) and effort.get(_CODE) == own_code()

    def elapsed(self) -> float | None:
        """Seconds from start to verdict; None when the run is unfinished."""
        effort = read_json(self.path / _EFFORT)
        elapsed = effort.get("elapsed") if isinstance(effort, dict) else None
        return float(elapsed) if isinstance(elapsed, int | float) else None

    def held(self) -> AbstractContextManager[None]:
        return held(self.path, "run")


class Store:
    """All runs below ``root``, which need not exist before ``check``."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def check(self) -> None:
        """Check that results can be written and that space is left. Raises LabBroken."""
        probe = self.root / f".probe.{os.getpid()}.{secrets.token_hex(4)}"
        with writing(self.root):
            self.root.mkdir(parents=True, exist_ok=True)
            write_atomic(probe, b"blklab")
            probe.unlink()
            free = shutil.disk_usage(self.root).free
        if free < LEAST_SPACE:
            raise LabBroken(
                f"{self.root} has {free >> 20} MiB free; a run may need {LEAST_SPACE >> 20} MiB",
                remedy="free some space, or " + ELSEWHERE,
            )

    def new_run(self, scenario: Scenario, facts: RunFacts, *, now: datetime | None = None) -> RunFolder:
        """Create the folder of a run and fill in ``run_id`` and ``started`` of ``facts``."""
        started = now or datetime.now(UTC)
        run_id = new_run_id(started, facts.kernel.release)
        facts = replace(facts, run_id=run_id, started=started.isoformat(timespec="milliseconds"))
        path = self.root / scenario.name / run_id
        with writing(path):
            (path / "boots").mkdir(parents=True)
        # The order of arms and settings is significant.
        resolved = json_bytes(to_plain(scenario), sort_keys=False)
        write_atomic(path / RESOLVED, resolved)
        _copy_sources(scenario, path)
        write_json(path / PLAN, with_checksums(facts, resolved))
        return RunFolder(path, facts, scenario)

    def runs(self, scenario: str) -> tuple[Path, ...]:
        """Folders of the judged runs of a scenario, oldest first."""
        return tuple(path for path in self._folders(scenario) if (path / _VERDICT).is_file())

    def unfinished(self, scenario: str) -> tuple[Path, ...]:
        """Folders of runs without a verdict: in progress or interrupted."""
        return tuple(path for path in self._folders(scenario) if not (path / _VERDICT).is_file())

    def runs_like(self, run: RunFolder) -> "tuple[RunFolder, ...]":
        """Other runs of the same scenario digest on the same kernel, judged or not, oldest first."""
        wanted = run.facts.scenario_digest, run.facts.kernel.digest
        others = (other for other in readable(self._folders(run.facts.scenario)) if other.path != real(run.path))
        return tuple(other for other in others if (other.facts.scenario_digest, other.facts.kernel.digest) == wanted)

    def _folders(self, scenario: str) -> list[Path]:
        return sorted(path for path in (self.root / scenario).glob("[0-9]*") if path.is_dir() and not path.is_symlink())


def read_verdict(folder: Path) -> dict[str, Any] | None:
    """The content of verdict.json; None when there is none, or one of another schema."""
    document = read_json(folder / _VERDICT)
    return document if isinstance(document, dict) and document.get("schema") == VERDICT_SCHEMA else None


def load_run(path: Path) -> RunFolder:
    """The run in a folder (or a symlink to it). Raises Misuse when there is none, or of another schema."""
    folder = real(path)
    plain_facts, plain_scenario = read_json(folder / PLAN), read_json(folder / RESOLVED)
    if not isinstance(plain_facts, dict) or plain_scenario is None:
        raise Misuse(f"{path} does not contain a run", remedy="name a folder of results/SCENARIO/, or latest")
    if plain_facts.get("schema") not in _READABLE:
        raise Misuse(
            f"{path} has run schema {plain_facts.get('schema')}; this version reads up to {SCHEMA}",
            remedy="use the version of blklab that wrote it",
        )
    # Schema 1 has no checksums, 2 no ``build`` of a kernel; all else is the same.
    plain_facts.pop(CHECKSUMS, None)
    try:
        facts, scenario = from_plain(RunFacts, plain_facts), from_plain(Scenario, plain_scenario)
    except ValueError as error:
        raise Misuse(f"{path} is damaged: {error}", remedy="run the scenario again") from error
    return RunFolder(folder, facts, scenario)


def readable(paths: Iterable[Path]) -> Iterator[RunFolder]:
    """The runs in these folders, without damaged ones and those of another version."""
    for path in paths:
        with suppress(Misuse):
            yield load_run(path)


def with_checksums(facts: RunFacts, resolved: bytes) -> dict[str, Any]:
    """The document of run.json; ``resolved`` are the bytes of scenario.json."""
    plan = to_plain(facts)
    return {**plan, CHECKSUMS: {PLAN: digest_of_plan(plan), RESOLVED: digest_bytes(resolved)}}


def digest_of_plan(plain: Mapping[str, Any]) -> str:
    """The checksum of run.json: over all but the checksums in it."""
    return digest_bytes(canonical({key: value for key, value in plain.items() if key != CHECKSUMS}))


def new_run_id(started: datetime, release: str) -> str:
    """A run id that sorts by time, names the kernel, and is unique among runs started at the same time."""
    stamp = started.astimezone(UTC).strftime("%Y%m%dT%H%M%S.%f")[:-3] + "Z"
    return f"{stamp}-{_UNFIT_FOR_NAMES.sub('-', release)[:60] or 'kernel'}-{secrets.token_hex(3)}"


def planned(cells: Iterable[tuple[str, int, Sequence[str]]], *, repeats: int = 1) -> tuple[PlannedCell, ...]:
    """Number the boots of (arm, seed, reasons to skip). A skipped cell has no boot."""
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
        write_atomic(path / SOURCE, scenario.path.read_bytes())
    sources = {Path(arm.topology.source) for arm in scenario.arms.values() if arm.topology.source}
    for source in sorted(sources):
        with suppress(FileNotFoundError):
            data = source.read_bytes()
            with writing(path):
                (path / "topologies").mkdir(exist_ok=True)
            write_atomic(path / "topologies" / source.name, data)


def save_boot(record: BootRecord) -> None:
    """Write ``out/<file>`` for every measured file, then boot.json, which makes the record valid.

    Raises LabBroken when the folder cannot be written.
    """
    artefacts = record.folder / ARTEFACTS
    with writing(artefacts):
        artefacts.mkdir(parents=True, exist_ok=True)
    for name, data in record.files.items():
        if not _FILE_NAME.fullmatch(name):
            raise LabBroken(f"the guest named a file {name!r}", remedy="report this as a bug of blklab")
        path = artefacts / name
        if not path.is_file() or path.read_bytes() != data:
            write_atomic(path, data)
    digests = {name: digest_bytes(data) for name, data in record.files.items()}
    body = {field.name: to_plain(getattr(record, field.name)) for field in fields(BootRecord) if field.name not in _OWN}
    body |= {"schema": BOOT_SCHEMA, "files": digests}
    write_json(record.folder / BOOT, {**body, "checksum": digest_bytes(canonical(body))})


class Damaged(Exception):
    """A file of a boot is missing, or is not the one that was written."""

    def __init__(self, file: str, what: str) -> None:
        super().__init__(f"{file}: {what}")
        self.file = file
        self.what = what


def read_boot(folder: Path) -> BootRecord:
    """The record of a complete boot. Raises Damaged when boot.json or a file that it lists is missing or altered."""
    body = read_json(folder / BOOT)
    if not isinstance(body, dict):
        raise Damaged(BOOT, "is missing or is not complete JSON")
    if body.get("schema") != BOOT_SCHEMA:
        raise Damaged(BOOT, f"has schema {body.get('schema')}; this version reads {BOOT_SCHEMA}")
    checksum, actual = body.pop("checksum", None), digest_bytes(canonical(body))
    if checksum != actual:
        raise Damaged(BOOT, f"checksum is {actual[:12]}, the file names {str(checksum)[:12]}")
    try:
        digests = from_plain(dict[str, str], body.pop("files", None))
        del body["schema"]
        body.setdefault("unfit", _former_unfit(str(body.get("detail"))))
        record = from_plain(BootRecord, {**body, "folder": str(folder), "files": {}})
    except ValueError as error:
        raise Damaged(BOOT, str(error)) from error
    return replace(record, files={name: _file(folder / ARTEFACTS, name, sha) for name, sha in digests.items()})


def _former_unfit(detail: str) -> list[str]:
    """``BootRecord.unfit`` of boots that were stored before there was one, which have its sentence alone."""
    match = _FORMER_UNFIT.fullmatch(detail)
    if match is None:
        return []
    return [ABSENT, match[1], match[2]] if match[2] else [ROUTED, match[1], match[3]]


def _file(artefacts: Path, name: str, digest: str) -> bytes:
    shown = f"{ARTEFACTS}/{name}"
    if not _FILE_NAME.fullmatch(name):
        raise Damaged(BOOT, f"names a file {name[:64]!r}, which no guest can send")
    try:
        data = read_regular(artefacts / name)
    except FileNotFoundError as error:
        raise Damaged(shown, "is missing") from error
    except OSError as error:
        raise Damaged(shown, f"cannot be read: {error.strerror}") from error
    actual = digest_bytes(data)
    if actual != digest:
        raise Damaged(shown, f"checksum is {actual[:12]}, {BOOT} names {digest[:12]}")
    return data
