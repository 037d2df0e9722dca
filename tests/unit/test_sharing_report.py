# SPDX-License-Identifier: GPL-2.0-only
"""Lines and locks by name, in text, page and the model of more CPUs, from a window that is written down here."""

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

from harness.cli import main
from harness.figures.lines import read_sharing
from harness.limits.entries import load_scenario
from harness.sharing.report import differential_lines, scaling_of, scaling_sentence, sharing_page, window_lines
from harness.sharing.window import HEAP, LineGroup, Place, Use, Window, WindowHead, other_turns, window_of, with_sources
from lab.base.errors import CannotJudge
from lab.kernels.objects import SourceLine, Wanted
from lab.symbols import Symbols, read_kallsyms

BASE = 0xFFFF88801EA00000
KALLSYMS = """\
0000000000000000 A __per_cpu_start
0000000000023000 A runqueues
0000000000030000 A __per_cpu_end
ffffffff81000000 T submit_one
ffffffff81000100 T complete_one.isra.0
ffffffff81000200 t reader
ffffffff82a00000 D counter
ffffffff82a00080 D other
"""
# 100 I/Os on two CPUs. Both write the line of the counter in each, CPU 0 writes a line of the heap of which CPU 1 reads
# other bytes, and CPU 0 writes its run queue, which CPU 1 reads ten times.
WINDOW = f"""\
turns 400
cpu 0 {BASE:x} 50000 1000 50 50 100 60 500
cpu 1 {BASE + 0x40000:x} 50000 1000 50 50 100 40 500
lock ffffffff82a00080 3 100 2 5000 90
lock {BASE + 0x23000:x} 1 60 0 400 20
line 2a00000 ffffffff82a00000
user 0 0 50 0 50 0 ff
user 1 0 50 0 50 0 ff
by ffffffff81000010 0 0 50 0 50 ff
by ffffffff81000110 1 0 50 0 50 ff
line 5000 ffff888000005000
user 0 0 50 0 25 0 f
user 1 50 0 25 0 f0 0
by ffffffff81000020 0 0 50 0 25 f
by ffffffff81000210 1 50 0 25 0 f0
line 1ea23000 {BASE + 0x23000:x}
user 0 0 50 0 10 0 1
user 1 10 0 10 0 1 0
by ffffffff81000030 0 0 50 0 10 1
by ffffffff81000220 1 10 0 10 0 1
"""
FIGURES = {
    "lines.footprint": 1.0,
    "lines.seen": 1.7,
    "lines.written": 3.0,
    "atomics": 2.0,
    "locks": 1.6,
    "locks.held": 54.0,
    "instructions": 1000.0,
}
HEAD = WindowHead("pair", "a.two", 1, "6.1.0", 2, 1000)


def symbols(text: str = KALLSYMS) -> Symbols:
    return read_kallsyms(text)


def window(text: str = WINDOW, **figures: float) -> Window:
    return window_of(read_sharing(text.encode(), "two.lines"), symbols(), HEAD, {**FIGURES, **figures})


def group(name: str, own: Window | None = None) -> LineGroup:
    return next(group for group in (own or window()).groups if group.place.name == name)


def test_a_line_has_the_name_of_its_symbol_of_its_cpu_or_of_the_functions_that_move_it() -> None:
    assert [own.place for own in window().groups] == [
        Place("counter"),
        Place(HEAP, ("reader", "submit_one")),
        Place("per-CPU runqueues of CPU 0"),
    ]


def test_the_key_of_a_lock_class_without_a_size_names_no_line() -> None:
    """Its address is that of the variable behind it, and its name may be the shorter one."""
    rows = ["ffffffff82a00000 D __key.1", "ffffffff82a00000 D counter_of_all"]
    for both in (rows, rows[::-1]):
        text = KALLSYMS.replace("ffffffff82a00000 D counter", "\n".join(both))
        own = window_of(read_sharing(WINDOW.encode(), "two.lines"), symbols(text), HEAD, FIGURES)
        assert own.groups[0].place == Place("counter_of_all")


