# SPDX-License-Identifier: GPL-2.0-only
"""A night: from the new head of a tree to its alarms.

A scenario is compared with its own last record, so that one which the budget left out is not lost. A killed night goes
on with the head and the scenarios that it began with; what it changes is stored in one step at its end.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

from harness.bisect.finding import warnings_of
from harness.bisect.repository import Repository
from harness.grid.lines import Kind, Move, Trend
from harness.patch.choice import ScenarioChoice, modules_of
from harness.report.format import plural
from harness.scenario.model import Scenario, Status
from harness.track.moves import BUILDS, Seen, costs, differs, moves, trend_of
from harness.track.runs import CommitRuns, due
from harness.track.search import Cause, RangeSearch, verify
from harness.track.state import Alarm, Base, Night, Track, now, short
from lab.base.errors import CannotJudge, Misuse

_NOT_BUILT = Move("", Kind.BUILD, "the kernel", BUILDS, "", Trend.WORSE)


@dataclass(frozen=True)
class Work:
    """What a night did: ``tip`` is the commit or version that was measured, ``seen`` what it has of each scenario,
    ``hunted`` the searches that were made on it."""

    tip: str
    seen: Mapping[str, Seen]
    alarms: Sequence[Alarm]
    calm: Sequence[str] = ()
    notes: Sequence[str] = ()
    hunted: Sequence[str] = ()

    @property
    def lacking(self) -> Mapping[str, str]:
        """The scenarios of which the kernel or the host can run no arm, with what is missing."""
        cells = {name: each.cells for name, each in self.seen.items()}
        skipped = (name for name, own in cells.items() if own and all(cell.status is Status.SKIP for cell in own))
        return {name: f"{name} is not measured: {cells[name][0].reasons[0]}" for name in skipped}


@dataclass
class Nights(ABC):
    """Carries out nights of a ``line``, with ``budget`` seconds for measuring a head, and what a scenario takes.

    Heads are commits of a branch, or versions of a package.
    """

    runs: CommitRuns
    line: str
    budget: float
    seconds: Callable[[Scenario], float]

    def night(self, head: str) -> Night:
        """Carry out one, or what is left of a killed one. Raises LabBroken."""
        began, built, booted = monotonic(), self.runs.built, self.runs.booted
        before = self._track.last_night(self.line)
        night = before if before and not before.ended else self._planned(head, before)
        self.runs.folder.save(self._track.with_night(night))
        about = f"{plural(len(night.chosen), 'scenario')}, {len(night.left)} left out"
        self.runs.tell(f"night {night.number}: {short(night.last) or 'nothing'} -> {short(night.head)}, {about}")

        def spent() -> Night:
            counts = night.builds + self.runs.built - built, night.boots + self.runs.booted - booted
            return replace(night, builds=counts[0], boots=counts[1], seconds=night.seconds + monotonic() - began)

        self.runs.progress = lambda track: track.with_night(spent())
        work = self._work(night)
        done = replace(
            spent(),
            ended=now(),
            commits=len(self._suspects(night)),
            calm=tuple(work.calm),
            notes=(*work.notes, *work.lacking.values()),
            status={name: str(each.verdict.status) for name, each in work.seen.items() if name not in work.lacking},
        )
        self._close(done, work)
        return done

    @property
    def _track(self) -> Track:
        return self.runs.folder.track

    @property
    def _bases(self) -> Mapping[str, Base]:
        return self._track.bases.get(self.line, {})

    def _suspects(self, night: Night) -> Sequence[str]:
        """What is between the last head and this one."""
        return ()

    def _planned(self, head: str, before: Night | None, reached: Mapping[str, ScenarioChoice] = {}) -> Night:
        last = before.head if before else ""
        chosen, left = due(self.runs.scenarios.values(), self._bases, head, reached, (self.budget, self.seconds))
        number = max((night.number for night in self._track.nights), default=0) + 1
        return Night(number, self.line, last, head, now(), chosen=chosen, left=left)

    @abstractmethod
    def _work(self, night: Night) -> Work:
        """Measure what is due, and search for what changed it."""

    def _alarm(self, night: Night, of: Iterable[Move], **known: Any) -> Alarm:
        """It gets its number when it is stored."""
        ranked = tuple(sorted(of, key=lambda move: list(Kind).index(move.kind)))
        return Alarm(0, night.number, self.line, trend_of(ranked), ranked, **known)

    def _close(self, night: Night, work: Work) -> None:
        """Store bases, alarms and night in one step."""
        track, closed = self._track, dict[int, str]()
        if work.tip == night.head:
            broken = (old.number for old in track.open if old.line == self.line and old.moves[0].kind is Kind.BUILD)
            closed |= dict.fromkeys(broken, f"it builds again in night {night.number}")
        fresh = list[Alarm]()
        first = max((alarm.number for alarm in track.alarms), default=0) + 1
        for number, alarm in enumerate(work.alarms, start=first):
            undone = [old.number for old in track.open if _undoes(alarm, old)]
            closed |= dict.fromkeys(undone, f"undone by {alarm.name}")
            accepted = alarm.culprit and all(track.accepts(move, alarm.culprit) for move in alarm.moves)
            closing = "accepted" if accepted else ""
            fresh.append(replace(alarm, number=number, undoes=next(iter(undone), 0), closed=closing))
        kept = (replace(old, closed=closed.get(old.number, old.closed)) for old in track.alarms)
        track = replace(track, alarms=(*kept, *fresh)).with_night(night)
        for name, each in work.seen.items():
            path = f"{each.run.path.parent.name}/{each.run.path.name}"
            track = track.with_base(self.line, name, Base(work.tip, path, night.number))
        for name in work.hunted:
            track = track.with_base(self.line, name, Base(work.tip, "", night.number))
        self.runs.folder.save(track.pruned())


_BLOCK = ("block", "blk", "bio", "elevator", "io_uring")
_ENTRY = re.compile(r"\S+ \(([^)]+)\)")
_SUBJECT = re.compile(r"\s+[-*] (?:\[[^\]]*\] *)*([^:]{1,40}):")
_MOST_LINES = 12


def mentions(changelog: str, since: str, words: Collection[str]) -> list[str]:
    """The lines of Debian's changelog after the version ``since`` whose subject is the block layer or one of ``words``.

    Versions of signed packages have a plus sign for the hyphen.
    """
    wanted, lines = {*_BLOCK, *words}, list[str]()
    for line in changelog.splitlines():
        entry, subject = _ENTRY.match(line), _SUBJECT.match(line)
        if entry and entry[1].replace("+", "-") == since.replace("+", "-"):
            break
        named = set(re.split(r"[^a-z0-9]+", subject[1].lower())) | {subject[1].replace("-", "_")} if subject else set()
        if named & wanted:
            lines.append(line.strip(" -*"))
    return lines


@dataclass
class Tracker(Nights):
    """Nights of a ref of ``repository``, with a search of the commits.

    ``reach`` says what scenarios execute of the change between two commits.
    """

    repository: Repository
    reach: Callable[[str, str], ScenarioChoice]

    def _suspects(self, night: Night) -> Sequence[str]:
        known = night.last and self.repository.has(night.last)
        return self.repository.suspects([night.last], night.head) if known else ()

    def _work(self, night: Night) -> Work:
        search, notes, began = RangeSearch(self.repository, self.runs), list(night.notes), monotonic()
        tip, between = night.head, list[tuple[Move, str, str]]()
        if unbuilt := self.runs.builds(night.head):
            tip = self._last_built(night, unbuilt, search)
            notes.append(f"{night.head[:12]} does not build; measured is {tip[:12] or 'nothing'}")
        seen = {name: self.runs.seen(tip, name) for name in night.chosen if tip}
        for name, each in seen.items():
            between += self._moved(name, tip, each, notes)
        hunted = dict(self._hunted(night, tip, began, notes)) if tip else {}
        between += [each for moved in hunted.values() for each in moved]
        alarms, calm = self._alarms(night, search.run(between), tip)
        return Work(tip, seen, alarms, calm, notes, tuple(hunted))

    def _hunted(
        self, night: Night, tip: str, began: float, notes: list[str]
    ) -> Iterator[tuple[str, list[tuple[Move, str, str]]]]:
        """Each kept search whose functions were touched since it was made last, with what changed between which ends.

        Those that the budget leaves out are not among them, so they are due in the next night.
        """
        for name, kept in self.runs.finds.items():
            base = self._bases.get(name)
            last = base.commit if base else night.last
            good = self.repository.merge_base(last, tip) if last and self.repository.has(last) else ""
            if good in ("", tip) or self.reach(good, tip).touched.names.isdisjoint(kept.functions):
                continue
            if monotonic() - began > self.budget:
                notes.append(f"{name} is left out by the budget")
                continue
            try:
                after = self.runs.hunted(tip, name)
                before = self.runs.hunted(good, name) if after else self.runs.searched(good, name)
            except CannotJudge as error:
                notes.append(f"{name} cannot be searched: {error.message}")
                continue
            nothing = f"nothing in {plural(kept.seeds, 'seed')}"
            ends = kept.scenario, Kind.HUNT, name, before or nothing, after or nothing
            trend = Trend.WORSE if after else Trend.BETTER
            yield name, [(Move(*ends, trend), good, tip)] if bool(after) is not bool(before) else []

    def between_releases(self, night: Night, work: Work) -> Work:
        """``work`` of a package, with alarms of commits between the tags of its releases that change the same there.

        The tree is built with one configuration, so what does not move between the tags is not of a commit in it.
        """
        search, notes, between = RangeSearch(self.repository, self.runs), list(work.notes), []
        tip = ""
        for alarm in work.alarms:
            tags = [_tag(version) for version in (alarm.parent, alarm.culprit)]
            try:
                first, tip = ends = [self.repository.resolve(tag) for tag in tags]
                self.repository.demand_line(first, tip)
                own = [differs(move, *(self.runs.seen(end, move.scenario) for end in ends)) for move in alarm.moves]
            except (CannotJudge, Misuse) as error:
                notes.append(f"no commit is searched for between {' and '.join(tags)}: {error.message}")
                continue
            between += [(move, first, tip) for move in own if move]
            same = [move.title for move, seen in zip(alarm.moves, own, strict=True) if not seen]
            if same:
                said = f"{plural(len(same), 'figure')} such as {same[0]}"
                notes.append(f"no change between {' and '.join(tags)} of the tree, both built alike: {said}")
        alarms, calm = self._alarms(night, search.run(between), tip)
        return replace(work, alarms=(*work.alarms, *alarms), calm=(*work.calm, *calm), notes=notes)

    def _planned(self, head: str, before: Night | None, reached: Mapping[str, ScenarioChoice] = {}) -> Night:
        commits = {base.commit for base in self._bases.values()} - {head}
        reached = {commit: self.reach(commit, head) for commit in sorted(commits) if self.repository.has(commit)}
        night = super()._planned(head, before, reached)
        if not night.last:
            return night
        if not self.repository.has(night.last):
            note = f"the tree lacks {night.last[:12]}, the head of the night before: what moved since is not searched"
            return replace(night, notes=(note,))
        if self.repository.contains(head, night.last):
            return night
        gone = self.repository.dropped(night.last, head)
        note = f"{self.line} was rewritten: {plural(len(gone), 'commit')} of the last head disappeared"
        return replace(night, gone=gone, notes=(note,))

    def _last_built(self, night: Night, why: str, search: RangeSearch) -> str:
        """The parent of the commit that broke the build; empty where that is not known."""
        bases = sorted(self._bases.values(), key=lambda base: base.night)
        last = bases[-1].commit if bases and self.repository.has(bases[-1].commit) else ""
        good = self.repository.merge_base(last, night.head) if last else ""
        for each in search.run([(replace(_NOT_BUILT, after=why), good, night.head)] if good else []):
            if each.culprit:
                return self.repository.commit(each.culprit).parents[0]
        return ""

    def _moved(self, name: str, tip: str, seen: Seen, notes: list[str]) -> Iterator[tuple[Move, str, str]]:
        """What moved since the scenario's last record, each with the ends of its search."""
        base = self._bases.get(name)
        if base is None or base.commit == tip:
            return
        if not self.repository.has(base.commit):
            if stored := self.runs.read(base.run):
                yield from ((move, "", tip) for move in moves(stored, seen))
            return
        try:
            good, before = base.commit, self.runs.seen(base.commit, name)
        except CannotJudge as error:
            notes.append(f"{name} cannot be compared with {base.commit[:12]}: {error.message}")
            return
        functions = tuple(self.reach(good, tip).executing.get(name, ()))
        changes = moves(before, seen, functions)
        if changes and not self.repository.contains(tip, good):
            good = self.repository.merge_base(good, tip)
            fork = self.runs.seen(good, name) if good else before
            kept = moves(fork, seen, functions)
            lost = [move for move in changes if move.key not in {other.key for other in kept}]
            if lost:
                many = plural(len(lost), "figure")
                notes.append(f"{many} of {name} moved with what disappeared: {lost[0].name} {lost[0].arrow}")
            changes = kept
        yield from ((move, good, tip) for move in changes)

    def _alarms(self, night: Night, changes: Sequence[Cause], tip: str) -> tuple[list[Alarm], list[str]]:
        """An alarm for each cause that has none yet, and what moved with layout alone."""
        known = {(alarm.culprit, move.key) for alarm in self._track.open for move in alarm.moves}
        causes: dict[tuple[str, tuple[str, ...]], list[Move]] = {}
        for each in changes:
            if not each.culprit or (each.culprit, each.move.key) not in known:
                causes.setdefault((each.culprit, each.left), []).append(each.move)
        alarms, calm = list[Alarm](), list[str]()
        for (culprit, left), of in causes.items():
            alarm = self._alarm(night, of, left=left)
            if culprit:
                made, why = self._of_culprit(alarm, culprit, tip)
                calm += [why] if why else []
            else:
                many = "commits that cannot be measured are between" if left else "no commit of its range is known"
                made = replace(alarm, why=many)
            alarms += [made] if made else []
        return alarms, calm

    def _of_culprit(self, alarm: Alarm, culprit: str, tip: str) -> tuple[Alarm | None, str]:
        """The alarm with its verification; None with why it is no alarm."""
        commit, of = self.repository.commit(culprit), alarm.moves
        reach = self.reach(commit.parents[0], culprit)
        merge = len(commit.parents) > 1
        figures = [move for move in of if move.kind is Kind.FIGURE and not merge]
        spared = [move for move in figures if reach.spares(move.scenario)]
        of = tuple(move for move in of if move not in spared)
        calm = _calm(spared, commit.short, "the scenario executes nothing of what it changes") if spared else ""
        if not of:
            return None, calm
        self.runs.tell(f"{culprit[:12]}: verifying {plural(len(of), 'move')}")
        verdict = verify(self.repository, self.runs, culprit, tip, of)
        if not verdict.moves and not all(move.kind is Kind.BUILD for move in of) and "layout" in verdict.why:
            return None, _calm(of, commit.short, verdict.why)
        confirmed = {move.key for move in verdict.moves}
        of = tuple(sorted(of, key=lambda move: move.key not in confirmed))
        names = [name for move in of for name in reach.executing.get(move.scenario, ())]
        alarm = replace(
            alarm,
            trend=trend_of(verdict.moves or of),
            moves=of,
            culprit=culprit,
            **{what: getattr(commit, what) for what in ("subject", "author", "date")},
            parent=commit.parents[0],
            checks=verdict.checks,
            functions=tuple(dict.fromkeys(names)),
            verified=not verdict.why,
            why=verdict.why,
            notes=tuple(warnings_of(commit)),
        )
        counted = next((move for move in of if costs(move)), None)
        profile = self.runs.functions_between(commit.parents[0], culprit, counted) if counted else None
        if profile is None:
            return alarm, calm
        functions, lines = profile
        if not functions and all(map(costs, verdict.moves)):
            return None, _calm(of, commit.short, "the count of no function differs by more than layout moves")
        return replace(alarm, functions=(*dict.fromkeys((*functions, *alarm.functions)),), profile=tuple(lines)), calm


