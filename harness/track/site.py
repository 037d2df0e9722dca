# SPDX-License-Identifier: GPL-2.0-only
"""What people read: text for the terminal, a static folder for any web server, and mails as files. Nothing is sent."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from harness.base.checkout import HUNTS
from harness.base.files import write_atomic, write_json
from harness.base.plain import to_plain
from harness.bisect.repository import is_commit
from harness.grid.lines import Kind, Trend
from harness.record.judging import judge_run
from harness.record.store import load_run, read_verdict
from harness.report.charts import MOST_LINES, multiples
from harness.report.claims import JudgedRun
from harness.report.exports import ISSUE_VERSION, ORIGIN, kcidb_json
from harness.report.format import duration, plural
from harness.report.html import Values, render
from harness.scenario.registry import IOPS, PER_IO
from harness.track.state import Alarm, Folder, Night, Track, short

SITE, OUTBOX = "site", "outbox"
_COMMITS = 60
"""As many of the last measured ones are drawn."""
_SHOWN = (IOPS, PER_IO)
_FIGURES = 6


@dataclass(frozen=True)
class Site:
    """Writes the pages of a tracker ``folder`` whose runs are below ``root``. ``tree`` has the commits that are named.

    ``order`` has the commits or versions, oldest first.
    """

    folder: Folder
    root: Path
    tree: str
    order: Sequence[str]

    def write(self, night: Night) -> Path:
        """All pages after a ``night``; the first one. Raises LabBroken."""
        track, site = self.folder.track, self.folder.path / SITE
        site.mkdir(exist_ok=True)
        (self.folder.path / OUTBOX).mkdir(exist_ok=True)
        fresh = track.of_night(night)
        for alarm in track.alarms:
            text = mail(alarm, self.tree)
            page = render("alarm.html", alarm=alarm, row=_row(alarm), mail=text, commands=[*commands(alarm, self.tree)])
            write_atomic(site / _page(alarm), page.encode())
            if alarm in fresh and alarm.culprit and not alarm.closed and alarm.trend is not Trend.BETTER:
                write_atomic(self.folder.path / OUTBOX / f"{alarm.number:04}-{alarm.culprit[:12]}.txt", text.encode())
        others = [alarm for alarm in track.open if alarm not in fresh]
        page = render(
            "track.html",
            night=night,
            last=short(night.last),
            facts=dict(_facts(night)),
            fresh=[_row(alarm) for alarm in fresh],
            open=[_row(alarm) for alarm in others],
            parts=[*self._multiples()],
            nights=[_night(track, each) for each in reversed(track.nights)],
            accepted=track.accepted,
        )
        write_atomic(site / "index.html", page.encode())
        write_atomic(site / "feed.xml", feed(track))
        write_json(site / "track.json", {"night": to_plain(night), "alarms": to_plain(track.alarms)})
        write_json(site / "kcidb.json", self._kcidb(night, fresh))
        return site / "index.html"

    def _multiples(self) -> Iterator[Values]:
        """For each scenario its rates and costs on the measured commits, relative to the first."""
        track = self.folder.track
        commits = [sha for sha in self.order if sha in track.records]
        every = {name for sha in commits for name in track.records[sha]}
        names = sorted(name for name in every if not name.startswith(f"{HUNTS.name}/"))
        for name in names:
            own = [sha for sha in commits if name in track.records[sha]][-_COMMITS:]
            figures = [_figures(self.root / track.records[sha][name].run) for sha in own]
            lines = _lines(figures)
            if not lines:
                continue
            last = next((night.status[name] for night in reversed(track.nights) if name in night.status), "")
            marks = {each.culprit: f"{each.trend}: {each.name}" for each in track.alarms if name in each.scenarios}
            told = {place: marks[sha] for place, sha in enumerate(own) if sha in marks}
            drawn = multiples(name, [short(sha) for sha in own], lines, told)
            yield {"name": name, "status": last, "commits": plural(len(own), "commit"), "lines": [*lines], "svg": drawn}

    def _kcidb(self, night: Night, alarms: Sequence[Alarm]) -> Mapping[str, Any]:
        """The runs of the night's head in one document, and an issue for each alarm."""
        document: dict[str, Any] = {"issues": [], "incidents": []}
        for name, base in self.folder.track.bases.get(night.line, {}).items():
            if base.night == night.number and name in night.status:
                run = load_run(self.root / base.run)
                for key, rows in json.loads(kcidb_json(JudgedRun.of(run, judge_run(run)))).items():
                    kept = {row["id"]: row for row in (*document.get(key, ()), *rows)} if key != "version" else rows
                    document[key] = [*kept.values()] if key != "version" else rows
        for alarm in alarms if document.get("builds") else ():
            same = {"origin": ORIGIN, "version": ISSUE_VERSION}
            issue = {"id": f"{ORIGIN}:track:{night.line}:{alarm.culprit or alarm.number}", **same}
            row = {**issue, "report_subject": alarm.name, "comment": "; ".join(map(str.strip, alarm_lines(alarm)))}
            document["issues"].append({**row, "culprit": {"code": True, "tool": False, "harness": False}})
            incident = {"id": f"{issue['id']}:{night.number}", "origin": ORIGIN, "issue_id": issue["id"]}
            build = document["builds"][0]["id"]
            present = alarm.trend is not Trend.BETTER
            document["incidents"].append(
                {**incident, "issue_version": ISSUE_VERSION, "build_id": build, "present": present}
            )
        return {key: rows for key, rows in document.items() if rows}


