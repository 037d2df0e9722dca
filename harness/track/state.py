# SPDX-License-Identifier: GPL-2.0-only
"""What a tracker knows, in one folder.

    <out>/track.json   replaced after each measurement, so a killed night is resumed
    <out>/clone.git    borrows the objects of the tree
    <out>/runs/        the runs: an ordinary results root
    <out>/site/        the pages; <out>/outbox/ a mail for each alarm

The clock only names nights: their order is that of their numbers.
"""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from harness.base.files import held, write_json
from harness.base.plain import from_plain, to_plain
from harness.bisect.repository import is_commit
from harness.grid.lines import Move, Trend
from lab.base import reading
from lab.base.errors import LabBroken, Misuse

SCHEMA = 1
STATE = "track.json"
_NIGHTS = 366
"""As many are kept, and as many commits that do not build."""
CHECKS = ("parent", "culprit", "another layout", "revert")


@dataclass(frozen=True)
class Alarm:
    """What one cause changed. ``culprit`` is a commit or a version; empty where it is one of those ``left``.

    ``checks`` are the words of the verification, ``functions`` those that the cause changes and the loads execute, or
    whose instruction counts changed. ``why``: the reason where it is not verified. ``closed`` says what ended it.
    """

    number: int
    night: int
    line: str
    trend: Trend
    moves: tuple[Move, ...]
    culprit: str = ""
    subject: str = ""
    author: str = ""
    date: str = ""
    parent: str = ""
    left: tuple[str, ...] = ()
    checks: Mapping[str, str] = field(default_factory=dict)
    functions: tuple[str, ...] = ()
    profile: tuple[str, ...] = ()
    verified: bool = False
    why: str = ""
    undoes: int = 0
    closed: str = ""
    notes: tuple[str, ...] = ()

    @property
    def confidence(self) -> str:
        if self.verified:
            return "verified: " + ", ".join(f"{what} {self.checks[what]}" for what in CHECKS if what in self.checks)
        return f"not verified: {self.why}" if self.culprit else f"not decided: {self.why}"

    @property
    def scenarios(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(move.scenario for move in self.moves if move.scenario))

    @property
    def name(self) -> str:
        """The culprit for people: ``0123456789ab ("subject")``, or how many commits it may be."""
        if not self.culprit:
            return f"one of {len(self.left)} commits"
        return f'{self.culprit[:12]} ("{self.subject}")' if self.subject else self.culprit


@dataclass(frozen=True)
class Record:
    """A ``run`` (relative to the runs) of a scenario on a commit; ``setting`` digests all but the kernel.

    Of a kept search ``run`` is the fault that it finds, empty where it finds none.
    """

    run: str
    setting: str


@dataclass(frozen=True)
class Night:
    """``line`` is the ref or the kernel's spec, from its commit or version ``last`` to ``head``.

    ``chosen`` are the scenarios to measure, each with why, ``left`` those that the budget leaves out. ``gone`` are
    commits that a rebase dropped. ``calm`` are what moved and is layout alone, with why. ``ended`` is empty until then.
    """

    number: int
    line: str
    last: str
    head: str
    began: str
    ended: str = ""
    chosen: Mapping[str, str] = field(default_factory=dict)
    left: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    calm: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    builds: int = 0
    boots: int = 0
    seconds: float = 0.0
    commits: int = 0
    status: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Base:
    """What a scenario is compared with: the ``commit`` or version that was measured last, in the night ``night``."""

    commit: str
    run: str
    night: int


@dataclass(frozen=True)
class Accepted:
    """A figure, claim or scenario whose change by ``commit`` is intended."""

    figure: str
    commit: str
    reason: str
    when: str


