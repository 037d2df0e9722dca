# SPDX-License-Identifier: GPL-2.0-only
"""Windows as text of one screen, two windows side by side, and a page with the bytes of each line by CPU.

Every column adds up to its total. At how many CPUs a line or a lock saturates is a model, not a measurement.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from harness.figures.lines import CacheLine
from harness.report.charts import Tile, tiles
from harness.report.html import render
from harness.scenario.registry import COUNTED
from harness.sharing.window import HEAP, LINES, UNKNOWN, LineGroup, Place, Use, Window

TRANSFERS = (40, 200)
"""Nanoseconds of a transfer between CPUs: within a socket, and what published pairs imply between two."""
MODEL = (
    f"A model of more CPUs: an instruction takes 1 ns, the transfer of a line {TRANSFERS[0]} to {TRANSFERS[1]} ns,"
    " one at a time"
)
_COUNTS = (1, 2, 4, 8, 16, 32, 64, 128)


@dataclass(frozen=True)
class Scaling:
    """For transfers of ``transfer`` ns: the ``busiest`` station with its ``demand`` in ns for each I/O.

    Each line and each lock is a station that serves one CPU at a time. A line is busy for the time of a transfer, a
    lock for as long as it is held and for the transfer of its line. The rest of an I/O's instructions is think time,
    1 ns each. What each CPU has of its own (per-CPU) is no station, because more CPUs have more of it.
    Bounds of a closed queueing network (Denning and Buzen 1978): throughput is at most N / (think time + all demands)
    and at most 1 / the largest demand.
    """

    transfer: int
    busiest: str
    demand: float
    alone: float
    demands: float

    @property
    def saturates(self) -> float:
        """The number of CPUs at which it does."""
        return (self.alone + self.demands) / self.demand

    def speed_up(self, cpus: int) -> float:
        """Throughput at most, as a multiple of one CPU's, to which no line moves."""
        return 1.0 if cpus == 1 else min(cpus * self.alone / (self.alone + self.demands), self.alone / self.demand)


def scaling_of(window: Window, transfer: int) -> Scaling | None:
    """None where nothing is shared."""
    stations = [
        (line_moves * transfer, str(group.place))
        for group in window.groups
        if not group.place.per_cpu and (line_moves := group.saturated / len(group.lines))
    ]
    stations += [
        (lock.held + lock.taken * transfer, f"lock {lock.place}") for lock in window.locks if not lock.place.per_cpu
    ]
    if not stations:
        return None
    demand, busiest = max(stations)
    demands = sum(group.saturated * transfer for group in window.groups)
    return Scaling(transfer, busiest, demand, window.figures["instructions"], demands)


def _models(window: Window) -> list[Scaling]:
    return [model for transfer in TRANSFERS if (model := scaling_of(window, transfer))]


def scaling_sentence(window: Window) -> str:
    """The CPUs at which something saturates, what that is, and what as many CPUs as the guest has reach at most."""
    if not (models := _models(window)):
        return "no line and no lock is shared"
    fast, slow = models
    names = " or ".join(dict.fromkeys(model.busiest for model in (slow, fast)))
    reach = " to ".join(f"{model.speed_up(window.head.cpus):.1f}" for model in (slow, fast))
    return (
        f"saturated by {slow.saturates:.0f} to {fast.saturates:.0f} CPUs: {names};"
        f" {window.head.cpus} CPUs reach at most {reach} times the throughput of one"
    )


def scaling_lines(window: Window) -> Iterator[str]:
    if not (models := _models(window)):
        return
    yield f"{MODEL}."
    yield f"{'CPUs':>9}  " + "".join(f"{count:>7}" for count in _COUNTS)
    for model in models:
        yield f"{model.transfer:>6} ns  " + "".join(f"{model.speed_up(count):>7.1f}" for count in _COUNTS)
    for model in models:
        yield f"at {model.transfer} ns saturated by {model.saturates:.0f} CPUs: {model.busiest}"[:112]


LOCKS = 4
_USES, _WIDTH, _INDENT = 4, 112, 29
_SOURCES, _FIELDS = 4, 3
_SMALL = 0.01
"""Share of a group's transfers from which on a function is listed."""
_PLATEAU = 0.03
"""Share by which counts may differ between lengths of turns, if they do not depend on it."""
NOT_SEEN = "Not visible: waiting, the capacity of caches, the TLB, the interconnect, rdtsc."


