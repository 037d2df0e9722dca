# SPDX-License-Identifier: GPL-2.0-only
"""A scenario from fio jobs and a topology: loads, first claims as drafts, a negative control, and the scale."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf
from pathlib import Path, PurePosixPath
from typing import cast

from harness.intake.documents import (
    AnnotatedDocument,
    Document,
    exact_size,
    exact_time,
    keys_at,
    node_at,
    read_text,
    yaml_text,
)
from harness.intake.jobs import DraftJob
from harness.intake.scaling import cheap, demands, expected_rates, factor, not_concluded, waits
from harness.intake.snapshot import slug
from harness.judge.visible import unseen
from harness.limits.entries import load_scenario
from harness.limits.limits import arm_bound, unbounded_by
from harness.scenario.load import read_scenario
from harness.scenario.model import READS, Load, Scenario
from lab.base.errors import InputErrors, Misuse, Problem
from lab.topology.load import find_topology, load_topology
from lab.topology.model import SERIAL, Topology
from lab.yaml.strict import Node, Problems, names, parse, plain_value, read_bytes, shown_path

_SECOND = 10**9
_SOLO = "solo-"
_BASE, _SLOWER = "base", "slower"
_HOLDS = 0.8
"""First bound of a claim, relative to what the topology allows: a person sets the real one."""
_SLOWER_BY = (4, 2, 16, 64, 256)
_SEEN = 0.6
_SAME, _ALL = 1e-6, 0.995
_FEWEST, _FEWEST_SLOWER, _RAMP_REQUESTS = 200, 50, 20
_SHORTEST, _LONGEST = 2, 3600
_MOST_SEEK, _LEAST_RPM, _MINUTE = _SECOND, 60, 60 * _SECOND
_DRAFT = "A draft: no person has set its bounds."
_MEASURES = "A draft without claims: a run only measures."
_NO_CLAIM = "no claim: no job waits for a disk in such a way that slower disks would show; a run only measures (DONE)"
_NO_REPORT = "the reported figures are left out: nothing follows from the topology to compare them with"
_LARGE = 256 << 10
_DRAFT_SIZE, _LARGEST = 64 << 30, 1 << 44

Rows = dict[str, dict[str, object]]


@dataclass(frozen=True)
class DraftSource:
    """A topology as a document, its name in a scenario where nothing in it is changed, and the file it is from."""

    document: Document
    name: str = ""
    file: Node | None = None


def named_topology(ref: str) -> DraftSource:
    """The topology of a name or a path. Raises Misuse and InputErrors."""
    load_topology(ref, near=Path())
    path = find_topology(ref, near=Path())
    node = parse(read_bytes(path, "topology"), str(path), Problems())
    return DraftSource(cast("Document", plain_value(node)), ref if "/" not in ref and "." not in ref else "", node)


def made_up_topology(jobs: Sequence[DraftJob]) -> DraftSource:
    """A host with a disk for each device of the jobs, or one with a filesystem; all of its figures are guesses."""
    keys = list(dict.fromkeys(key for job in jobs for key in job.keys))
    need = max(_DRAFT_SIZE, *(2 * ((job.size or 0) + (job.offset or 0)) * job.numjobs for job in jobs))
    disks = {
        f"d{number}": {"size": exact_size(min(-(-need // (1 << 30)) << 30, _LARGEST)), "service": "1ms"}
        for number in range(len(keys))
    }
    guess = "no topology was given"
    document: Document = {
        "topology": "made-up",
        "title": "A host with a disk for each device of the jobs; every figure is a guess",
        "memory": "512M",
        "disks": disks,
        "hbas": {"host": {"driver": "tcm_loop", "can_queue": 1024, "cmd_per_lun": 64}},
        "luns": {name: {"hba": "host", "disks": [name]} for name in disks},
        "origins": [{"of": "disk.*.service", "guessed": guess}, {"of": "hba.*.*", "guessed": guess}],
    }
    if filesystem := jobs[0].source.filesystem:
        document["memory"], document["disks"] = "1G", {"d0": {"size": "512M", "service": "1ms"}}
        document["hbas"] = {"host": {"driver": "null_blk", "can_queue": 64}}
        document["stacks"] = {"fs": {"kind": "filesystem", "type": filesystem, "over": ["d0"]}}
    return DraftSource(document)


class Drafter:
    """Makes a scenario step by step; ``mapped`` has devices or folders of the jobs to targets of the topology."""

    def __init__(self, name: str, jobs: Sequence[DraftJob], source: DraftSource, mapped: Mapping[str, str]) -> None:
        self._name, self._jobs, self._source = name, jobs, source
        self._notes = [note for job in jobs for note in job.notes]
        self._scale = int(str(source.document.get("scale", 1)))
        self._teaches: list[str] = []
        topology = read_text(yaml_text(source.document), "topology")
        self._targets = targets(jobs, topology, mapped)
        self._files = {key for key, target in self._targets.items() if topology.is_filesystem(target)}
        self._on_files = {self._targets[key] for key in self._files}
        self._extents = dict(self._regions(topology))

    def draft(self, reported: Mapping[str, float]) -> AnnotatedDocument:
        """The scenario; ``reported`` are IOPS of jobs by fio's name for them."""
        cached = [job.role for job in self._jobs if not job.direct and job.rw != "randread"]
        if cached:
            self._notes.append(f"{', '.join(cached)}: no first claim, for the page cache or read-ahead decides")
        self._rescale()
        slower_arm, scenario = self._slow_arm()
        self._teaches += self._unseen(scenario)
        document = self._document(scenario, slower_arm)
        roles = [role for load in scenario.loads.values() for role in load.roles.values()]
        whys = dict.fromkeys(unbounded_by(scenario.arms[_BASE].topology, role) for role in roles)
        self._notes += [f"no first claim where {why}" for why in whys if why]
        if slower_arm:
            rates = [expected for load in scenario.loads.values() for expected in self._expectations(scenario, load)]
            document["claims"] = list(self._claims(rates))
            document["controls"] = [expected.control for expected in rates if expected.is_visible]
            if rows := list(self._reproduces(rates, reported)):
                document["reproduces"] = rows
        else:
            document |= {"teaches": " ".join((_MEASURES, *self._teaches)), "arms": {_BASE: {}}}
            self._notes += [_NO_CLAIM, *([_NO_REPORT] if reported else [])]
        self._load(document, implied=True)
        return AnnotatedDocument(document, tuple(self._notes))

    # Loads

    def _regions(self, topology: Topology) -> Iterator[tuple[str, tuple[int, int]]]:
        """Offset and size of each file on its target, one after another where all fit."""
        for key, target in self._targets.items():
            room = topology.region(target).size
            places = [(job.files[job.keys.index(key)], job) for job in self._jobs if key in job.keys]
            ends = {file: (job.offset or 0) + (job.size or 0) for file, job in places}
            if key in self._files:
                yield from ((file, (0, room)) for file in ends)
                continue
            if not key.startswith("/dev/"):
                self._notes.append(f"files in {key} are places on {target} itself, which has no filesystem")
            if len(ends) > 1 and all(ends.values()) and sum(ends.values()) <= room:
                start = 0
                for file, size in ends.items():
                    yield file, (start, size)
                    start += -(-size // 4096) * 4096
                continue
            if len(ends) > 1:
                self._notes.append(f"{len(ends)} files on {target} have no place of their own: each job uses all of it")
            for file, job in places:
                if (job.offset or 0) + (job.size or 0) > room:
                    self._notes.append(f"{job.line}: its size exceeds {target}: it uses all of {target}")
                elif len(ends) == 1 and (job.size or job.offset):
                    yield file, (0, room)

    def _row(self, job: DraftJob, *, late: bool = False) -> Document:
        disks, on_files = [self._targets[key] for key in job.keys], job.keys[0] in self._files
        row: Document = {"disk": disks if len(disks) > 1 else disks[0], "rw": job.rw, "bs": exact_size(job.bs)}
        row |= {"iodepth": job.iodepth}
        row |= {"numjobs": job.numjobs} if job.numjobs > 1 else {}
        row |= {"ioengine": job.ioengine} if job.ioengine != "libaio" else {}
        row |= {} if job.direct else {"direct": False}
        # A modelled disk keeps what is written in the guest's memory, except zeros.
        row |= {"zero_buffers": True} if job.rw not in READS and "verify" not in job.options else {}
        row |= {name: value for name, value in job.options.items() if name != "overwrite" or on_files}
        users = sum(other.numjobs for other in self._jobs if other.files == job.files and other.shares_file)
        if on_files and job.shares_file and users > 1:
            row |= {"files": f"shared-{slug(PurePosixPath(job.files[0]).name)[:30]}"}
        if job.files[0] in self._extents:
            start = self._extents[job.files[0]][0] + (job.offset or 0)
            row |= {"offset": exact_size(start)} if start else {}
            row |= {"size": exact_size(job.size)} if job.size else {}
        row |= {"rate": f"{max(1, job.rate // self._scale)} B/s"} if job.rate else {}
        row |= {"rate_iops": max(1, job.rate_iops // self._scale)} if job.rate_iops else {}
        times = {**job.times, "startdelay": job.startdelay} if late and job.startdelay else job.times
        return row | {name: f"{time // 1000 * self._scale}us" for name, time in times.items()}

    def _warm(self, jobs: Sequence[DraftJob]) -> Document:
        """The steps that read files of the jobs into the page cache."""
        steps: list[Document] = []
        for job in (job for job in jobs if job.pre_read):
            row = self._row(job)
            where: Document = {key: row[key] for key in ("disk", "bs", "offset", "size") if key in row}
            where |= {"rw": "read", "iodepth": 1, "ioengine": "psync", "direct": False}
            each = [f"{job.role}-{number}" for number in range(job.numjobs)] if job.numjobs > 1 else [job.role]
            files = [str(row["files"])] if "files" in row else each
            steps += [{**where, "files": name} for name in files] if row["disk"] in self._on_files else [where]
        return {"warm": steps} if steps else {}

    def _loads(self, windows: Mapping[str, Document]) -> Rows:
        """Each job alone, and the jobs between two stonewalls together."""
        of = {f"{_SOLO}{job.role}": [job] for job in self._jobs}
        stages = {job.stage: [other for other in self._jobs if other.stage == job.stage] for job in self._jobs}
        shared = [jobs for jobs in stages.values() if len(jobs) > 1]
        for number, jobs in enumerate(shared, start=1):
            of["together" if len(shared) == 1 else f"together-{number}"] = jobs
        late = ceil(max(job.startdelay for job in self._jobs) * self._scale / _SECOND)
        usual: Document = {"ramp": f"{1 + late}s", "runtime": f"{_SHORTEST}s"}
        return {
            name: {
                "window": {**windows.get(name, usual), **_published(jobs)},
                **self._warm(jobs),
                **{job.role: self._row(job, late=len(jobs) > 1) for job in jobs},
            }
            for name, jobs in of.items()
        }

    # The scenario

    def _place(self) -> object:
        rest = {key: value for key, value in self._source.document.items() if key != "scale"}
        if self._source.name and self._scale == int(str(self._source.document.get("scale", 1))):
            return self._source.name
        return {**rest, "scale": self._scale} if self._scale > 1 else rest

    def _document(self, sized: Scenario | None = None, slower: Document | None = None) -> Document:
        """The scenario without its claims; windows are those that ``sized`` needs."""
        windows = {} if sized is None else {name: _window(sized, load) for name, load in sized.loads.items()}
        queue = self._source.document.get("queue")
        needs = not isinstance(queue, Mapping) or "scheduler" not in queue
        lines = " ".join((_DRAFT, *self._teaches))
        return {
            "scenario": self._name,
            "title": f"Draft from the fio jobs {names(job.label for job in self._jobs)[:80]}",
            "teaches": lines,
            "clock": "virtual",
            "schema": 1,
            "topology": self._place(),
            **({"queue": {"scheduler": "none"}} if needs else {}),
            "seeds": 2,
            "arms": {_BASE: {}, _SLOWER: slower or {"teaches": "the same"}},
            "loads": self._loads(windows),
        }

    def _load(self, document: Document, *, implied: bool = False) -> Scenario:
        """The scenario of a document. Raises InputErrors."""
        with tempfile.TemporaryDirectory(prefix="blklab-draft-") as folder:
            path = Path(folder) / f"{self._name}.yaml"
            path.write_text(yaml_text(document))
            load_it = load_scenario if implied else read_scenario
            try:
                return load_it(str(path), search=path.parent)
            except InputErrors as error:
                node = parse(path.read_bytes(), shown_path(path), Problems())
                raise InputErrors([*dict.fromkeys(self._at_author(each, node) for each in error.problems)]) from error

    def _at_author(self, problem: Problem, node: Node) -> Problem:
        """A mistake of the draft, at the line of the author's file that it comes from."""
        keys = keys_at(node, problem.line, problem.column)
        if problem.path != node.mark.path or not keys:
            return problem
        if keys[0] == "topology" and self._source.file:
            mark = node_at(self._source.file, keys[1:]).mark
            return replace(problem, path=mark.path, line=mark.line, column=mark.column)
        roles = {name.removeprefix(_SOLO) for name in keys[1:3]}
        job = next((job.source for job in self._jobs if job.role in roles), self._jobs[0].source)
        option = job.options.get("filename" if keys[-1] in ("disk", "files") else keys[-1], job)
        what = "" if keys[0] == "loads" else f"the draft's {'.'.join(keys)}: "
        return replace(problem, path=job.path, line=option.line, column=1, message=what + problem.message)

    def _rescale(self) -> None:
        """Set the scale at which the guest's CPU keeps up, and say what that costs."""
        scenario = self._load(self._document())
        busy, iops, load = max(demands(scenario.arms[_BASE], scenario.loads.values()))
        if (by := factor(busy)) > 1:
            self._scale *= by
            self._teaches.append(
                f"Load {load}, {iops:.0f} I/Os a second, needs {busy:.1f} of the guest's CPU"
                f" (1 is all of it): rates are {self._scale} times lower than the machine's and times {self._scale}"
                " times longer, and ratios between devices stay. Not to be concluded: what the kernel's own code costs,"
                " for the disks limit the scaled run (io-cost measures it)."
            )
        if self._scale > 1:
            self._teaches += not_concluded(self._load(self._document()).arms[_BASE].topology)

    def _unseen(self, scenario: Scenario) -> Iterator[str]:
        """What windows on one CPU cannot show of these jobs, a sentence each."""
        if (most := max(load.jobs for load in scenario.loads.values())) > 1:
            yield (
                f"Not to be concluded: what {most} jobs wait for while they run in parallel, for the guest has one CPU"
                " (machine: {cpus: N} counts cache lines and locks)."
            )
        if hidden := unseen(scenario, ()):
            yield f"Not to be concluded, unless meant: names it: {hidden}."

    def _slow_arm(self) -> tuple[Document, Scenario]:
        """The settings of an arm with disks that are visibly slower, empty if none are, and the scenario with it."""
        base = self._load(self._document())
        for by in _SLOWER_BY:
            try:
                settings = slower(base.arms[_BASE].topology, by)
                scenario = self._load(self._document(None, settings))
            except InputErrors:
                continue
            loads = scenario.loads.values()
            if any(expected.is_visible for load in loads for expected in self._expectations(scenario, load)):
                return settings, self._load(self._document(scenario, settings))
        return {}, self._load(self._document(base))

    # Claims

    def _expectations(self, scenario: Scenario, load: Load) -> Iterator["Expected"]:
        """Each role of a load: what the topology allows it, and on slower disks relative to that."""
        rates = [expected_rates(scenario.arms[arm], load) for arm in (_BASE, _SLOWER)]
        for job in self._jobs:
            role = job.role
            if role not in load.roles or unbounded_by(scenario.arms[_BASE].topology, load.roles[role]):
                continue
            if waits(load.roles[role]):
                iops, slow = (rate[role] / job.bs for rate in rates)
                bound = arm_bound(scenario.arms[_BASE], load, role, "iops") if job.direct else 0.0
                same = abs(bound / iops - 1) < _SAME
                text = f"bound.{_BASE}.{load.name}.{role}.iops" if same else f"{iops:.6g}"
                yield Expected(job, load.name, iops, slow / iops, text)

    def _claims(self, rates: Sequence["Expected"]) -> Iterator[Document]:
        solo = {expected.job.role: expected for expected in rates if expected.load.startswith(_SOLO)}
        for expected in rates:
            alone = solo[expected.job.role]
            share = expected.iops / alone.iops
            if expected is alone:
                that = f"{expected.job.role} alone gets most of what the topology allows"
                ratio = f"{expected.figure} / {expected.allowed}"
            else:
                part = f"{share:.2g} of its solo IOPS, as predicted" if share < _ALL else "its solo IOPS"
                that = f"with the others, {expected.job.role} keeps {part}"
                ratio = f"{expected.figure} / {alone.figure}"
            yield {"that": that, "ratio": ratio, "expect": f">= {share * _HOLDS:.2g}", "draft": True}

    def _reproduces(self, rates: Sequence["Expected"], reported: Mapping[str, float]) -> Iterator[Document]:
        """The reported figures relative to what the topology allows at full scale, as they ran: together."""
        for job, expected in {expected.job.role: (expected.job, expected) for expected in rates}.values():
            if job.label in reported:
                share = float(f"{reported[job.label] / (expected.iops * self._scale):.4g}")
                that, ratio = f"{job.role}: IOPS of what the topology allows", f"{expected.figure} / {expected.allowed}"
                yield {"that": that, "ratio": ratio, "reported": share}


@dataclass(frozen=True)
class Expected:
    """A role in a load: its predicted ``iops``, ``slower`` is what is left of them on slower disks.

    ``allowed`` is the prediction as an operand.
    """

    job: DraftJob
    load: str
    iops: float
    slower: float
    allowed: str

    @property
    def figure(self) -> str:
        return f"{_BASE}.{self.load}.{self.job.role}.iops"

    @property
    def is_visible(self) -> bool:
        """Whether slower disks make a negative control of it."""
        return self.load.startswith(_SOLO) and self.slower <= _SEEN

    @property
    def control(self) -> Document:
        ratio = f"{_SLOWER}.{self.load}.{self.job.role}.iops / {self.allowed}"
        expect = f"<= {(self.slower + _HOLDS) / 2:.2f}"
        return {"that": f"{self.job.role} on slower disks falls below that", "ratio": ratio, "expect": expect}


def _window(scenario: Scenario, load: Load) -> Document:
    """Long enough for the slowest role that waits for a disk to do enough I/Os, also on slower disks; as long as the
    jobs on the machine where that takes a boot little."""
    slowest = [
        min((rates[name] / role.bs for name, role in load.roles.items() if waits(role)), default=inf)
        for rates in (expected_rates(scenario.arms[arm], load) for arm in (_BASE, _SLOWER))
    ]
    late = max(role.startdelay for role in load.roles.values())
    published = load.published * scenario.arms[_BASE].topology.scale / _SECOND
    little = int(min(published, cheap(scenario, _BASE, load)))
    least = max(_SHORTEST, ceil(_FEWEST / slowest[0]), ceil(_FEWEST_SLOWER / slowest[1]))
    ramp = max(1, min(least, ceil(_RAMP_REQUESTS / slowest[0])))
    return {"ramp": f"{ramp + ceil(late / _SECOND)}s", "runtime": f"{min(_LONGEST, max(least, little))}s"}


def _published(jobs: Sequence[DraftJob]) -> Document:
    """How long the longest of the jobs ran on the machine, if any says it."""
    longest = max((job.runtime or 0 for job in jobs), default=0)
    return {"of": exact_time(longest) if longest % _SECOND else f"{longest // _SECOND}s"} if longest else {}


def targets(jobs: Sequence[DraftJob], topology: Topology, mapped: Mapping[str, str]) -> dict[str, str]:
    """The target of each device or folder: as in ``mapped``, by name, else the next one that is free."""
    available = topology.targets()
    members = {name for stack in topology.stacks.values() for name in stack.over}
    below = members.union(*(topology.luns[name].disks for name in members if name in topology.luns))
    free = [name for name in dict.fromkeys((*topology.stacks, *available)) if name in available and name not in below]
    keys = list(dict.fromkeys(key for job in jobs for key in job.keys))
    if unknown := sorted({*mapped.values()} - {*available}):
        raise Misuse(f"--map: the topology has no {names(unknown)}", remedy=f"it has {names(available)}")
    if unused := sorted({*mapped} - {*keys}):
        raise Misuse(f"--map: no job uses {names(unused)}", remedy=f"the jobs use {names(keys)}")
    chosen = {key: mapped[key] for key in keys if key in mapped}
    for key in keys:
        if (name := slug(PurePosixPath(key).name)) in available:
            chosen.setdefault(key, name)
    left = [name for name in free if name not in chosen.values()]
    for key in (key for key in keys if key not in chosen):
        if not left:
            line = next(job.line for job in jobs if key in job.keys)
            raise Misuse(f"{line}: no disk is left for {key}", remedy=f"--map {key}=NAME, one of {names(available)}")
        chosen[key] = left.pop(0)
    return chosen


def slower(topology: Topology, by: int) -> Document:
    """Settings that make every disk slower by this factor; of all disks together where they are equal."""
    values: dict[str, dict[str, str | int]] = {}
    for disk in topology.disks.values():
        scale = topology.scale
        slowed: dict[str, str | int] = {}
        if disk.service is not None:
            slowed["service"] = exact_time(disk.service // scale * by)
        if disk.rate is not None and topology.driver(disk.name) not in SERIAL:
            # A token bucket has whole MB/s: the time of a large request for every one, however small.
            slowed["service"] = exact_time(by * _LARGE * _SECOND // (disk.rate * scale))
        elif disk.rate is not None:
            slowed["rate"] = f"{max(1, disk.rate * scale // by)} B/s"
        if disk.seek:
            slowed["seek"] = exact_time(min(_MOST_SEEK, disk.seek // scale * by))
        if disk.rotation:
            slowed["rpm"] = max(_LEAST_RPM, _MINUTE * scale // disk.rotation // by)
        for key, value in slowed.items():
            values.setdefault(key, {})[disk.name] = value
    settings: Document = {}
    for key, disks in values.items():
        alike = len(disks) == len(topology.disks) and len(set(disks.values())) == 1
        settings |= {f"disk.{'*' if alike else name}.{key}": value for name, value in disks.items()}
    return settings