@dataclass(frozen=True)
class Track:
    """``records`` by commit, then scenario; ``unbuilt``: why commits do not build; ``bases`` by line, then scenario."""

    records: Mapping[str, Mapping[str, Record]] = field(default_factory=dict)
    unbuilt: Mapping[str, str] = field(default_factory=dict)
    bases: Mapping[str, Mapping[str, Base]] = field(default_factory=dict)
    nights: tuple[Night, ...] = ()
    alarms: tuple[Alarm, ...] = ()
    accepted: tuple[Accepted, ...] = ()
    schema: int = SCHEMA

    @property
    def open(self) -> tuple[Alarm, ...]:
        return tuple(alarm for alarm in self.alarms if not alarm.closed and alarm.trend is not Trend.BETTER)

    def last_night(self, line: str) -> Night | None:
        return next((night for night in reversed(self.nights) if night.line == line), None)

    def of_night(self, night: Night) -> tuple[Alarm, ...]:
        return tuple(alarm for alarm in self.alarms if alarm.night == night.number)

    def pruned(self) -> "Track":
        """Without what no later night and no page needs: old nights with their alarms, and records of commits that are
        no head, base, culprit or parent of a culprit.
        """
        nights = self.nights[-_NIGHTS:]
        alarms = tuple(each for each in self.alarms if each.night >= nights[0].number or each in self.open)
        commits = {base.commit for bases in self.bases.values() for base in bases.values()}
        commits |= {night.head for night in nights} | {sha for each in alarms for sha in (each.culprit, each.parent)}
        track = replace(self, records={sha: of for sha, of in self.records.items() if sha in commits})
        return replace(track, unbuilt=dict([*self.unbuilt.items()][-_NIGHTS:]), nights=nights, alarms=alarms)

    def with_night(self, night: Night) -> "Track":
        return replace(self, nights=(*(each for each in self.nights if each.number != night.number), night))

    def with_record(self, commit: str, scenario: str, record: Record) -> "Track":
        return replace(self, records={**self.records, commit: {**self.records.get(commit, {}), scenario: record}})

    def with_base(self, line: str, scenario: str, base: Base) -> "Track":
        return replace(self, bases={**self.bases, line: {**self.bases.get(line, {}), scenario: base}})

    def accepts(self, move: Move, commit: str) -> bool:
        names = {move.scenario, f"{move.scenario}.{move.name}"}
        return any(each.figure in names and each.commit == commit for each in self.accepted)


@dataclass
class Folder:
    """A tracker's folder with its state; one process at a time changes it."""

    path: Path
    track: Track = field(default_factory=Track)

    def load(self) -> None:
        """Read the state. Raises LabBroken where it is damaged or of another version."""
        file = self.path / STATE
        if not file.exists():
            return
        remedy = f"restore it, or move {self.path} away: a new tracker begins with the next commit"
        try:
            plain = reading.read_json(file)
            if not isinstance(plain, dict) or plain.get("schema") != SCHEMA:
                raise ValueError(f"it is not of schema {SCHEMA}")
            self.track = from_plain(Track, plain)
        except (OSError, ValueError) as error:
            raise LabBroken(f"{file} is damaged: {error}", remedy=remedy) from error

    def held(self) -> AbstractContextManager[None]:
        return held(self.path, "the tracker in")

    def save(self, track: Track) -> Track:
        """Raises LabBroken when the disk is full."""
        if track is not self.track:
            write_json(self.path / STATE, to_plain(track))
            self.track = track
        return track

    def accept(self, figure: str, commit: str, reason: str) -> tuple[Alarm, ...]:
        """Take the change of ``figure`` by ``commit`` as intended; the alarms that this closes. Raises Misuse."""
        entry = Accepted(figure, commit, reason, now())
        track = replace(self.track, accepted=(*self.track.accepted, entry))
        known = [alarm for alarm in track.alarms if alarm.culprit == commit]
        if not any(track.accepts(move, commit) for alarm in known for move in alarm.moves):
            names = _known(alarm for alarm in self.track.open)
            raise Misuse(f"no alarm says that {commit[:12]} changes {figure}", remedy=f"known: {names or 'none'}")
        closed = {
            alarm.number: replace(alarm, closed=f"accepted: {reason}")
            for alarm in known
            if not alarm.closed and all(track.accepts(move, commit) for move in alarm.moves)
        }
        self.save(replace(track, alarms=tuple(closed.get(alarm.number, alarm) for alarm in track.alarms)))
        return tuple(closed.values())


def _known(alarms: Iterable[Alarm]) -> str:
    rows = (
        f"{move.scenario}.{move.name} --commit {alarm.culprit[:12]}" for alarm in alarms for move in alarm.moves[:1]
    )
    return "; ".join(rows)


def short(commit: str) -> str:
    """The first digits of a commit, the version of a package."""
    return commit[:12] if is_commit(commit) else commit.rpartition(" ")[2]


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
