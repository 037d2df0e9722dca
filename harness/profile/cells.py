# SPDX-License-Identifier: GPL-2.0-only
"""Profiles of the cells of stored runs, each made once.

``<root>/<scenario>/profiles/<key>/`` holds the profiled boot and ``<load>.json`` for each of its loads. The key covers
the boot's fingerprint and what counts and attributes the instructions.
"""

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from harness import fitted
from harness.base.files import read_json, write_json, writing
from harness.figures.read import figures_of
from harness.figures.samples import read_samples
from harness.judge.cells import CellResult
from harness.profile.attribute import Image, code_of, images_of, nodes_of, read_window
from harness.profile.model import Code, Context, Function, Head, PathNode, Profile
from harness.record.judging import results_of
from harness.record.store import PlannedCell, RunFolder, save_boot
from harness.run.plan import guest_job
from harness.scenario.model import Load
from harness.scenario.registry import IDLE, PER_IO, Figures, values_of
from lab.base.digest import canonical, digest_bytes
from lab.base.errors import CannotJudge, LabBroken, Misuse
from lab.base.record import SAMPLES, BootRecord, Outcome
from lab.base.units import Tell
from lab.kernels.binaries import extract_vmlinux
from lab.kernels.model import Kernel
from lab.native import programs
from lab.native.programs import plugin
from lab.observers import profiled
from lab.session import Job, Lab, PhaseSeen, PreparedJob, prepare_job, run_job, sampler_of
from lab.symbols import Symbols
from lab.topology.model import Topology

FOLDER = "profiles"
SCHEMA = 2
_SECOND = 10**9
_KEY = 24


@dataclass(frozen=True)
class ProfiledBoot:
    """``windows`` maps each load with a sampled window to what the plugin counted (native/profile/plugin.c).

    ``programs`` are the guest's programs and libraries by name.
    """

    record: BootRecord
    windows: Mapping[str, bytes]
    symbols: Symbols
    programs: Mapping[str, bytes]


@dataclass(frozen=True)
class ProfiledCell:
    """One load of an arm under a seed. ``load`` is one of the scenario's; of several windows the first is meant."""

    arm: str
    load: str
    seed: int = 1


def parse_cell(run: RunFolder, text: str, seed: int) -> ProfiledCell:
    """The cell that ``ARM.LOAD`` names. Raises Misuse."""
    for arm in run.facts.arms:
        if text.startswith(f"{arm}.") and text.removeprefix(f"{arm}.") in run.scenario.loads:
            return ProfiledCell(arm, text.removeprefix(f"{arm}."), seed)
    cells = [f"{arm}.{load}" for arm in run.facts.arms for load in run.scenario.loads]
    raise Misuse(f"{run.facts.scenario} has no cell {text}", remedy=f"its cells are {', '.join(cells)}")


def chosen_cell(runs: Sequence[RunFolder], seed: int = 1) -> ProfiledCell:
    """The first cell of one run; of two runs the cell whose cpu.per_io differs by the largest factor.

    Raises CannotJudge where no cell has this figure in all of them.
    """
    costs = [_costs(run, seed) for run in runs]
    common = [cell for cell in costs[0] if all(cell in other for other in costs)]
    if not common:
        raise CannotJudge(f"no cell has {PER_IO} under seed {seed}", remedy="name it: blklab profile RUN ARM.LOAD")
    before, after = costs[0], costs[-1]
    return max(common, key=lambda cell: max(after[cell] / before[cell], before[cell] / after[cell]))


def _costs(run: RunFolder, seed: int) -> dict[ProfiledCell, float]:
    costs = {}
    for result in results_of(run):
        for (load, _, _), value in values_of(result.figures, PER_IO) if result.seed == seed else ():
            if value:
                costs[ProfiledCell(result.arm, load, seed)] = value
    return costs


def busy_cell(cells: Iterable[CellResult]) -> ProfiledCell | None:
    """The first load whose CPU is busy: elsewhere what an I/O executes depends on when it completes."""
    for cell in cells:
        for (load, _, _), idle in values_of(cell.figures, IDLE):
            if idle <= 1 - fitted.BUSY and any(True for _ in values_of(cell.figures, PER_IO, load)):
                return ProfiledCell(cell.arm, load, cell.seed)
    return None