def window_lines(
    window: Window,
    most: int = LINES,
    turns: Mapping[int, Mapping[str, float]] | None = None,
) -> list[str]:
    """``turns`` are the figures of the same cell with turns of other lengths."""
    figures = window.figures
    remote = f", {figures['lines.remote']:.2f} from another NUMA node" if "lines.remote" in figures else ""
    shown, rest = window.groups[:most], window.groups[most:]
    lines = [
        *_head([window]),
        f"{figures['lines.footprint']:.2f} transfers of lines per I/O by footprint{remote}, "
        f"{figures['lines.seen']:.2f} seen; {figures['lines.written']:.0f} lines, {window.ios:,.0f} I/Os",
        f"{figures['atomics']:.1f} atomics, {figures['locks']:.1f} locks held for {figures['locks.held']:,.0f} of "
        f"{figures['instructions']:,.0f} instructions per I/O",
        "",
        f"{'footprint':>9}  {'seen r + w':>15}  line, and what moves it",
    ]
    for group in shown:
        seen = f"{group.seen_reads:.3f} + {group.seen_writes:.3f}"
        lines += [f"{group.footprint:>9.3f}  {seen:>15}  {_title(group)}"[:_WIDTH], *_uses(group.uses)]
        lines += [f"{'':>{_INDENT}}{text}"[:_WIDTH] for text in _sources(group)]
    lines.append(f"{sum(group.footprint for group in rest):>9.3f}  {_seen(rest):>15}  {len(rest)} others")
    lines += _locks(window)
    lines += ["", *_turn_lines(window, turns or {})]
    return [*lines, "", *scaling_lines(window), "", NOT_SEEN]


def _turn_lines(window: Window, turns: Mapping[int, Mapping[str, float]]) -> Iterator[str]:
    """By how much each count differs with turns of other lengths, and whether it depends on them."""
    if not turns:
        yield "Whether the counts depend on the length of a turn: not measured (arms that set machine.turn alone)."
        return
    ordered = sorted(turns.items())
    yield "".join(f"{turn:>9,}  " for turn, _ in ordered) + f"turns, relative to those of {window.head.turn:,}"
    for name in COUNTED:
        if own := window.figures.get(name):
            shares = [figures[name] / own - 1 for _, figures in ordered]
            steady = max(map(abs, shares)) < _PLATEAU
            percent = f"{100 * _PLATEAU:g} %"
            says = f"within {percent}" if steady else f"differs by {percent} or more: it depends on the turn"
            yield "".join(f"{100 * share:>+7.1f} %  " for share in shares) + f"{name} {says}"


def differences(before: Window, after: Window) -> list[tuple[Place, float, float]]:
    """All places with their transfers by footprint on both sides, those first that differ most."""
    sides = [{group.place: group.footprint for group in window.groups} for window in (before, after)]
    rows = [(place, sides[0].get(place, 0.0), sides[1].get(place, 0.0)) for place in {**sides[0], **sides[1]}]
    return sorted(rows, key=lambda row: (-abs(row[2] - row[1]), row[0].name, row[0].movers))


def differential_lines(before: Window, after: Window, most: int = LINES) -> list[str]:
    """The places whose transfers differ most, by footprint."""
    sides = [{group.place: group for group in window.groups} for window in (before, after)]
    totals = [sum(group.footprint for group in window.groups) for window in (before, after)]
    rows = differences(before, after)
    lines = [*_head([before, after]), "", f"{'before':>9}  {'after':>9}  {'delta':>9}"]
    names = ("lines.footprint", "lines.remote", "lines.seen", "atomics", "locks", "locks.held", "instructions")
    for name in (name for name in names if name in before.figures and name in after.figures):
        was, now = (window.figures[name] for window in (before, after))
        lines.append(f"{was:>9,.2f}  {now:>9,.2f}  {now - was:>+9,.2f}  {name}")
    lines += ["", f"{'before':>9}  {'after':>9}  {'delta':>9}  line, by footprint"]
    for place, was, now in rows[:most]:
        fields = next(filter(None, (_fields(side[place]) for side in reversed(sides) if place in side)), "")
        note = " (new)" if place not in sides[0] else " (gone)" if place not in sides[1] else ""
        lines.append(f"{was:>9.3f}  {now:>9.3f}  {now - was:>+9.3f}  {place}{fields}{note}"[:_WIDTH])
    was, now = sum(row[1] for row in rows[most:]), sum(row[2] for row in rows[most:])
    lines.append(f"{was:>9.3f}  {now:>9.3f}  {now - was:>+9.3f}  {len(rows[most:])} others")
    unexplained = totals[1] - totals[0] - sum(row[2] - row[1] for row in rows)
    return [*lines, f"{'':>9}  {'':>9}  {abs(unexplained):>9.3f}  unexplained", "", NOT_SEEN]


def _head(windows: Sequence[Window]) -> Iterator[str]:
    head = windows[0].head
    cells, releases = (
        " -> ".join(dict.fromkeys(words))
        for words in ((window.head.cell for window in windows), (window.head.release for window in windows))
    )
    yield f"{head.scenario} {cells}, seed {head.seed}, {releases}: {head.cpus} CPUs, turns of {head.turn:,}"


