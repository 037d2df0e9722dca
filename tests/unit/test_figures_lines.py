# SPDX-License-Identifier: GPL-2.0-only
"""Counts of the plugin as figures: LOAD.lines as it writes it, damaged ones, and the roles that have figures."""

import re
from dataclasses import replace
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.figures.boot import MeasurementError
from harness.figures.lines import (
    Accessor,
    CacheLine,
    CpuCounts,
    LineUse,
    LockUse,
    SymbolPart,
    _is_of,
    read_names,
    read_sharing,
    sharing_figures,
)
from harness.scenario.model import Role
from tests.unit.analysis_samples import load, role

FILE = "pair.lines"
DATA = b"""\
turns 40
cpu 0 ffff88801ec00000 1000 200 10 11 30 8 90
cpu 1 ffff88801ec80000 3000 600 30 31 50 12 210
lock ffff888003c01000 3 20 4 300 45
line 3c01000 ffff888003c01000
user 0 0 10 0 9 0 f
user 1 30 0 12 0 f0 0
by ffffffff81400000 0 0 10 0 9 f
by ffffffff81400010 1 30 0 12 0 f0
line 3c01040 ffff888003c01040
user 0 10 0 5 0 ff 0
user 1 0 30 0 6 0 ff
"""


def test_a_file_is_read() -> None:
    sharing = read_sharing(DATA, FILE)
    assert sharing.turns == 40
    assert sharing.cpus[1] == CpuCounts(0xFFFF88801EC80000, 3000, 600, 30, 31, 50, 12, 210)
    assert sharing.locks == (LockUse(0xFFFF888003C01000, frozenset({0, 1}), 20, 4, 300, 45),)
    apart = read_sharing(DATA.replace(b"lock ffff888003c01000 3 ", b"lock ffff888003c01000 9 "), FILE)
    assert apart.locks[0].cpus == {0, 3}
    first, second = sharing.lines
    assert (first.physical, first.address) == (0x3C01000, 0xFFFF888003C01000)
    assert first.users == {0: LineUse(0, 10, 0, 9, 0, 0xF), 1: LineUse(30, 0, 12, 0, 0xF0, 0)}
    assert first.accessors[1] == Accessor(0xFFFFFFFF81400010, 1, 30, 0, 12, 0, 0xF0)
    assert (second.seen([0, 1]), second.seen([1]), second.seen([2])) == (11, 6, 0)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"cpu 0 ", b"cpu zero "),
        (b" 8 90\n", b" 8\n"),
        (b" 8 90\n", b" 8 90 1 2\n"),
        (b"lock ffff888003c01000 3 20 4 300 45", b"lock ffff888003c01000 3 20 4 300"),
        (b"lock ffff888003c01000", b"lock x"),
        (b"user 0 0 10 0 9 0 f\n", b"user 0 0 10 0 9 0\n"),
        (b"line 3c01000 ffff888003c01000\n", b""),
        (b"by ffffffff81400000 0 0 10 0 9 f\n", b"by ffffffff81400000 0 0\n"),
        (b"turns 40", b"turns"),
        (b"turns 40", b"trns 40"),
        (b"turns 40\n", b"\n"),
        (b"turns 40", b"turns \xff"),
    ],
)
def test_a_damaged_file_is_named(old: bytes, new: bytes) -> None:
    assert old in DATA
    with pytest.raises(MeasurementError, match=re.escape(FILE)):
        read_sharing(DATA.replace(old, new), FILE)


@pytest.mark.parametrize("data", [b"", b"turns 40\n"])
def test_a_file_without_a_cpu_is_no_measurement(data: bytes) -> None:
    with pytest.raises(MeasurementError, match="has no CPU"):
        read_sharing(data, FILE)


def line(*users: tuple[int, int]) -> CacheLine:
    """Reads and writes of each CPU, in steps."""
    return CacheLine(0, 0, {cpu: LineUse(*use, 0, 0, 0, 0) for cpu, use in enumerate(users)})


@pytest.mark.parametrize(
    ("users", "moves"),
    [
        # Two write in turn: the other one wrote last in half of all orders.
        (((0, 10), (0, 10)), 10),
        # W steps of each of N CPUs: W (N - 1).
        (((0, 10), (0, 10), (0, 10), (0, 10)), 30),
        # A reader misses after a write, a writer after a read: 10 * 10 / 20 each.
        (((10, 0), (0, 10)), 10),
        # Each of three readers misses, the writer once for all: 3 * 10 * 10 / 20 + 10 * 30 / 40.
        (((0, 10), (10, 0), (10, 0), (10, 0)), 22.5),
        # A rare writer: 90 reads miss 10 times at most, 90 * 10 / 100, and its writes nearly always, 10 * 90 / 100.
        (((90, 0), (0, 10)), 18),
        (((10, 0), (10, 0)), 0),
        (((10, 10),), 0),
        (((0, 0), (0, 10)), 0),
    ],
)
def test_the_footprint_of_a_line(users: tuple[tuple[int, int], ...], moves: float) -> None:
    assert line(*users).footprint(range(len(users))) == pytest.approx(moves)