def recorded_profile(run: RunFolder, cell: ProfiledCell) -> Profile | None:
    """A profile of this cell of the run that was made before, None where there is none."""
    record = run.boot(_stored_boot(run, cell))
    for path in sorted((run.path.parent / FOLDER).glob(f"*/{_load(run, cell).name}.json")):
        profile = _read(path)
        if profile and record and profile.head.digest == record.digest:
            return profile
    return None


def profiles_of_runs(
    lab: Lab, runs: Sequence[RunFolder], cell: ProfiledCell, kernels: Sequence[Kernel], tell: Tell
) -> list[Profile]:
    """``profile_of`` for each run with its kernel; ``tell`` gets a line for each phase."""
    return [
        profile_of(lab, run, cell, kernel, phase_seen=partial(_tell_phase, tell, f"{kernel.release} {cell.arm}"))
        for run, kernel in zip(runs, kernels, strict=True)
    ]


def _tell_phase(tell: Tell, where: str, phase: str) -> None:
    tell(f"{where}, profiled: {phase}")


def profile_of(
    lab: Lab, run: RunFolder, cell: ProfiledCell, kernel: Kernel, *, phase_seen: PhaseSeen, job: Job | None = None
) -> Profile:
    """The profile of a cell of a stored run: the recorded one, or that of a boot made now.

    ``job`` is what was booted where it is not the scenario's own. Raises CannotJudge where the boot cannot be repeated,
    LabBroken where the profiled boot's results differ.
    """
    stored = _stored_boot(run, cell)
    record = run.boot(stored)
    if record is None or record.digest is None:
        raise CannotJudge(f"{run.path} has no complete boot of {cell.arm}, seed {cell.seed}", remedy="run it again")
    arm, load = run.scenario.arms[cell.arm], _load(run, cell)
    job = job or guest_job(run.scenario, arm, cell.seed)
    now = prepare_job(lab, kernel, arm.topology, job).fingerprint
    changed = sorted(
        name for name in record.fingerprint.keys() | now.keys() if record.fingerprint.get(name) != now.get(name)
    )
    if changed:
        raise CannotJudge(
            f"{kernel.release} would not boot as in {run.path.name}: {', '.join(changed)} differ",
            remedy="run the scenario again with this blklab, then profile that run",
        )
    folder = run.path.parent / FOLDER / _key(lab, record.fingerprint)
    if profile := _read(folder / f"{load.name}.json"):
        return profile
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        boot = Path(tempfile.mkdtemp(dir=folder))
    made = profile_boot(lab, kernel, arm.topology, job, boot, phase_seen=phase_seen)
    save_boot(made.record)
    if made.record.digest != record.digest:
        raise LabBroken(
            f"the profiled boot's digest is {made.record.digest}, not {record.digest} as in {run.path.name}",
            remedy=f"report this as a bug; both boots are below {run.path.parent}",
        )
    release, origin = run.facts.kernel.release, run.facts.kernel.origin
    head = Head(run.facts.scenario, cell.arm, "", cell.seed, release, origin, record.digest)
    loads = [window for each in run.scenario.loads.values() for window in each.windows(run.scenario.windows)]
    profiles = profiles_of(made, _vmlinux(kernel), topology=arm.topology, loads=loads, head=head)
    for name, profile in profiles.items():
        _write(folder / f"{name}.json", profile)
    if load.name not in profiles:
        raise CannotJudge(f"load {load.name} has no sampled window", remedy="windows of 20 ms and more are sampled")
    return profiles[load.name]


def _stored_boot(run: RunFolder, cell: ProfiledCell) -> PlannedCell:
    for planned in run.facts.cells:
        if (planned.arm, planned.seed) == (cell.arm, cell.seed):
            if planned.skip:
                raise CannotJudge(f"{cell.arm} was skipped: {'; '.join(planned.skip)}")
            return planned
    raise Misuse(f"{run.path.name} has no seed {cell.seed}", remedy=f"its seeds are {run.facts.seeds}")


def _load(run: RunFolder, cell: ProfiledCell) -> Load:
    return run.scenario.loads[cell.load].windows(run.scenario.windows)[0]


