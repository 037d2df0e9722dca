# SPDX-License-Identifier: GPL-2.0-only
"""The time arithmetic of the in-guest disk on the host: seeks, rotation, zones, queues and shared links."""

import ctypes
import shutil
from ctypes import byref, c_uint64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.diskd_library import ALONE, Link, Rig

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
MS = 10**6
MB = 10**6
KIB64 = 64 << 10
SEEKING, MOVING = 1, 2


def test_a_disk_serves_one_job_after_another_with_seeks_and_flushes(lib: ctypes.CDLL) -> None:
    rig = Rig(lib, (8 * MB, 0))
    for number in range(3):
        rig.submit(0, 1000, number * KIB64, KIB64)
    assert rig.drain() == [(1000 + 8_192_000 * (number + 1), number * KIB64) for number in range(3)]
    rig = Rig(lib, (4096 * 1000, 8 * MS))
    for at in (0, 4096, 1 << 20, 0):
        rig.submit(0, 0, at, 4096)
    assert [when for when, _ in rig.drain()] == [1 * MS, 2 * MS, 11 * MS, 20 * MS]
    assert (rig.disks[0].seeks, rig.disks[0].jobs, rig.disks[0].bytes) == (2, 4, 4 * 4096)
    rig = Rig(lib, (4096 * 1000, 8 * MS))
    rig.submit(0, 0, 0, 4096)
    rig.submit(0, 0, 0, 0)
    rig.submit(0, 0, 4096, 4096)
    assert [when for when, _ in rig.drain()] == [1 * MS, 1 * MS, 2 * MS]


def test_lateness_of_the_caller_does_not_add_up(lib: ctypes.CDLL) -> None:
    rig = Rig(lib, (8 * MB, 0))
    for number in range(100):
        rig.submit(0, 0, number * KIB64, KIB64)
    late = 100 * 8_192_000 + 5
    done = 0
    while rig.lib.model_finished(byref(rig.model), c_uint64(late)):
        done += 1
    assert (done, rig.disks[0].busy) == (100, 100 * 8_192_000)


