# SPDX-License-Identifier: GPL-2.0-only
"""Counters around a window, in the form that the guest's runner writes them."""

import pytest

from harness.metrics.counters import read_sections, read_window
from harness.metrics.node import MeasurementError
from harness.metrics.readback import devices, read_readback

ROW = "   8       0 sda {} 7 800 40 20 3 160 10 0 30 50 0 0 0 0 0 0"


def reading(reads: int, cpu: str, device: str = "sda") -> bytes:
    row = ROW.format(reads).replace("sda", device)
    return f"== /proc/stat\ncpu  {cpu}\ncpu0 {cpu}\nintr 5\n== /proc/diskstats\n{row}\n".encode()


def test_a_window_is_the_difference_of_two_readings() -> None:
    window = read_window(reading(100, "10 0 10 100 0 0 0 0 0 0"), reading(350, "20 0 30 150 20 0 0 0 0 0"), "solo")
    assert window.disks["sda"]["reads"] == 250
    assert window.disks["sda"]["merges"] == 0
    assert "inflight" not in window.disks["sda"]


def test_bios_are_requests_and_what_was_merged_into_them() -> None:
    before = b"== /proc/stat\n== /proc/diskstats\n 8 0 sda 10 1 80 4 20 2 160 8 0 30 12\n"
    after = b"== /proc/stat\n== /proc/diskstats\n 8 0 sda 15 8 200 9 32 5 300 20 3 90 40\n"
    counted = read_window(before, after, "solo").disks["sda"]
    assert (counted["requests"], counted["merges"], counted["bios"], counted["sectors"]) == (17, 10, 27, 260)
    assert (counted["reads.merged"], counted["writes.merged"], counted["busy.ms"], counted["weighted.ms"]) == (
        7,
        3,
        60,
        28,
    )


def test_discards_are_counted_where_the_kernel_does() -> None:
    """Linux 4.18 added them to /proc/diskstats, and 5.5 flushes behind them."""
    before = b"== /proc/diskstats\n 8 0 sda 0 0 0 0 0 0 0 0 0 0 0 1 2 3 4 5 6\n"
    after = b"== /proc/diskstats\n 8 0 sda 0 0 0 0 0 0 0 0 0 0 0 11 22 33 44 55 66\n"
    counted = read_window(before, after, "solo").disks["sda"]
    names = ("discards", "discards.merged", "discards.sectors", "discards.ms", "requests")
    assert [counted[name] for name in names] == [10, 20, 30, 40, 0]
    old = b"== /proc/diskstats\n 8 0 sda 0 0 0 0 0 0 0 0 0 0 0\n"
    assert "discards" not in read_window(old, old, "solo").disks["sda"]


GOOD = reading(1, "1 1 1 1 1 1 1 1")
LATER = reading(2, "2 2 2 2 2 2 2 2")


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (reading(9, "0 0 0 0 0 0 0 0"), LATER, "went backwards"),
        (GOOD, reading(2, "2 2 2 2 2 2 2 2", "sdb"), "came or went in the window: sda, sdb"),
        (GOOD, b"== /proc/stat\ncpu 2 2 2 2 2 2 2 2\n", "section /proc/diskstats is missing"),
        (b"stray\n" + GOOD, LATER, "before the first section"),
        (GOOD + GOOD, LATER, "appears twice"),
        (GOOD.replace(b" 7 800", b" x 800"), LATER, "row sda does not hold 11 counters"),
        (b"== /proc/stat\ncpu 1 2 3 4 5 6 7 8\n== /proc/diskstats\n8 0\n", LATER, "does not hold 11 counters"),
    ],
)
def test_counters_that_cannot_be_believed_are_named(before: bytes, after: bytes, says: str) -> None:
    with pytest.raises(MeasurementError, match=says):
        read_window(before, after, "solo")


def test_a_resync_has_a_speed() -> None:
    def at(uptime: str, line: str) -> bytes:
        return GOOD + f"== /proc/uptime\n{uptime} 1.0\n== /proc/mdstat\nmd0 : active raid6\n {line}\n".encode()

    def later(uptime: str, line: str) -> bytes:
        return at(uptime, line).replace(b"cpu  1 1 1 1", b"cpu  1 1 1 9")

    first = at("100.50", "[>....]  resync =  0.0% (1000/976631808) finish=1min speed=9K/sec")
    done = "[>....]  resync =  0.1% (3000/976631808) finish=1min speed=9K/sec"
    assert read_window(first, later("104.50", done), "x").resync == 2000 * 1024 / 4
    assert read_window(first, later("104.50", "[9/9] [UUU]"), "x").resync is None
    with pytest.raises(MeasurementError, match=r"2000 KiB synchronised in 0\.0 s"):
        read_window(first, later("100.50", done), "x")
    with pytest.raises(MeasurementError, match="-2000 KiB synchronised"):
        read_window(later("90", done), later("104", "resync = 0.0% (1000/976631808)").replace(b" 9 ", b" 10 "), "x")


def test_sections_keep_their_text() -> None:
    assert read_sections(b"== /a\n1\n2\n== /b\n", "x") == {"/a": "1\n2", "/b": ""}


def test_the_read_back_names_devices_and_knobs() -> None:
    rows = read_readback(b"device\t/lab/p0\tsda\nqueue.scheduler\t/sys/block/sda/queue/scheduler\tnone\n")
    assert devices(rows) == {"p0": "sda"}
    assert rows[1].value == "none"
    with pytest.raises(MeasurementError, match="line 1 has 1 fields"):
        read_readback(b"nonsense\n")