def _page(alarm: Alarm) -> str:
    return f"alarm-{alarm.number}.html"


def _row(alarm: Alarm) -> Values:
    return {"alarm": alarm, "page": _page(alarm), "first": alarm.moves[0], "rest": len(alarm.moves) - 1}


def _facts(night: Night) -> Iterator[tuple[str, str]]:
    many = f", {plural(night.commits, 'commit')}" if night.commits else ""
    yield "branch", night.line
    yield "commits", f"{short(night.last) or 'none'} to {short(night.head)}" + many
    yield "took", f"{duration(night.seconds)}, {plural(night.builds, 'build')}, {plural(night.boots, 'boot')}"
    yield "measured", ", ".join(f"{name} ({why})" for name, why in night.chosen.items()) or "nothing"
    for what, said in (("left out by the budget", night.left), ("notes", night.notes), ("no alarm", night.calm)):
        if said:
            yield what, "; ".join(said)


def _night(track: Track, night: Night) -> Values:
    alarms = track.of_night(night)
    words = {trend: sum(alarm.trend == trend for alarm in alarms) for trend in Trend}
    told = ", ".join(f"{count} {trend}" for trend, count in words.items() if count)
    took = duration(night.seconds) if night.ended else "not ended"
    return {"night": night, "head": short(night.head), "told": told or "nothing changed", "took": took}


def _figures(run: Path) -> Mapping[str, float]:
    """The first seed's rates and costs, by ARM.LOAD.ROLE.METRIC."""
    cells = (read_verdict(run) or {"cells": []})["cells"]
    first = min((cell["seed"] for cell in cells), default=0)
    named = (
        (f"{cell['arm']}.{name}", value)
        for cell in cells
        if cell["seed"] == first
        for name, value in cell["figures"].items()
    )
    return {name: value for name, value in named if name.endswith(tuple(f".{metric}" for metric in _SHOWN))}


def _lines(figures: Sequence[Mapping[str, float]]) -> Mapping[str, Sequence[float | None]]:
    """The figures that move most over the commits, each relative to its first value."""
    names = dict.fromkeys(name for each in figures for name in each)
    lines: dict[str, list[float | None]] = {}
    for name in names:
        first = next((each[name] for each in figures if each.get(name)), 0.0)
        if first:
            lines[name] = [each[name] / first if name in each else None for each in figures]
    moved = {name: max(abs(value - 1) for value in values if value is not None) for name, values in lines.items()}
    most = sorted(lines, key=lambda name: -moved[name])[:MOST_LINES]
    return {name: lines[name] for name in lines if name in most}


def feed(track: Track) -> bytes:
    """Atom: an entry for each alarm, the newest first."""
    ended = {night.number: night.ended or night.began for night in track.nights}
    root = ET.Element("feed", xmlns="http://www.w3.org/2005/Atom")
    for name, text in (("title", "blklab: what changed"), ("id", "urn:blklab:track")):
        ET.SubElement(root, name).text = text
    ET.SubElement(root, "updated").text = max(ended.values(), default="")
    ET.SubElement(ET.SubElement(root, "author"), "name").text = "blklab"
    for alarm in reversed(track.alarms):
        entry = ET.SubElement(root, "entry")
        ET.SubElement(entry, "title").text = f"{alarm.trend}: {alarm.moves[0].title}, {alarm.name}"
        ET.SubElement(entry, "id").text = f"urn:blklab:track:alarm:{alarm.number}"
        ET.SubElement(entry, "updated").text = ended.get(alarm.night, "")
        ET.SubElement(entry, "link", href=_page(alarm))
        ET.SubElement(entry, "summary").text = "\n".join(alarm_lines(alarm))
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True))