def test_disks_that_coalesce_finish_jobs_together_and_do_not_wait_for_each_other(lib: ctypes.CDLL) -> None:
    rig = Rig(lib, (4096 * 1000, 0), coalesce=3)
    for number in range(8):
        rig.submit(0, 0, number * 4096, 4096)
    served = [(ms * MS, number * 4096) for number, ms in enumerate((3, 3, 3, 6, 6, 6, 8, 8))]
    assert (rig.drain(), rig.disks[0].busy) == (served, 8 * MS)
    rig.submit(0, 20 * MS, 0, 4096)
    assert rig.drain() == [(21 * MS, 0)]
    rig = Rig(lib, (4096 * 1000, 0), (2048 * 1000, 0), coalesce=2)
    for disk in (0, 1):
        for at in range(3):
            rig.submit(disk, 0, at * 4096, 4096)
    assert [when // MS for when, _ in rig.drain()] == [2, 2, 3, 4, 4, 6]


def test_disks_on_a_link_share_its_capacity(lib: ctypes.CDLL) -> None:
    rig, link = Rig(lib, (8 * MB, 0), (8 * MB, 0), (8 * MB, 0)), Link(rate=12 * MB)
    own = Link(rate=12 * MB)
    for number in range(200):
        for disk in range(3):
            rig.submit(disk, 0, number * KIB64, KIB64, link if disk < 2 else own)
    rig.drain()
    ends = [disk.busy for disk in rig.disks]
    shared = 400 * KIB64 * 1e9 / (12 * MB)
    assert max(ends[:2]) == pytest.approx(shared, rel=0.01)
    assert min(ends[:2]) == pytest.approx(shared, rel=0.01)
    assert ends[2] == pytest.approx(200 * KIB64 * 1e9 / (8 * MB), rel=1e-6)
    assert link.busy == pytest.approx(shared, rel=1e-6)


def buffered(lib: ctypes.CDLL, rate: int, count: int) -> Rig:
    """The first disk moves ``count`` jobs at a time."""
    rig = Rig(lib, (rate, 0), *((rate, 0) for _ in range(count)))
    lib.model_disk_buffer(byref(rig.disks[0]), byref(rig.disks[1]), c_uint64(count))
    return rig


def test_jobs_in_a_buffer_share_the_medium_s_rate(lib: ctypes.CDLL) -> None:
    rig = buffered(lib, 8 * MB, 4)
    for number in range(4):
        rig.submit(0, 0, number * KIB64, KIB64)
    assert {when for when, _ in rig.drain()} == {4 * 8_192_000}
    assert rig.disks[0].medium.busy == 4 * 8_192_000


def test_with_a_buffer_a_narrow_port_holds_back_its_own_jobs_alone(lib: ctypes.CDLL) -> None:
    narrow, wide = Link(rate=2 * MB), Link(rate=8 * MB)

    def ends(rig: Rig) -> tuple[int, int]:
        for number in range(4):
            rig.submit(0, 0, number * KIB64, KIB64, narrow if number % 2 else wide)
        done = {at // KIB64: when for when, at in rig.drain()}
        return max(done[0], done[2]), max(done[1], done[3])

    # At a level of 0.4 of each job's slowest link the medium is full: two jobs at 3.2 MB/s, two at 0.8.
    two = 2 * KIB64 * 1e9
    first = two / (6.4 * MB)
    rest = (two - 1.6 * MB * first) / (2 * MB)
    assert ends(buffered(lib, 8 * MB, 4)) == pytest.approx((first, first + rest), rel=1e-6)
    # Without a buffer the third waits for the second.
    assert ends(Rig(lib, (8 * MB, 0)))[0] == pytest.approx(two / (8 * MB) + KIB64 * 1e9 / (2 * MB), rel=1e-6)


def test_a_flush_waits_in_the_longest_line_of_a_buffer(lib: ctypes.CDLL) -> None:
    rig = buffered(lib, 8 * MB, 2)
    for number in range(3):
        rig.submit(0, 0, number * KIB64, KIB64)
    rig.submit(0, 0, 0, 0)
    assert rig.drain()[-1] == (3 * 8_192_000, 0)


def test_a_link_is_free_while_its_disks_seek_and_busy_for_the_cost_of_a_request(lib: ctypes.CDLL) -> None:
    rig, link = Rig(lib, (80 * MB, 8 * MS), (80 * MB, 7 * MS)), Link(rate=4096 * 1000)
    for number in range(1, 101):
        for disk in range(2):
            rig.submit(disk, 0, number << 20, 4096, link)
    # 1 ms of link each. The slower disk meets the other's link time in some of its rounds only.
    assert 100 * 9 * MS < rig.drain()[-1][0] < 100 * 9.5 * MS
    assert link.busy == 200 * MS
    rig, link = Rig(lib, (10**9, 0)), Link(rate=4096 * 1000, cost=3 * MS)
    for number in range(5):
        rig.submit(0, 0, number * 4096, 4096, link)
    assert rig.drain()[-1][0] == 5 * 4 * MS


def test_after_a_seek_the_disk_waits_for_the_sector(lib: ctypes.CDLL) -> None:
    # A track is 4 ms, 16384 bytes.
    rig = Rig(lib, (4096 * 1000, 1 * MS), rotation=4 * MS)
    for at in (4096, 8192, 0, 4096 + 16384, 2048):
        rig.submit(0, 0, at, 4096)
    # Angles in ms: 1 comes by at 1; 2 follows; 0 is at 4; 1 at 7 = 3, so 9; half a sector is 0.5, at 11 = 3, so 12.5.
    assert [when for when, _ in rig.drain()] == [2 * MS, 3 * MS, 5 * MS, 10 * MS, 13_500_000]
    assert rig.disks[0].seeks == 4


def test_a_zone_has_its_own_rate_and_a_request_across_its_border_is_the_sum_of_its_parts(lib: ctypes.CDLL) -> None:
    rig = Rig(lib, (4096 * 1000, 0))
    assert lib.model_disk_zone(byref(rig.disks[0]), c_uint64(8192), c_uint64(2048 * 1000))
    assert lib.model_disk_zone(byref(rig.disks[0]), c_uint64(16384), c_uint64(1024 * 1000))
    assert not lib.model_disk_zone(byref(rig.disks[0]), c_uint64(16384), c_uint64(1))
    for at, size in ((0, 8192), (4096, 8192), (8192, 4096), (4096, 16384), (1 << 20, 4096)):
        rig.submit(0, 0, at, size)
    assert [when for when, _ in rig.drain()] == [2 * MS, 5 * MS, 7 * MS, 16 * MS, 20 * MS]


def ahead(lib: ctypes.CDLL, look_ahead: int = 4 * 4096) -> Rig:
    """A track is 8 ms, 8 pages."""
    return Rig(lib, (4096 * 1000, 1 * MS), rotation=8 * MS, look_ahead=look_ahead)


def served(rig: Rig, *reads: tuple[int, int]) -> list[float]:
    """When each read of a page, asked for at a time in ms, was done, in ms; one at a time."""
    done = []
    for when, page in reads:
        rig.submit(0, when * MS, page * 4096, 4096)
        ((at, _),) = rig.drain()
        done.append(at / MS)
    return done


def test_a_disk_reads_on_and_a_late_reader_loses_nothing(lib: ctypes.CDLL) -> None:
    # Page 2 passes while nobody asks for it, and 3 is on its way.
    assert served(ahead(lib), (0, 0), (3, 2), (3, 3)) == pytest.approx([1, 3, 4], abs=1e-5)
    # Without look-ahead page 2 comes by 8 ms after it did first.
    assert served(ahead(lib, 0), (0, 0), (3, 2)) == [1, 11]


def test_a_near_gap_is_read_through_and_kept_and_a_far_one_is_not(lib: ctypes.CDLL) -> None:
    rig = ahead(lib)
    assert served(rig, (0, 0), (1, 3), (4, 1), (4, 2)) == pytest.approx([1, 4, 4, 4], abs=1e-5)
    assert rig.disks[0].seeks == 0
    # Page 20 is 19 ms of reading away, and at angle 4.
    assert served(ahead(lib, 32 * 4096), (0, 0), (1, 20), (5, 1)) == pytest.approx([1, 5, 10], abs=1e-5)


def test_the_disk_stops_at_the_end_of_its_look_ahead_and_goes_on_when_the_sector_comes_by(lib: ctypes.CDLL) -> None:
    # Pages 1 to 4 are read by 5; 5 comes by at 5 and again at 13.
    assert served(ahead(lib), (0, 0), (7, 4), (9, 5)) == pytest.approx([1, 7, 14], abs=1e-5)
    assert served(ahead(lib), (0, 0), (7, 5)) == pytest.approx([1, 14], abs=1e-5)


def test_what_lies_far_behind_or_before_a_write_is_not_kept(lib: ctypes.CDLL) -> None:
    rig = ahead(lib, 2 * 4096)
    for page in range(8):
        rig.submit(0, 0, page * 4096, 4096)
    rig.drain()
    # The run ends at page 10 and begins at 6.
    assert served(rig, (8, 6), (8, 5)) == pytest.approx([8, 14], abs=1e-5)
    rig = ahead(lib)
    assert served(rig, (0, 0)) == [1]
    rig.submit(0, 1 * MS, 20 * 4096, 4096, write=1)
    # Page 20 is at angle 4; page 1 comes by at 9, page 2 at 10.
    assert [when / MS for when, _ in rig.drain()] == [5]
    assert served(rig, (5, 1), (10, 2)) == pytest.approx([10, 11], abs=1e-5)


def test_a_queue_takes_the_nearest_request_and_nothing_past_a_flush(lib: ctypes.CDLL) -> None:
    rig = Rig(lib, (4096 * 1000, 1 * MS), ncq=4)
    for page in (10, 90, 11, 50, 12, 9):
        rig.submit(0, 0, page * 4096, 4096)
    assert [at // 4096 for _, at in rig.drain()] == [10, 11, 12, 9, 50, 90]
    rig = Rig(lib, (4096 * 1000, 1 * MS))
    for page in (10, 90, 11, 50, 12):
        rig.submit(0, 0, page * 4096, 4096)
    assert [at // 4096 for _, at in rig.drain()] == [10, 90, 11, 50, 12]
    rig = Rig(lib, (4096 * 1000, 1 * MS), ncq=32)
    for page, size in ((10, 4096), (90, 4096), (0, 0), (11, 4096)):
        rig.submit(0, 0, page * 4096, size)
    assert [at // 4096 for _, at in rig.drain()] == [10, 90, 0, 11]


def test_a_queue_takes_what_comes_by_first(lib: ctypes.CDLL) -> None:
    # A track is 8 ms, 32768 bytes; seeks end a sector's time later. Page 0 ends at 1, so the head is at angle 2
    # after a seek: of pages 7, 6 and 3, though 6 was asked for before 3, the one at angle 3 comes by first, and then
    # after one more seek 6 and behind it, without one, 7.
    rig = Rig(lib, (4096 * 1000, 1 * MS), rotation=8 * MS, ncq=8)
    rig.disks[0].head = 0
    for page in (0, 7, 6, 3):
        rig.submit(0, 0, page * 4096, 4096)
    assert [(when // MS, at // 4096) for when, at in rig.drain()] == [(1, 0), (4, 3), (7, 6), (8, 7)]


def test_none_is_passed_over_more_often_than_the_disk_has_choices(lib: ctypes.CDLL) -> None:
    rig, far = Rig(lib, (4096 * 1000, 1 * MS), ncq=8), 1 << 30
    rig.submit(0, 0, 0, 4096)
    rig.submit(0, 0, far, 4096)
    for number in range(1, 40):
        rig.submit(0, 0, number * 4096, 4096)
    assert [at for _, at in rig.drain()].index(far) == 1 + 8


@pytest.mark.parametrize(
    ("rates", "capacity", "shares"),
    [((5, 8), 12, (5, 7)), ((2, 8, 8), 12, (2, 5, 5)), ((1, 3, 9), 100, (1, 3, 9)), ((8,) * 24, 48, (2,) * 24)],
)
def test_unlike_disks_have_max_min_shares(
    lib: ctypes.CDLL, rates: tuple[int, ...], capacity: int, shares: tuple[int, ...]
) -> None:
    rig, link = Rig(lib, *((rate * MB, 0) for rate in rates)), Link(rate=capacity * MB)
    for number in range(400):
        for disk in range(len(rates)):
            rig.submit(disk, 0, number * KIB64, KIB64, link)
    second = 10**9
    while (when := rig.next()) is not None and when <= second:
        rig.lib.model_finished(byref(rig.model), c_uint64(when))
    done = [disk.bytes / MB for disk in rig.disks]
    # A request of each may be unfinished.
    assert done == [pytest.approx(share, abs=2 * KIB64 / MB) for share in shares]
    busy = rig.lib.model_link_busy(byref(rig.model), byref(link), c_uint64(second))
    assert busy == pytest.approx(second * min(1, sum(rates) / capacity), rel=1e-3)


def test_a_path_is_as_narrow_as_its_narrowest_link(lib: ctypes.CDLL) -> None:
    rig = Rig(lib, (80 * MB, 0), (80 * MB, 0))
    wide, narrow, other = Link(rate=100 * MB), Link(rate=20 * MB), Link(rate=70 * MB)
    for number in range(200):
        rig.submit(0, 0, number * KIB64, KIB64, wide, narrow)
        rig.submit(1, 0, number * KIB64, KIB64, wide, other)
    rig.drain()
    assert rig.disks[0].busy == pytest.approx(200 * KIB64 * 1e9 / (20 * MB), rel=1e-6)
    assert rig.disks[1].busy == pytest.approx(200 * KIB64 * 1e9 / (70 * MB), rel=1e-6)
    # What a disk cannot do because of its links is not its own time.
    assert rig.disks[0].waited == pytest.approx(200 * KIB64 * 1e9 * (1 / (20 * MB) - 1 / (80 * MB)), rel=1e-6)


def test_two_paths_to_a_disk_share_its_head_and_its_line(lib: ctypes.CDLL) -> None:
    rig, one, two = Rig(lib, (4096 * 1000, 8 * MS)), Link(rate=10**9), Link(rate=10**9)
    for number in range(6):
        rig.submit(0, 0, number * 4096, 4096, two if number % 2 else one)
    assert [when for when, _ in rig.drain()] == [(number + 1) * MS for number in range(6)]
    assert (rig.disks[0].seeks, one.jobs, two.jobs) == (0, 3, 3)


def test_the_line_of_a_disk_is_counted_over_time(lib: ctypes.CDLL) -> None:
    rig = Rig(lib, (4096 * 1000, 0))
    for number in range(3):
        rig.submit(0, 0, number * 4096, 4096)
    rig.drain()
    # Three for the first ms, two for the second, one for the third.
    assert (rig.disks[0].queue.sum, rig.disks[0].queue.most, rig.disks[0].queue.held) == (6 * MS, 3, 0)


def _use(rig: Rig, link: Link) -> float:
    """What is used of a link now, 1 being all."""
    use = 0.0
    for disk in rig.disks:
        if disk.phase != MOVING or not disk.flow.least:
            continue
        for place in range(4):
            if disk.first.contents.links[place] and ctypes.addressof(disk.first.contents.links[place].contents) == (
                ctypes.addressof(link)
            ):
                use += disk.flow.speed / ALONE * disk.flow.links[place] / disk.flow.least
    return use


def _held_back(rig: Rig, links: list[Link]) -> None:
    """A flow is as fast as alone, or one of its links is full; and no link carries more than it can."""
    use = {ctypes.addressof(link): _use(rig, link) for link in links}
    assert max(use.values()) < 1 + 1e-6
    for disk in rig.disks:
        if disk.phase != MOVING or disk.flow.speed == ALONE:
            continue
        own = [disk.first.contents.links[place] for place in range(4)]
        assert max(use[ctypes.addressof(link.contents)] for link in own if link) > 1 - 1e-6


ARRIVALS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 30), st.integers(0, 9), st.integers(0, 7), st.integers(0, 4000)),
    max_size=60,
)


@given(ARRIVALS, st.integers(1, 8), st.sampled_from((0, 3 * MS)))
def test_no_disk_rests_with_jobs_and_none_is_lost_or_overtaken_without_choices(
    lib: ctypes.CDLL, arrivals: list[tuple[int, int, int, int, int]], ncq: int, rotation: int
) -> None:
    rig = Rig(lib, (8 * MB, MS), (20 * MB, 0), (3 * MB, 2 * MS), (50 * MB, 0), ncq=ncq, rotation=rotation)
    links = [Link(rate=10 * MB), Link(rate=30 * MB, cost=50_000), Link(rate=7 * MB)]
    done, now = list[int](), 0
    wanted = [0, 0, 0]

    def run(until: int | None) -> None:
        while (when := rig.next()) is not None and (until is None or when <= until):
            _held_back(rig, links)
            assert all(disk.phase for disk in rig.disks if disk.first), "a disk with jobs rests"
            while job := rig.lib.model_finished(byref(rig.model), c_uint64(when)):
                assert job.contents.passed <= ncq
                done.append(job.contents.at)

    for number, (disk, place, sectors, path, later) in enumerate(arrivals):
        run(now := now + later * 1000)
        mine = [link for bit, link in enumerate(links) if path >> bit & 1]
        for bit in range(3):
            if path >> bit & 1 and sectors:
                wanted[bit] += links[bit].cost + -(-sectors * 512 * 10**9 // links[bit].rate)
        # The offset is the job's number too.
        rig.submit(disk, now, place * 1000 + number, sectors * 512, *mine)
    run(None)
    back = [at % 1000 for at in done]
    assert sorted(back) == list(range(len(arrivals)))
    for own in range(4):
        order = [number for number in back if arrivals[number][0] == own]
        assert ncq > 1 or order == sorted(order)
    assert sum(disk.bytes for disk in rig.disks) == sum(sectors * 512 for _, _, sectors, _, _ in arrivals)
    assert [link.busy for link in links] == wanted
    assert [link.demand for link in links] == [0, 0, 0]
    assert [disk.queue.held for disk in rig.disks] == [0] * 4
