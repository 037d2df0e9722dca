# SPDX-License-Identifier: GPL-2.0-only
"""Everything that two profiles are written out as, against files that were checked by hand.

The sums are small: BEFORE has 100 I/Os and AFTER 200, so that a count of 1,650 is 16.5 or 8.25 instructions per I/O.
In AFTER ``sort`` is within ``insert``, ``get_tag`` in two parts, ``old_*`` are gone, ``new_*`` are new.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from harness.profile.formats import Side, folded_stacks, lines_text, listed_functions, speedscope, write_profiles
from harness.profile.model import Code, differential, frames_of, one_sided
from harness.profile.report import differential_lines, function_lines, most_expensive, profile_lines
from lab.kernels.objects import SourceLine
from tests.unit.profile_samples import function, profile

GOLDEN = Path(__file__).parent / "fixtures" / "profile"
LONG = "a_name_of_a_function_that_is_longer_than_a_line_of_a_mail_can_hold"
SAME = f"""
user;fio`get_io_u {{n}}00 {{n}}0000
user;[vdso]`clock_gettime {{n}}00 {{n}}500
user;sampler`take 2 300
kernel;entry {{n}}00 {{n}}0000
interrupt;irq 50 1650
interrupt;irq;null_blk`complete 50 800
idle;do_idle 0 10
idle;do_idle;{LONG} 1 1000
"""
BEFORE = profile(
    SAME.replace("{n}", "1")
    + """kernel;entry;submit 100 8000
kernel;entry;submit;insert 100 4000
kernel;entry;submit;insert;sort 100 3000
kernel;entry;submit;get_tag 100 2000
kernel;entry;submit;get_tag;get_tag 40 400
kernel;entry;submit;get_tag;get_tag;get_tag 10 100
kernel;entry;submit;<b>plug 100 200
kernel;entry;submit;null_blk`queue_rq 7 70
kernel;entry;submit;<b>plug;old_flush 100 900
kernel;entry;old_check 100 700
kernel;old_thread 0 900
kernel;old_thread;null_blk`queue_rq 100 3000
interrupt;irq;old_tick 50 500
""",
    surprises=3,
)
AFTER = profile(
    SAME.replace("{n}", "2")
    + """kernel;entry;submit 200 17000
