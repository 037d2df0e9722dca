# SPDX-License-Identifier: GPL-2.0-only
"""Profiles and their differences, on made-up counts."""

import re
from fractions import Fraction

import pytest

from harness.profile.attribute import read_window
from harness.profile.model import BLIND, Cost, Group, differential, source_costs
from harness.profile.report import LINES, differential_lines, function_lines, profile_lines
from lab.base.errors import LabBroken, Misuse
from tests.unit.profile_samples import AFTER, BEFORE, function, profile

WIDE = "\n".join(f"kernel;entry_{number} 7 {333 + number}" for number in range(100))


def test_a_window_whose_parts_do_not_add_up_is_refused() -> None:
    good = (
        "total 30 0\nnode 4 3 ffffffff81000010 1 10\nnode 3 0 ffffffff81000000 1 5\n"
        "code 5 ffffffff81000013 ffffffff81000010\ncode 4 ffffffff81000000\ncode 1 ffffffff81000000\n"
        "user 401000 90c3 3 15\n"
    )
    window = read_window(good)
    assert window.code == {0xFFFFFFFF81000000: 5, 0xFFFFFFFF81000010: 5, 0xFFFFFFFF81000013: 5}
    assert [node.number for node in window.nodes] == [3, 4]
    assert window.blocks[0].data == b"\x90\xc3"
    nothing = read_window("")
    assert (nothing.total, nothing.surprises) == (0, 0)
    with pytest.raises(LabBroken, match="counted 31 instructions and listed 30"):
        read_window(good.replace("total 30", "total 31"))
    with pytest.raises(LabBroken, match="counted 30 instructions and listed 29"):
        read_window(good.replace("code 1 ffffffff81000000\n", ""))
    with pytest.raises(LabBroken, match="line 2"):
        read_window(good.replace("node 4", "knot 4"))


def test_a_function_costs_what_it_executed_on_every_path_and_a_recursion_once() -> None:
    found = profile("kernel;a 1 10\nkernel;a;b 2 20\nkernel;b 3 30\ninterrupt;b 4 40\n")
    assert found.costs[function("b")] == Cost(5, 50)
    assert found.costs[function("b", "interrupt")] == Cost(4, 40)
    assert found.unexplained == 0
    assert found.edges[function("a"), function("b")] == Cost(2, 20)
    found = profile("kernel;a 1 1\nkernel;a;b 1 10\nkernel;a;b;b 1 100\nkernel;a;b;b;b 1 1000\n")
    assert found.inclusive == (1111, 1110, 1100, 1000)
    assert found.edges[function("a"), function("b")] == Cost(1, 1110)
    assert found.edges[function("b"), function("b")] == Cost(2, 1100)


@pytest.mark.parametrize(
    ("name", "context", "group"),
    [
        ("fio`get_io_u", "user", Group.PROGRAMS),
        ("libc.so.6`memcpy", "user", Group.PROGRAMS),
        ("diskd`serve", "user", Group.MODELS),
        ("sampler`take", "user", Group.MEASURING),
        ("null_blk`null_cmd_timer_expired", "interrupt", Group.MODELS),
        *((f"{module}`serve", "kernel", Group.MODELS) for module in ("scsi_debug", "loop", "brd", "tcm_loop")),
        *((f"target_core_{part}`serve", "kernel", Group.MODELS) for part in ("mod", "iblock", "user")),
        *((f"{module}`serve", "kernel", Group.MODELS) for module in ("nvmet", "nvmet_tcp", "nvme_loop")),
        ("dm_mod`dm_submit_bio", "kernel", Group.KERNEL),
        ("blk_mq_submit_bio", "kernel", Group.KERNEL),
        ("hrtimer_interrupt", "interrupt", Group.INTERRUPTS),
        ("do_idle", "idle", Group.IDLE),
    ],
)
def test_device_models_are_not_a_cost_of_the_kernel(name: str, context: str, group: Group) -> None:
    assert function(name, context).group is group


def test_the_deltas_add_up_to_the_difference_and_what_belongs_to_no_function_is_left_over() -> None:
    found = differential(profile(BEFORE, ios=97), profile(AFTER, ios=103))
    before, after = found.totals
    assert sum((change.delta for change in found.changes), Fraction()) == after - before
    assert found.rest == 0
    found = differential(profile(BEFORE), profile(AFTER, lost=1))
    assert found.rest == Fraction(1, 100)
    rows = [line for line in differential_lines(found) if line.endswith("unexplained")]
    assert rows[0].split() == ["0", "1", "+1", "unexplained"]