@pytest.mark.parametrize(
    ("users", "moves"),
    [
        # Of three other writers the last one is one of the two on the other node in 2/3 of all orders.
        (((0, 10), (0, 10), (0, 10), (0, 10)), 20),
        # Both on one node.
        (((0, 10), (0, 10)), 0),
        # Two readers on the other node, 10 * 10 / 20 each. Those two read last before 2/3 of the writer's 7.5.
        (((0, 10), (10, 0), (10, 0), (10, 0)), 15),
        # Readers on the other node read 30 and 5 times: writes move the line to each, and reads to the writer.
        (((0, 10), (0, 0), (30, 0), (5, 0)), 30 * 10 / 40 + 5 * 10 / 15 + 10 * 35 / 45),
    ],
)
def test_the_footprint_from_another_node(users: tuple[tuple[int, int], ...], moves: float) -> None:
    assert line(*users).footprint(range(len(users)), 2) == pytest.approx(moves)


counts = st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1, max_size=8)


@given(counts)
def test_a_footprint_is_bounded_by_the_accesses_and_adds_up(users: list[tuple[int, int]]) -> None:
    own = line(*users)
    moves = [own.footprint([cpu]) for cpu in range(len(users))]
    assert sum(moves) == pytest.approx(own.footprint(range(len(users))))
    assert all(0 <= move <= sum(use) for move, use in zip(moves, users, strict=True))
    assert own.footprint(range(8), 8) == 0 <= own.footprint(range(8), 2) <= own.footprint(range(8))


GUEST_FIGURES = {
    "lines.seen": 32 / 40,
    # 30 * 10 / 40 and 10 * 30 / 40; 10 * 30 / 40 and 30 * 10 / 40.
    "lines.footprint": 30 / 40,
    "lines.written": 2.0,
    "syncs": 0.0,
    "atomics": 2.0,
    "locks": 0.5,
    "locks.held": 7.5,
    "instructions": 100.0,
}


COUNTER = (
    DATA
    + b"""\
lock ffff888003c01018 1 1 0 1 0
lock ffff888003c01058 1 1 0 1 0
line 3c01080 ffffffff82c01080
user 0 0 20 0 6 0 f
user 1 10 10 4 2 ff f
by ffffffff81400020 0 0 20 0 6 f
by ffffffff81400030 1 10 0 4 0 f0
by ffffffff81400040 1 0 10 0 2 f
line 3c010c0 ffff88801ec23000
user 0 0 40 0 5 0 f
user 1 40 0 5 0 f 0
by ffffffff81400050 0 0 40 0 5 f
"""
)


@pytest.mark.parametrize(
    ("places", "seen", "locks", "held"),
    [
        # The code that writes the first line, in which two of three locks are; the code that reads it has none.
        ("f 0 ffffffff81400000 ffffffff81400001", 21 / 40, 21 / 40, 301 / 40),
        ("f 0 ffffffff81400010 ffffffff81400020", 0.0, 0.0, 0.0),
        # A function of two parts, the second of which writes the third line.
        ("f 0 ffffffff81400060 ffffffff81400070\nf 0 ffffffff81400040 ffffffff81400050", 12 / 40, 0.0, 0.0),
        # A variable that begins in the line, one that ends there, and one that ends before it.
        ("f 0 ffffffff82c010bf ffffffff82c02000", 12 / 40, 0.0, 0.0),
        ("f 0 ffffffff82c00000 ffffffff82c01081", 12 / 40, 0.0, 0.0),
        ("f 0 ffffffff82c00000 ffffffff82c01080", 0.0, 0.0, 0.0),
        # A per-CPU variable, at CPU 0's base; the same offset is no address by itself.
        ("f 1 23008 23010", 10 / 40, 0.0, 0.0),
        ("f 0 23008 23010", 0.0, 0.0, 0.0),
    ],
)
def test_the_lines_of_a_name(places: str, seen: float, locks: float, held: float) -> None:
    names = read_names(places.encode(), "lines.names")
    own = load("pair", on("a", "0"), on("b", "1"))
    found = dict(sharing_figures(read_sharing(COUNTER, FILE), own, names))
    named = {metric: value for (_, who, metric), value in found.items() if metric.startswith("line.")}
    assert {metric: named[metric] for metric in named if not metric.endswith("footprint")} == pytest.approx(
        {"line.f.seen": seen, "line.f.locks": locks, "line.f.locks.held": held}
    )
    assert (named["line.f.footprint"] > 0) is (seen > 0)
    assert {who for _, who, metric in found if metric in named} == {"guest"}


def test_a_line_that_two_cpus_write_and_one_reads_by_its_name() -> None:
    names = read_names(b"f 0 ffffffff81400040 ffffffff81400050", "lines.names")
    own = load("pair", on("a", "0"), on("b", "1"))
    found = dict(sharing_figures(read_sharing(COUNTER, FILE), own, names))
    # CPU 0: 20 * 20 / 40. CPU 1: its reads 10 * 20 / 40, its writes 10 * 20 / 30.
    assert found["pair", "guest", "line.f.footprint"] == pytest.approx((10 + 5 + 20 / 3) / 40)