def _title(group: LineGroup) -> str:
    count = f", {len(group.lines)} lines" if len(group.lines) > 1 else ""
    kind = "" if group.overlap else ", false sharing: CPUs use different bytes"
    remote = f", {group.remote:.3f} remote" if group.remote else ""
    return f"{group.place.name}{_fields(group)}{count}, {len(group.cpus)} CPUs{remote}{kind}"


def _fields(group: LineGroup) -> str:
    """What its instructions use, where that was looked for."""
    looked = any(use.field for use in group.uses)
    fields = [field for field in group.fields if field != group.place.name]
    shown = fields[:_FIELDS] or [UNKNOWN] * (looked and group.place.name == HEAP)
    return f": {' + '.join(shown)}" if shown else ""


def _uses(uses: Sequence[Use]) -> Iterator[str]:
    """The functions that move a line most, with the transfers seen, as lines of text."""
    moves: dict[str, list[float]] = {}
    for use in uses:
        own = moves.setdefault(use.function, [0.0, 0.0, 0.0])
        for column, value in enumerate((use.moves, use.reads, use.writes)):
            own[column] += value
    ranked = sorted(moves.items(), key=lambda item: (-item[1][0], -item[1][2], item[0]))[:_USES]
    least = _SMALL * sum(use.moves for use in uses)
    words = [f"{name} {moved:.3f} {_way(reads, writes)}" for name, (moved, reads, writes) in ranked if moved >= least]
    while len(text := f"{'':>{_INDENT}}{', '.join(words)}") > _WIDTH and len(words) > 1:
        words.pop()
    yield text[:_WIDTH]


def _sources(group: LineGroup) -> list[str]:
    """The lines of source that move it most, each once."""
    return [text for text in dict.fromkeys(use.source for use in group.uses[:_SOURCES]) if text]


def _way(reads: float, writes: float) -> str:
    return "rw" if reads and writes else "w" if writes else "r"


def _seen(groups: Iterable[LineGroup]) -> str:
    both = [(group.seen_reads, group.seen_writes) for group in groups]
    return f"{sum(reads for reads, _ in both):.3f} + {sum(writes for _, writes in both):.3f}"


def _locks(window: Window) -> Iterator[str]:
    if not window.locks:
        return
    yield ""
    yield f"{'held':>9}  {'taken':>15}  lock that several CPUs take; instructions and acquisitions per I/O"
    for lock in window.locks[:LOCKS]:
        yield f"{lock.held:>9.1f}  {lock.taken:>15.3f}  {lock.place}, longest {lock.longest:,}"[:_WIDTH]
    rest = window.locks[LOCKS:]
    yield f"{sum(lock.held for lock in rest):>9.1f}  {sum(lock.taken for lock in rest):>15.3f}  {len(rest)} others"


_BYTE, _ROW, _LEFT, _BYTES = 10, 14, 60, 64
_LEAST = 0.01
"""Transfers per I/O below which a line is not drawn."""
_LEGEND = "The 64 bytes of a line: red were written by the CPU, blue were only read."


def sharing_page(windows: Sequence[Window]) -> str:
    """One window, or two and what differs; then the bytes of the lines that move most."""
    lines = window_lines(windows[0]) if len(windows) == 1 else differential_lines(windows[0], windows[1])
    drawings = [drawing for window in windows for drawing in _drawings(window)]
    title = f"Cache lines: {lines[0]}"
    return render("text.html", title=title, caution="", lines=lines, legend=_LEGEND, drawings=drawings, rows=())


def _drawings(window: Window) -> Iterator[tuple[str, Markup]]:
    """A heading and the line that moves most, of each group."""
    for group in window.groups[:LINES]:
        if group.footprint >= _LEAST:
            place = ", ".join([str(group.place), *group.fields])
            heading = f"{window.head.release} {window.head.cell}: {group.footprint:.3f} per I/O, {place}"
            yield heading, _bytes(group.lines[0])


def _bytes(line: CacheLine) -> Markup:
    """A row for each CPU and a tile for each byte."""
    rows = [(_ROW * row, cpu, use) for row, (cpu, use) in enumerate(sorted(line.users.items()))]
    bytes_ = []
    for top, _, use in rows:
        for byte in range(_BYTES):
            kind = "write" if use.bytes_written >> byte & 1 else "read" if use.bytes_read >> byte & 1 else "idle"
            bytes_.append(Tile(_LEFT + byte * _BYTE, top, _BYTE - 1, _ROW - 2, f"byte {byte}: {kind}", kind))
    labels = [(top + _ROW - 3, f"CPU {cpu}") for top, cpu, _ in rows]
    return tiles("bytes", f"{line.address:x}", (_LEFT + _BYTES * _BYTE, _ROW * len(rows)), bytes_, labels)