@dataclass
class Packages(Nights):
    """Nights of the versions of a package, with its ``changelog``; ``stable`` names the commits between them."""

    changelog: str
    stable: Tracker | None = None

    def _work(self, night: Night) -> Work:
        """What moved since the last record of each scenario is an alarm of the two versions."""
        seen = {name: self.runs.seen(night.head, name) for name in night.chosen}
        moved, notes = dict[str, list[Move]](), list(night.notes)
        for name, each in seen.items():
            base = self._bases.get(name)
            if base is None or base.commit == night.head:
                continue
            if (before := self.runs.read(base.run)) is None:
                notes.append(f"{name}: the run of {short(base.commit)} is gone, so it is compared with nothing")
                continue
            moved.setdefault(base.commit, []).extend(moves(before, each))
        known = {"culprit": night.head, "checks": {"parent": "good", "culprit": "bad"}, "verified": True}
        alarms = [
            self._alarm(night, of, parent=parent, notes=self._notes(parent, of), **known)
            for parent, of in moved.items()
            if of
        ]
        work = Work(night.head, seen, alarms, notes=notes)
        return self.stable.between_releases(night, work) if self.stable else work

    def _notes(self, parent: str, of: Iterable[Move]) -> tuple[str, ...]:
        """What else is known of what changed since ``parent``."""
        scenarios = [self.runs.scenarios[move.scenario] for move in of]
        words = {name for each in scenarios for arm in each.arms.values() for name in modules_of(arm)}
        lines = mentions(self.changelog, short(parent), words)
        mentioned = (f"changelog: {line}" for line in lines[:_MOST_LINES])
        return ("packages differ in configuration and compiler too", *mentioned)


def _tag(version: str) -> str:
    """That of the upstream release: v6.12.117 of linux-image-6.12.117+deb13-amd64 6.12.117-1."""
    release = re.match(r"[0-9]+(?:\.[0-9]+)+", short(version))
    return f"v{release[0].removesuffix('.0') if release else version}"


def _undoes(alarm: Alarm, old: Alarm) -> bool:
    """Whether the commit moves the leading figure of an earlier alarm back by as much as the culprit had moved it."""
    first = old.moves[0]
    back = next((move for move in alarm.moves if move.key == first.key and move.scenario), None)
    if back is None or not (alarm.culprit and old.culprit and old.line == alarm.line):
        return False
    if first.share is None or back.share is None:
        return back.trend is Trend.BETTER
    return abs((1 + first.share) * (1 + back.share) - 1) <= max(first.threshold, back.threshold)


def _calm(of: Iterable[Move], commit: str, why: str) -> str:
    first, *rest = of
    more = f" and {plural(len(rest), 'more figure')}" if rest else ""
    return f"{first.title} {first.arrow}{more} since {commit}: {why}"