@pytest.mark.parametrize("text", [b"f 0 12", b"f 0 x 12", b"f yes 0 12", b"f 0 0 12 3", b"\xff 0 0 1"])
def test_damaged_names_are_no_measurement(text: bytes) -> None:
    with pytest.raises(MeasurementError, match=r"lines\.names"):
        read_names(text, "lines.names")


def on(name: str, cpus: str, *disks: str) -> Role:
    return replace(role(name, disks or ("d",)), options={"cpus": cpus} if cpus else {})


def figures(*roles: Role, data: bytes = DATA) -> dict[str, dict[str, float]]:
    """Metrics by who has them."""
    own = load("pair", *roles)
    by_name: dict[str, dict[str, float]] = {}
    for (name, who, metric), value in sharing_figures(read_sharing(data, FILE), own, {}):
        assert name == "pair"
        by_name.setdefault(who, {})[metric] = value
    return by_name


def test_a_role_with_cpus_to_itself_has_figures_for_its_own_ios() -> None:
    found = figures(on("a", "0"), on("b", "1"))
    assert found["guest"] == pytest.approx(GUEST_FIGURES)
    assert found["a"] == pytest.approx(
        {
            "lines.seen": 1.4,
            "lines.footprint": 1.5,
            "lines.written": 2.0,
            "syncs": 0.0,
            "atomics": 3.0,
            "locks": 0.8,
            "locks.held": 9.0,
            "instructions": 100.0,
        }
    )
    assert found["b"]["lines.seen"] == pytest.approx(18 / 30)
    assert found["b"]["instructions"] == pytest.approx(100.0)


def test_fsyncs_are_no_ios_and_are_counted_apart() -> None:
    """20 I/Os instead of 40, with 20 fsyncs: twice the counts each, for what an fsync executes is its write's."""
    rows = (
        (b" 200 10 ", b" 200 5 "),
        (b" 8 90\n", b" 8 90 5\n"),
        (b" 600 30 ", b" 600 15 "),
        (b" 210\n", b" 210 15\n"),
    )
    synced = reduce(lambda data, row: data.replace(*row), rows, DATA)
    alike, apart = (figures(on("a", "0"), on("b", "1"), data=data) for data in (DATA, synced))
    for who in ("guest", "a", "b"):
        assert (alike[who]["syncs"], apart[who]["syncs"]) == (0, 1)
        for name in ("instructions", "atomics", "locks", "locks.held", "lines.seen", "lines.footprint"):
            assert apart[who][name] == pytest.approx(2 * alike[who][name])
    assert apart["guest"]["instructions"] == 4000 / 20


@pytest.mark.parametrize(("first", "second"), [("0", "0-1"), ("0-1", "1"), ("0", ""), ("", "")])
def test_roles_that_share_a_cpu_have_none(first: str, second: str) -> None:
    assert set(figures(on("a", first), on("b", second))) == {"guest"}


def test_a_role_on_two_disks_has_those_of_its_cpus() -> None:
    found = figures(on("a", "0-1", "d0", "d1"))
    assert found["a"] == pytest.approx(GUEST_FIGURES) == found["guest"]


def test_one_cpu_shares_no_lines() -> None:
    data = DATA[: DATA.index(b"cpu 1")]
    own = load("pair", on("a", "0"))
    found = dict(sharing_figures(read_sharing(data, FILE), own, {}))
    assert found["pair", "a", "locks"] == 0.8
    assert {metric for _, _, metric in found} == {"syncs", "atomics", "locks", "locks.held", "instructions"}


def test_transfers_from_another_node_are_figures_where_there_are_nodes() -> None:
    own = load("pair", on("a", "0"), on("b", "1"))
    found = dict(sharing_figures(read_sharing(DATA, FILE), own, {}, of_node=1))
    assert {who: found["pair", who, "lines.remote"] for who in ("guest", "a", "b")} == pytest.approx(
        {"guest": 30 / 40, "a": 1.5, "b": 0.5}
    )
    assert "lines.remote" not in figures(on("a", "0"), on("b", "1"))["guest"]


def test_without_ios_there_are_no_figures() -> None:
    idle = DATA.replace(b" 200 10 ", b" 200 0 ")
    assert set(figures(on("a", "0"), on("b", "1"), data=idle)) == {"guest", "b"}
    assert figures(on("a", "0"), on("b", "1"), data=idle.replace(b" 600 30 ", b" 600 0 ")) == {}


def test_a_base_below_zero_is_an_address_of_64_bits() -> None:
    """Since 6.15 a per-CPU symbol of x86 has an address in the image, so the base of a CPU is a difference."""
    area, symbol = 0xFFFF888000000000, 0xFFFFFFFF82C00000
    place = SymbolPart(range(symbol, symbol + 8), per_cpu=True)
    assert _is_of(CacheLine(0, area), place, [(area - symbol) % (1 << 64)])
    assert not _is_of(CacheLine(0, area), place, [0])


def test_a_file_without_turns_has_none() -> None:
    assert read_sharing(DATA.removeprefix(b"turns 40\n"), FILE).turns == 0