def test_parts_and_clones_of_the_compiler_are_one_function() -> None:
    old = profile("kernel;top 100 100\nkernel;top;get_tag 100 3000\n")
    new = profile(
        "kernel;top 100 100\nkernel;top;get_tag.isra.0 100 2000\nkernel;top;get_tag.isra.0;get_tag.part.3 100 900\n"
        "kernel;top;get_tag.isra.0;get_tag.cold 1 100\n"
    )
    assert {one.function.name: one.delta for one in differential(old, new).changes} == {"top": 0, "get_tag": 0}
    assert source_costs(new)[function("get_tag")].calls == 1
    renamed = profile("kernel;top 100 100\nkernel;top;get_tag_noprof 100 3000\n")
    assert {change.function.name: change.delta for change in differential(old, renamed).changes} == {
        "top": 0,
        "get_tag": 0,
    }


def _column(lines: list[str], after: str, until: str) -> list[int]:
    """The first numbers of the lines between two others."""
    begin = next(i for i, line in enumerate(lines) if after in line)
    end = next(i for i, line in enumerate(lines) if until in line and i > begin)
    return [int(line.split()[0].replace(",", "")) for line in lines[begin + 1 : end + 1] if line.strip()]


def test_a_profile_fits_into_a_mail_and_both_of_its_columns_add_up() -> None:
    lines = profile_lines(profile(BEFORE + WIDE, ios=97))
    total = int(re.search(r"([\d,]+) instructions per I/O", lines[0])[1].replace(",", ""))  # type: ignore[index]
    assert len(lines) == LINES
    assert sum(_column(lines, "I/Os in the window", "unexplained")) == total
    assert sum(_column(lines, "calls     each", "other functions")) == total
    assert lines[-1] == BLIND


def test_a_differential_fits_into_a_mail_and_all_of_its_columns_add_up() -> None:
    lines = differential_lines(differential(profile(BEFORE + WIDE, ios=97), profile(AFTER, ios=103, release="7.2")))
    before, after, delta = (
        int(number.replace(",", ""))
        for number in re.match(r"([\d,]+) -> ([\d,]+) .*\(([-+\d,]+),", lines[1]).groups()  # type: ignore[union-attr]
    )
    assert len(lines) == LINES
    assert max(map(len, lines)) <= 112
    rows = [line.split() for line in lines[4 : next(i for i, line in enumerate(lines) if "unexplained" in line) + 1]]
    numbers = [[int(word.replace(",", "")) for word in row[:3]] for row in rows]
    assert [sum(column) for column in zip(*numbers, strict=True)] == [before, after, delta]
    assert sum(_column(lines, "instructions            calls", "other functions")) == delta
    assert lines[-1] == BLIND
    same, nothing = profile("kernel;a 1 100"), profile("kernel;a 0 0")
    assert "on the other side" not in "\n".join(differential_lines(differential(same, same)))
    assert differential_lines(differential(nothing, same))[1] == "0 -> 1 instructions per I/O (+1)"


def test_a_path_of_any_length_fits_into_its_line_and_stacks_that_are_not_exact_are_called_so() -> None:
    path = ";".join(f"a_function_with_a_name_of_some_length_{number}" for number in range(5))
    same = "kernel;entry 100 5000\n"
    deep = "\n".join(f"kernel;{';'.join(path.split(';')[: depth + 1])} 1 1000" for depth in range(5))
    lines = differential_lines(differential(profile(same), profile(same + deep)))
    assert max(map(len, lines)) <= 112
    assert any("+50  only after: kernel>a_function" in line for line in lines)
    assert "Call paths: exact in the kernel; programs have no callers." in "\n".join(profile_lines(profile(BEFORE)))
    assert "not exact: 3 odd returns" in "\n".join(profile_lines(profile(BEFORE, surprises=3)))


def test_callers_and_callees_have_counts() -> None:
    lines = function_lines([profile(BEFORE), profile(AFTER, release="7.2")], "run_queue")
    assert [" ".join(line.split()) for line in lines if "from" in line] == [
        "1.000 30 from plug",
        "1.000 30 from worker",
    ]
    assert "7.2: not executed, or neither called nor calling" in function_lines(
        [profile(BEFORE), profile(AFTER, release="7.2")], "plug"
    )
    with pytest.raises(Misuse, match=r"run_queues was executed.*run_queue"):
        function_lines([profile(BEFORE)], "run_queues")