def _key(lab: Lab, fingerprint: Mapping[str, str]) -> str:
    own = digest_bytes(plugin(lab.cache, lab.qemu.version).read_bytes())
    return digest_bytes(canonical([SCHEMA, own, dict(fingerprint)]))[:_KEY]


def profile_boot(
    lab: Lab, kernel: Kernel, topology: Topology, job: Job, folder: Path, *, phase_seen: PhaseSeen
) -> ProfiledBoot:
    """Boot once in ``folder``, which must be empty. Raises CannotJudge where the boot ends badly or is not profiled."""
    prepared, symbols = profiled(lab, prepare_job(lab, kernel, topology, job), job, phase_seen)
    record = run_job(lab, prepared, folder, phase_seen=phase_seen)
    if record.outcome is not Outcome.BYE:
        raise CannotJudge(f"the boot ended badly ({record.outcome}): {record.detail}", remedy=f"see {record.folder}")
    return ProfiledBoot(record, prepared.plugin.windows(folder), symbols, _guest_programs(lab, prepared))


def profiles_of(
    boot: ProfiledBoot, vmlinux: bytes, *, topology: Topology, loads: Sequence[Load], head: Head
) -> dict[str, Profile]:
    """The profile of each load with a sampled window, of a kernel with that image."""
    figures = figures_of(boot.record.files, topology, loads)
    images = images_of(boot.programs, vmlinux)
    sampled = (load for load in loads if load.name in boot.windows)
    return {load.name: _profile(boot, images, load, figures, head) for load in sampled}


def _profile(boot: ProfiledBoot, images: Sequence[Image], load: Load, figures: Figures, head: Head) -> Profile:
    window = read_window(boot.windows[load.name].decode())
    name = SAMPLES.format(load=load.name)
    samples = read_samples(boot.record.files[name], name)
    rate = sum((Fraction(figures[load.name, role, "iops"]) for role in load.roles), Fraction())
    role = next(iter(load.roles))
    return Profile(
        head=replace(head, load=load.name, per_io=figures.get((load.name, role, PER_IO))),
        ios=rate * (samples.ended - samples.began) / _SECOND,
        total=window.total,
        surprises=window.surprises,
        nodes=nodes_of(window, boot.symbols, images),
        code=code_of(window, boot.symbols),
    )


def _guest_programs(lab: Lab, prepared: PreparedJob) -> Mapping[str, bytes]:
    """Those of the payload and, with their symbols, the lab's own."""
    own = {name: programs.build(lab.cache, name, symbols=True) for name in (programs.DISKD, programs.RECEIVE)}
    sampler = programs.build(lab.cache, sampler_of(prepared.steps), symbols=True)
    payload = {Path(name).name: entry.data for name, entry in lab.payload.entries.items()}
    return {**payload, **own, programs.SAMPLER: sampler}


def _vmlinux(kernel: Kernel) -> bytes:
    return kernel.vmlinux.read_bytes() if kernel.vmlinux else extract_vmlinux(kernel.image.read_bytes()) or b""


def _write(path: Path, profile: Profile) -> None:
    functions = [*dict.fromkeys(node.function for node in profile.nodes)]
    numbers = {function: number for number, function in enumerate(functions)}
    document = {
        "schema": SCHEMA,
        "head": vars(profile.head),
        "ios": str(profile.ios),
        "total": profile.total,
        "surprises": profile.surprises,
        "functions": [[str(function.context), function.owner, function.name] for function in functions],
        "nodes": [[node.parent, numbers[node.function], node.calls, node.instructions] for node in profile.nodes],
        "code": [[code.owner, code.name, code.address, *chain(*code.counts.items())] for code in profile.code],
    }
    write_json(path, document)


def _read(path: Path) -> Profile | None:
    document: Any = read_json(path)
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        return None
    functions = [Function(Context(context), owner, name) for context, owner, name in document["functions"]]
    nodes = (PathNode(parent, functions[number], calls, cost) for parent, number, calls, cost in document["nodes"])
    code = (
        Code(owner, name, address, dict(zip(counts[::2], counts[1::2], strict=True)))
        for owner, name, address, *counts in document["code"]
    )
    return Profile(
        Head(**document["head"]),
        Fraction(document["ios"]),
        document["total"],
        document["surprises"],
        tuple(nodes),
        tuple(code),
    )