kernel;entry;submit;insert 200 14000
kernel;entry;submit;get_tag.isra.0 200 3000
kernel;entry;submit;get_tag.isra.0;get_tag.cold 20 1100
kernel;entry;submit;<b>plug 200 400
kernel;worker 3 9000
kernel;worker;null_blk`queue_rq 200 6000
kernel;worker;schedule 200 5000
interrupt;irq;new_tick 50 1300
""",
    ios=200,
    release="7.2",
    lost=250,
)
SOURCE = {0: SourceLine("blk.c", 7, "submit", "x" * 61), 4: SourceLine("blk.h", 3, "bump", "b++;")}
CODES = [Code("vmlinux", "submit", 0x1000, {0: 5000, 4: 2900, 8: 100}), Code("vmlinux", "submit", 0, {0: 6000, 8: 800})]
SIDES = [
    Side(replace(side, code=(code, Code("other", "submit", 0, {0: 9999}))), {code: SOURCE})
    for side, code in zip((BEFORE, AFTER), CODES, strict=True)
]


def by_line(sides: Sequence[Side]) -> list[str]:
    return list(lines_text(sides, listed_functions([side.profile for side in sides], "submit")))


def test_all_files_are_as_recorded(tmp_path: Path) -> None:
    paths = [
        *write_profiles(tmp_path / "a" / "one", [replace(BEFORE, head=replace(BEFORE.head, per_io=None))]),
        *write_profiles(tmp_path / "two", [BEFORE, AFTER], by_line=by_line(SIDES)),
    ]
    calls = (("submit", 18), ("submit", 12), ("get_tag", 18), ("queue_rq", 12))
    lines = [line for name, most in calls for line in function_lines([BEFORE, AFTER], name, most)]
    texts = {path.name: path.read_text() for path in paths} | {"calls.txt": "\n".join(lines) + "\n"}
    # Those of a single profile that two have too, with a prefix.
    for name in ("callgrind.out", "speedscope.json", "folded"):
        assert texts.pop(name) == texts[f"before.{name}"]
    assert texts == {path.name: path.read_text() for path in GOLDEN.iterdir()}


def test_the_most_expensive_functions_in_a_line() -> None:
    assert most_expensive(BEFORE, 3) == "entry 100, get_io_u [fio] 100, submit 80"


# Before, host does all itself (30 per I/O); after, callee does a part of it, with this many calls from host of 100,
# callee's cost, and what host has left.
@pytest.mark.parametrize(
    ("calls", "callee", "left", "joined"),
    [
        (90, 2000, 1000, True),
        (89, 2000, 1000, False),  # 89 of 100 calls: it has no main caller
        (100, 2000, 1500, True),  # host gave 15 for 20: a quarter is left over
        (100, 2000, 1501, False),
        (100, 2000, 500, True),
        (100, 2000, 499, False),
        (100, 2000, 3001, False),  # both grew
    ],
)
def test_a_function_is_joined_to_the_caller_that_gave_its_cost(
    calls: int, callee: int, left: int, joined: bool
) -> None:
    other = callee * (100 - calls) // 100
    after = f"kernel;host 100 {left}\nkernel;host;callee {calls} {callee - other}\nkernel;other 1 100\n"
    after += f"kernel;other;callee {100 - calls} {other}\n" if other else ""
    changes = differential(profile("kernel;host 100 3000\nkernel;other 1 100\n"), profile(after)).changes
    inlined = {change.function.name: [each.name for each in change.inlined] for change in changes}
    assert inlined == ({"host": ["callee"], "other": []} if joined else {"host": [], "callee": [], "other": []})
    host = next(change for change in changes if change.function.name == "host")
    assert (host.before.instructions, host.after.instructions) == (30, Fraction(left + callee * joined, 100))


def test_of_several_callees_all_are_joined_or_the_one_that_fits() -> None:
    before, after = profile("kernel;host 1 5000\n"), profile("kernel;host 1 1000\nkernel;host;callee 1 4000\n")
    assert [change.inlined for change in differential(before, after).changes] == [(function("callee"),)]
    before = profile("kernel;host 100 5000\n")
    parts = "".join(f"kernel;host;{name} 100 800\n" for name in "dbeca")
    (host,) = differential(before, profile(f"kernel;host 100 1000\n{parts}")).changes
    assert [each.name for each in host.inlined] == [*"abcde"]
    both = profile("kernel;host 100 1000\nkernel;host;one 100 1500\nkernel;host;two 100 2500\n")
    changes = differential(before, both).changes
    assert [(change.function.name, int(change.delta), change.inlined) for change in changes] == [
        ("host", 0, (function("one"), function("two")))
    ]
    fits = profile("kernel;host 100 3000\nkernel;host;large 100 9000\nkernel;host;one 100 2100\n")
    changes = differential(before, fits).changes
    assert [(change.function.name, int(change.delta), change.inlined) for change in changes] == [
        ("large", 90, ()),
        ("host", 1, (function("one"),)),
    ]


@pytest.mark.parametrize(
    ("old", "new", "inner", "sides"),
    [
        (500, 10000, 0, [("part", "part", 5, 100)]),
        (501, 10000, 0, []),
        (10000, 500, 0, [("part", "part", 100, 5)]),
        (0, 1000, 9000, [("part", "within", 0, 100)]),  # 90 of 100
        (0, 1001, 8999, [("part", "part", 0, 100)]),
    ],
)
def test_a_path_is_of_one_side_and_its_inner_function_has_nearly_all(
    old: int, new: int, inner: int, sides: list[tuple[str, str, int, int]]
) -> None:
    before = profile(f"kernel;same 1 900\nkernel;part 1 {old}\n" if old else "kernel;same 1 900\n")
    below = f"kernel;part;within 1 {inner}\n" if inner else ""
    after = profile(f"kernel;same 1 900\nkernel;part 1 {new}\n{below}")
    found = one_sided(before, after)
    assert [(path[-1], frame.inner, *map(int, frame.costs)) for path, frame in found] == sides


@pytest.mark.parametrize(("cost", "shown"), [(200, True), (199, False)])
def test_a_path_of_two_per_cent_is_shown(cost: int, shown: bool) -> None:
    before, after = "kernel;entry 1 10000\n", f"kernel;entry 1 {10000 - cost}\nkernel;entry;new 1 {cost}\n"
    text = "\n".join(differential_lines(differential(profile(before), profile(after))))
    assert ("only after: kernel>entry>new" in text) is shown


def test_a_mail_has_the_four_largest_paths_of_one_side() -> None:
    new = "".join(
        f"kernel;entry;new_{letter} 1 {cost}\n" for letter, cost in zip("abcdef", range(600, 0, -100), strict=True)
    )
    found = differential(profile("kernel;entry 1 1000\n"), profile(f"kernel;entry 1 1000\n{new}"))
    shown = [line.split(">")[-1] for line in differential_lines(found) if "only after: kernel>entry>" in line]
    assert shown == [f"new_{letter}" for letter in "abcd"]


def test_a_mail_has_as_many_lines_as_it_may_have() -> None:
    wide = profile("\n".join(f"kernel;f{number:02} 1 100" for number in range(50)))
    assert [len(profile_lines(wide, most)) for most in (16, 30)] == [16, 30]
    assert profile_lines(wide, 16)[-4].split() == ["45", "45", "other", "functions"]
    assert len(differential_lines(differential(wide, profile("kernel;f00 1 100")), 20)) == 20


def test_twelve_lines_of_a_function_are_shown() -> None:
    code = Code("vmlinux", "submit", 0x1000, {number: 100 * (1 + number) for number in range(15)})
    own = {number: SourceLine("blk.c", number, "submit", f"line {number};") for number in range(15)}
    text = by_line([Side(replace(BEFORE, code=(code,)), {code: own})])
    # 1 to 15 an I/O: 120 in all, of which the twelve largest are 4 to 15.
    assert text[0] == "submit: 120 instructions per I/O, by line"
    assert [line.split()[0] for line in text[1:14]] == [*(f"+{number}" for number in range(15, 3, -1)), "+6"]
    assert text[13].endswith("3 other lines")


def test_a_function_without_neighbours_is_said_to_have_none() -> None:
    chain = profile("kernel;entry 1 100\nkernel;entry;submit 1 100\nkernel;alone 1 100\n")
    absent = [": not executed" in function_lines([chain], name)[2] for name in ("entry", "submit", "alone")]
    assert absent == [False, False, True]


def test_a_mail_names_what_a_function_took_in_and_the_side_of_a_path() -> None:
    took = differential(profile("kernel;host 1 5000\n"), profile("kernel;host 1 1000\nkernel;host;callee 1 4000\n"))
    assert any(line.endswith("host with callee") for line in differential_lines(took))
    names = [f"callee_of_a_long_name_{number}" for number in range(9)]
    parts = "".join(f"kernel;host;{name} 100 444\n" for name in names)
    many = differential(profile("kernel;host 100 5000\n"), profile(f"kernel;host 100 1000\n{parts}"))
    (line,) = (line for line in differential_lines(many) if "host with callee_of" in line)
    assert len(line) == 112
    # Half an instruction for each I/O, of one in all.
    half = differential(profile("kernel;entry 1 100\n"), profile("kernel;entry 1 50\nkernel;entry;new 1 50\n"))
    assert any("only after: kernel>entry>new" in line for line in differential_lines(half))
    back = differential(half.after, half.before)
    assert any("only before: kernel>entry>new" in line for line in differential_lines(back))


def test_all_of_what_is_unexplained_is_shown_and_a_little_of_it_is_one() -> None:
    for lost, shown in ((0, "0"), (1, "1"), (500, "5")):
        lines = profile_lines(profile("kernel;entry 1 100\n", lost=lost))
        assert next(line.split()[0] for line in lines if line.endswith("unexplained")) == shown


def test_a_path_without_instructions_is_no_frame_and_no_sample() -> None:
    called = profile("kernel;entry 1 100\nkernel;entry;empty 5 0\n")
    (context,) = frames_of([called]).below.values()
    assert context.below["entry"].below == {}
    (sampled,) = json.loads(speedscope(called))["profiles"]
    assert sampled["weights"] == [100]
    assert folded_stacks(called).splitlines()[1:] == ["kernel;entry 100"]