@pytest.mark.parametrize("moves", [49, 50, 51])
def test_a_line_of_two_symbols_has_one_name_whichever_moves_it_more(moves: int) -> None:
    """A pair of runs compares lines by their names."""
    names = KALLSYMS.replace("ffffffff82a00080", "ffffffff82a00020 D beside\nffffffff82a00080")
    counts = WINDOW.replace("110 1 0 50 0 50 ff", f"110 1 0 50 0 {moves} ff00000000")
    own = window_of(read_sharing(counts.encode(), "two.lines"), symbols(names), HEAD, FIGURES)
    assert "beside + counter" in [group.place.name for group in own.groups]


def test_counts_are_for_each_io() -> None:
    # A line that two CPUs write equally moves in half of the writes, 50 * 50 / 100 for each.
    assert group("counter").footprint == pytest.approx(0.5)
    assert (group("counter").seen_reads, group("counter").seen_writes) == (0.0, 1.0)
    assert group(HEAP).footprint == pytest.approx(0.5)
    assert (group(HEAP).seen_reads, group(HEAP).seen_writes) == (0.25, 0.25)


def test_the_compilers_suffix_is_not_a_part_of_a_functions_name() -> None:
    assert [use.function for use in group("counter").uses] == ["submit_one", "complete_one"]
    assert group("counter").uses[1] == Use("vmlinux", "complete_one.isra.0", 0x10, 0.0, 0.5, 0.5)


def test_cpus_that_use_different_bytes_share_falsely() -> None:
    assert (group("counter").overlap, group(HEAP).overlap) == (True, False)
    same_bytes = WINDOW.replace("user 1 50 0 25 0 f0 0", "user 1 50 0 25 0 f8 0")
    assert group(HEAP, window(same_bytes)).overlap


def test_only_locks_that_several_cpus_take_are_listed() -> None:
    (lock,) = window().locks
    assert (str(lock.place), lock.taken, lock.held, lock.longest, lock.contended) == ("other", 1.0, 50.0, 90, 0.02)


def numbers(lines: list[str], column: int) -> list[float]:
    """The numbers of a column of the table below "footprint" or "before"."""
    start = next(at for at, line in enumerate(lines) if line.endswith(("what moves it", "by footprint")))
    rows = [line for line in lines[start + 1 :] if re.match(r" +-?\d", line) and len(line.split()) > column]
    return [float(row.split()[column]) for row in rows if not row.endswith("unexplained")]


@pytest.mark.parametrize("most", [1, 2, 12])
def test_a_window_as_text_adds_up_and_fits_a_screen(most: int) -> None:
    own = window()
    lines = window_lines(own, most)
    end = next(at for at, line in enumerate(lines) if line.endswith("others"))
    assert sum(numbers(lines[: end + 1], 0)) == pytest.approx(sum(group.footprint for group in own.groups), abs=0.002)
    assert max(map(len, lines)) <= 112
    assert any("counter, 2 CPUs" in line for line in lines)


def test_transfers_from_another_node_are_shown_where_there_are_nodes() -> None:
    alone, figures = window(), {**FIGURES, "lines.remote": 0.9}
    counts = read_sharing(WINDOW.encode(), "two.lines")
    own = window_of(counts, symbols(), replace(HEAD, of_node=1), figures)
    # A node for each CPU: every transfer is from another node.
    assert [group.remote for group in own.groups] == [group.footprint for group in own.groups]
    assert {group.remote for group in alone.groups} == {None}
    text = "\n".join(window_lines(own, turns={300: figures}))
    assert "1.00 transfers of lines per I/O by footprint, 0.90 from another NUMA node, 1.70 seen; 3 lines" in text
    assert "counter, 2 CPUs, 0.500 remote" in text
    assert max(map(len, text.splitlines())) <= 112
    assert "  lines.remote" in "\n".join(differential_lines(own, own))
    for lines in (window_lines(alone, turns={300: FIGURES}), differential_lines(own, alone)):
        assert "lines.remote" not in "\n".join(lines)


def looked_up(own: LineGroup, *fields: str, lines: bool = False) -> Window:
    """A window of one group, whose instructions use these fields in a line of source."""
    known = {
        (use.owner, use.symbol, use.offset): SourceLine("block.c", 7, use.symbol, "count++;", field)
        for use, field in zip(own.uses, fields, strict=False)
    }
    return with_sources(replace(window(), groups=(own,)), known, lines=lines)