def night_lines(track: Track, night: Night) -> Iterator[str]:
    """What changed, then what was measured, and what was not."""
    alarms = track.of_night(night)
    words = ", ".join(
        f"{sum(alarm.trend == trend for alarm in alarms)} {trend}" for trend in {a.trend: 0 for a in alarms}
    )
    since = f" since {short(night.last)}" if night.last else ""
    yield f"night {night.number}, {night.line} at {short(night.head)}: {words or f'nothing changed{since}'}"
    took = f"{plural(night.builds, 'build')}, {plural(night.boots, 'boot')}, {duration(night.seconds)}"
    yield f"  {plural(night.commits, 'commit')}, {plural(len(night.status), 'scenario')} measured, {took}"
    if night.left:
        yield f"  left out by the budget: {', '.join(night.left)}"
    yield from (f"  {note}" for note in night.notes)
    yield from (f"  commit {sha[:12]} disappeared" for sha in night.gone)
    yield from (f"  no alarm: {line}" for line in night.calm)


def alarm_lines(alarm: Alarm) -> Iterator[str]:
    yield f"{alarm.trend.upper()}  {alarm.name}"
    if alarm.undoes:
        yield f"  it undoes what alarm {alarm.undoes} reported"
    yield from (f"  {move.title}: {move.arrow}" for move in alarm.moves[:_FIGURES])
    if rest := len(alarm.moves) - _FIGURES:
        yield from [f"  and {plural(rest, 'more figure')}"] if rest > 0 else []
    if alarm.functions:
        yield f"  functions: {', '.join(alarm.functions[:_FIGURES])}"
    yield f"  {alarm.confidence}"
    yield from (f"  caution: {note}" for note in alarm.notes)
    yield from (f"  {sha[:12]}" for sha in alarm.left)


def commands(alarm: Alarm, tree: str) -> Iterator[str]:
    """What repeats the leading move on both sides, commits of ``tree`` or packages."""
    first = alarm.moves[0]
    words = f"hunt --kept {Path(first.name).stem}" if first.kind is Kind.HUNT else f"run {first.scenario}"
    if first.scenario:
        for commit in filter(None, (alarm.parent, alarm.culprit)):
            provider = f"tree:{tree}@" if is_commit(commit) else f"{alarm.line.partition(':')[0]}:"
            yield f"blklab {words} --kernel {provider}{short(commit)}"


def mail(alarm: Alarm, tree: str) -> str:
    """A mail with the line for regzbot; of an improvement without that line."""
    worse = alarm.trend is Trend.WORSE
    tag = "REGRESSION" if worse else "CHANGE"
    first = alarm.moves[0]
    scenario = first.scenario or first.name
    lines = [
        f"Subject: [{tag}] {scenario}: {alarm.name}",
        f"To: {alarm.author}" if alarm.author else "To: undisclosed",
        "Cc: linux-block@vger.kernel.org" + (", regressions@lists.linux.dev" if worse else ""),
        "",
        f"{alarm.name} makes {'this' if len(alarm.moves) == 1 else 'these'} {alarm.trend}:"
        if alarm.culprit
        else f"Since {alarm.name} this is {alarm.trend}:",
        "",
        *(f"  {move.title}\n    {move.before} before, {move.after} since" for move in alarm.moves[:_FIGURES]),
        "",
        f"{alarm.confidence[0].upper()}{alarm.confidence[1:]}.",
        *(f"Caution: {note}." for note in alarm.notes),
    ]
    if first.kind is not Kind.BUILD:
        what = "The search has the same seeds" if first.kind is Kind.HUNT else "Every figure is measured"
        lines += [f"{what} in virtual time and repeats to the last digit:", ""]
        lines += [f"    {command}" for command in commands(alarm, tree)]
    if alarm.functions:
        lines += [
            "",
            f"Functions: {', '.join(alarm.functions[:_FIGURES])}",
            *(f"    {line}".rstrip() for line in alarm.profile),
        ]
    lines += ["", f"#regzbot introduced: {alarm.culprit}"] if worse and is_commit(alarm.culprit) else []
    return "\n".join(lines) + "\n"