def test_lines_of_source_are_shown_once_where_they_are_known() -> None:
    lines = window_lines(looked_up(group("counter"), "", "", lines=True))
    assert [line.strip() for line in lines].count("block.c:7 count++;") == 1
    assert not any("block.c" in line for line in window_lines(looked_up(group("counter"), "", "")))


def test_an_instruction_without_a_field_is_unknown_and_another_was_not_looked_up() -> None:
    first, second = group(HEAP).uses
    known = {(first.owner, first.symbol, first.offset): None}
    own = group(HEAP, with_sources(window(), known, lines=True))
    assert own.uses == (replace(first, field="unknown"), second)
    assert own.fields == ()


@pytest.mark.parametrize(
    ("place", "fields", "title"),
    [
        ("counter", ("counter", "counter"), "counter, 2 CPUs"),
        ("counter", ("counter.hot", ""), "counter: counter.hot, 2 CPUs"),
        ("counter", ("", ""), "counter, 2 CPUs"),
        (HEAP, (), "heap, 2 CPUs"),
        (HEAP, ("", ""), "heap: unknown, 2 CPUs"),
        (HEAP, ("inode.i_count", ""), "heap: inode.i_count, 2 CPUs"),
        (HEAP, ("inode.i_count", "inode.i_lock"), "heap: inode.i_count + inode.i_lock, 2 CPUs"),
    ],
)
def test_a_line_has_the_names_of_the_fields_that_move_it(place: str, fields: tuple[str, ...], title: str) -> None:
    lines = window_lines(looked_up(group(place), *fields))
    assert any(line.partition("  +")[0].split("  ")[-1].startswith(title) for line in lines)


def test_the_page_has_the_fields_in_the_title_of_a_picture() -> None:
    page = sharing_page([looked_up(group(HEAP), "inode.i_count", "")])
    assert "0.500 per I/O, heap of reader, submit_one, inode.i_count</h2>" in page


@pytest.mark.parametrize("most", [1, 12])
def test_a_difference_has_nothing_unexplained(most: int) -> None:
    after = window(WINDOW.replace("user 0 0 50 0 50 0 ff", "user 0 0 10 0 10 0 ff"))
    lines = differential_lines(window(), after, most)
    delta = sum(own.footprint for own in after.groups) - sum(own.footprint for own in window().groups)
    assert sum(numbers(lines, 2)) == pytest.approx(delta, abs=0.002)
    assert lines[-3].split() == ["0.000", "unexplained"]


def test_a_line_of_one_side_is_new_or_gone() -> None:
    without = WINDOW[: WINDOW.index("line 5000")] + WINDOW[WINDOW.index("line 1ea23000") :]
    gone, new = differential_lines(window(), window(without)), differential_lines(window(without), window())
    assert any(line.endswith("heap of reader, submit_one (gone)") for line in gone)
    assert any(line.endswith("heap of reader, submit_one (new)") for line in new)


def line_of(wanted: Wanted, field: str) -> dict[int, SourceLine]:
    return dict.fromkeys(wanted.offsets, SourceLine("block.c", 7, wanted.function, "count++;", field))


@pytest.mark.parametrize(
    ("built", "named"),
    [("before after", ": after.count"), ("before", ": before.count"), ("after", ": after.count"), ("", "")],
)
def test_the_fields_of_each_run_come_from_its_own_kernel(
    built: str, named: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The runs are "before" and "after", the kernel of each is its name; a boot and debug information are made up.

    The line of the heap is not the first in its window, but among those whose difference is shown.
    """

    def source_of(kernel: str, *_: object) -> str:
        if kernel in built.split():
            return kernel
        raise CannotJudge(f"{kernel} is packaged", remedy="build it")

    for name, value in {
        "commands.explain.lab_of_host": lambda: SimpleNamespace(cache=None),
        "commands.explain._OneOrTwoRuns.sides": lambda self, **_: ([self.run, *self.further], []),
        "commands.explain._first_cell": lambda run, seed: run,
        "commands.explain.window_of_cell": lambda lab, run, *_: window(),
        "commands.explain.kernel_again": lambda run: run,
        "sharing.window.LINES": 1,
        "sharing.window.source_of": source_of,
        "sharing.window.source_lines": lambda kernel, source, wanted, cache, **_: [
            line_of(function, f"{source}.count") for function in wanted
        ],
    }.items():
        monkeypatch.setattr(f"harness.{name}", value)
    assert main(["sharing", "before", "after"]) == 0
    assert f"heap of reader, submit_one{named}\n" in capsys.readouterr().out


def test_counts_that_depend_on_the_length_of_a_turn_are_named() -> None:
    other = {name: 1.02 * value for name, value in FIGURES.items()}
    turns = {300: other, 3000: {**FIGURES, "lines.footprint": 0.97, "locks.held": 54 * 0.971}}
    lines = window_lines(window(), turns=turns)
    start = lines.index("      300      3,000  turns, relative to those of 1,000")
    assert lines[start + 2].split("  ")[-1] == "lines.footprint differs by 3 % or more: it depends on the turn"
    others = [line.split() for line in (lines[start + 1], *lines[start + 3 : start + 8])]
    assert [" ".join(row[4:]) for row in others] == [
        f"{name} within 3 %"
        for name in ("lines.seen", "lines.written", "atomics", "locks", "locks.held", "instructions")
    ]
    assert (others[0][:4], others[4][:4]) == (["+2.0", "%", "+0.0", "%"], ["+2.0", "%", "-2.9", "%"])
    unmeasured = "Whether the counts depend on the length of a turn: not measured (arms that set machine.turn alone)."
    assert unmeasured in window_lines(window()) and unmeasured not in lines


def test_arms_that_differ_in_the_turn_alone_are_compared() -> None:
    scenario = load_scenario("null-turns")
    assert other_turns(scenario, "t1000") == {300: "t300", 3000: "t3000", 100000: "t100000"}
    assert other_turns(scenario, "one-queue") == {}


def test_the_model_saturates_where_the_busiest_station_is_always_busy() -> None:
    # The lock: 50 ns held and one transfer for each I/O. An I/O takes 1,000 ns and the transfers of all lines: the
    # counter's 1, the heap's 1 (0.5 writes and 0.5 reads of another's), 0.6 of the run queue.
    model = scaling_of(window(), 40)
    assert model is not None
    assert (model.busiest, model.demand) == ("lock other", 90.0)
    assert model.demands == pytest.approx(40 * 2.6)
    assert model.saturates == pytest.approx((1000 + 104) / 90)
    assert model.speed_up(1) == 1.0
    assert model.speed_up(4) == pytest.approx(4 * 1000 / 1104)
    assert model.speed_up(128) == pytest.approx(1000 / 90)


def test_explain_says_what_saturates_and_what_the_cpus_of_the_guest_reach() -> None:
    # At 200 ns the lock has 50 + 200 ns of 1,000 + 520; two CPUs reach 2 * 1,000 / 1,520 to 2 * 1,000 / 1,104.
    says = scaling_sentence(window())
    assert says == "saturated by 6 to 12 CPUs: lock other; 2 CPUs reach at most 1.3 to 1.8 times the throughput of one"
    # Held for 500 ns in 10 I/Os the lock is not what long transfers saturate.
    rare = replace(window(), locks=(replace(window().locks[0], taken=0.1, held=50.0),))
    assert "CPUs: heap of reader, submit_one or lock other; " in scaling_sentence(rare)


def test_areas_of_one_cpu_are_no_stations() -> None:
    alone = replace(window(), groups=tuple(own for own in window().groups if own.place.per_cpu), locks=())
    assert scaling_of(alone, 200) is None
    assert scaling_sentence(alone) == "no line and no lock is shared"


def test_the_page_draws_the_bytes_of_each_cpu() -> None:
    page = sharing_page([window()])
    assert page.count('class="write"') == 8 + 8 + 4 + 1
    assert page.count('class="read"') == 4 + 1
    assert page.count("<svg") == 3
    assert "<script" not in page
