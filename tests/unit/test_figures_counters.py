# SPDX-License-Identifier: GPL-2.0-only
"""The figures of a cell from the files that its boot left: counters, sums, and repeat counts of path selectors."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from harness.figures.boot import LoadFiles, MeasurementError, read_readback
from harness.figures.counters import read_sections, read_window
from harness.figures.read import figures_of, overridden, read_tried, repeat_counts, tried_counts
from harness.figures.samples import read_samples
from harness.judge.cells import result_of_boot
from harness.scenario.model import Arm, Role, Status
from harness.scenario.registry import FIGURES, GUEST, IDLE, PER_IO, BootFile, figure_of
from lab.guest.steps.setting import Try
from lab.realise.recipe import devices
from lab.topology.model import Stack, StackKind
from lab.topology.parameters import apply_try
from tests.unit.analysis_samples import SOLO, TOGETHER, load, null_topology, role
from tests.unit.store_samples import files, fio_result, record, sampled

ROW = "   8       0 sda {} 7 800 40 20 3 160 10 0 30 50 0 0 0 0 0 0"


def reading(reads: int, cpu: str, device: str = "sda") -> bytes:
    row = ROW.format(reads).replace("sda", device)
    return f"== /proc/stat\ncpu  {cpu}\ncpu0 {cpu}\nintr 5\n== /proc/diskstats\n{row}\n".encode()


def test_a_window_is_the_difference_of_two_readings_with_bios_as_the_kernel_counts_them() -> None:
    disks, _ = read_window(reading(100, "10 0 10 100 0 0 0 0 0 0"), reading(350, "20 0 30 150 20 0 0 0 0 0"), "solo")
    assert disks["sda"]["reads"] == 250
    assert disks["sda"]["merges"] == 0
    assert "inflight" not in disks["sda"]
    before = b"== /proc/stat\n== /proc/diskstats\n 8 0 sda 10 1 80 4 20 2 160 8 0 30 12\n"
    after = b"== /proc/stat\n== /proc/diskstats\n 8 0 sda 15 8 200 9 32 5 300 20 3 90 40\n"
    counted = read_window(before, after, "solo")[0]["sda"]
    assert (counted["requests"], counted["merges"], counted["bios"], counted["sectors"]) == (17, 10, 27, 260)
    assert (counted["reads.merged"], counted["writes.merged"], counted["busy.ms"], counted["weighted.ms"]) == (
        7,
        3,
        60,
        28,
    )


def test_a_device_that_was_deleted_meanwhile_is_not_counted() -> None:
    """Its counters begin at 0 again; the name may be another one, or gone."""
    before = GOOD + ROW.format(9).replace("sda", "sdb").encode()
    for row in ("", ROW.format(3).replace("sda", "sdb"), ROW.format(90).replace("sda", "sdb")):
        after = LATER + row.encode()
        assert [*read_window(before, after, "solo", {"sdb"})[0]] == ["sda"]
    with pytest.raises(MeasurementError, match="reads of sdb went backwards"):
        read_window(before, LATER + ROW.format(3).replace("sda", "sdb").encode(), "solo")


def test_discards_and_flushes_are_counted_where_the_kernel_does() -> None:
    """Linux 4.18 added discards to /proc/diskstats, and 5.5 flushes behind them."""
    before = b"== /proc/diskstats\n 8 0 sda 0 0 0 0 0 0 0 0 0 0 0 1 2 3 4 5 6\n"
    after = b"== /proc/diskstats\n 8 0 sda 0 0 0 0 0 0 0 0 0 0 0 11 22 33 44 55 66\n"
    counted = read_window(before, after, "solo")[0]["sda"]
    names = ("discards", "discards.merged", "discards.sectors", "discards.ms", "flushes", "flushes.ms", "requests")
    assert [counted[name] for name in names] == [10, 20, 30, 40, 50, 60, 0]
    for fields in (11, 15):
        old = b"== /proc/diskstats\n 8 0 sda" + b" 0" * fields
        counted = read_window(old, old, "solo")[0]["sda"]
        assert ("discards" in counted, "flushes" in counted) == (fields > 11, False)


GOOD = reading(1, "1 1 1 1 1 1 1 1")
LATER = reading(2, "2 2 2 2 2 2 2 2")


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (reading(9, "0 0 0 0 0 0 0 0"), LATER, "went backwards"),
        (GOOD, reading(2, "2 2 2 2 2 2 2 2", "sdb"), "came or went in the window: sda, sdb"),
        (
            GOOD,
            GOOD + b"".join(ROW.format(1).replace("sda", f"sd{each}").encode() + b"\n" for each in "fedcb"),
            "came or went in the window: sdb, sdc, sdd, sde, sdf",
        ),
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
    assert read_window(first, later("104.50", done), "x")[1] == 2000 * 1024 / 4
    assert read_window(first, later("104.50", "[9/9] [UUU]"), "x")[1] is None
    with pytest.raises(MeasurementError, match=r"2000 KiB synchronised in 0\.0 s"):
        read_window(first, later("100.50", done), "x")
    with pytest.raises(MeasurementError, match="-2000 KiB synchronised"):
        read_window(later("90", done), later("104", "resync = 0.0% (1000/976631808)").replace(b" 9 ", b" 10 "), "x")
    with pytest.raises(MeasurementError, match="no time in /proc/uptime"):
        read_window(first, later("104.50", done).replace(b"/proc/uptime", b"/proc/other"), "x")


def test_figures_of_a_boot_have_the_resync_and_what_a_try_gave() -> None:
    def at(seconds: int, done: int) -> bytes:
        row = f"[>....]  resync =  0.0% ({done}/976631808) finish=1min speed=9K/sec"
        return f"\n== /proc/mdstat\n{row}\n== /proc/uptime\n{seconds}.50 1\n".encode()

    measured = files()
    measured["solo.before"] += at(100, 1000)
    measured["solo.after"] += at(104, 3000)
    measured["tried"] = b"stack.vol.chunk\t/sys/x\t1\t5\n"
    vol = Stack("vol", StackKind.STRIPE, ("fast", "slow"), chunk=4096, tried={"chunk": "4"})
    figures = figures_of(measured, replace(null_topology(), stacks={"vol": vol}), (SOLO, TOGETHER))
    assert figures["solo", "fast", "resync.bw"] == 2000 * 1024 / 4
    assert ("together", "fast", "resync.bw") not in figures
    assert figures["tried", "effective", "stack.vol.chunk"] == 5
    # Interrupts are counted of emulated controllers only.
    assert ("solo", "fast", "interrupts") not in figures


def test_sections_keep_their_text_and_the_read_back_names_devices_and_knobs() -> None:
    assert read_sections(b"== /a\n1\n2\n== /b\n", "x") == {"/a": "1\n2", "/b": ""}
    data = b"device\t/lab/p0\tsda\nqueue.scheduler\t/sys/block/sda/queue/scheduler\tnone\n"
    rows = read_readback(data)
    assert LoadFiles({"readback": data}, null_topology(), SOLO).devices == {"p0": "sda"}
    assert rows[1].value == "none"
    with pytest.raises(MeasurementError, match="line 1 has 1 fields"):
        read_readback(b"nonsense\n")


LOADS = (SOLO, TOGETHER)


def test_every_role_of_every_load_has_its_figures() -> None:
    figures = figures_of(files(solo=100.0, together=95.0), null_topology(), LOADS)
    assert figures["solo", "fast", "iops"] == 100.0
    assert figures["together", "fast", "iops"] == 95.0
    assert figures["together", "slow", "iops"] == 80.0
    assert figures["together", "slow", "lat.p99"] > 0
    assert figures["together", "slow", "disk.reads"] == 1000
    assert figures["together", "slow", "members.reads"] == 1000
    assert ("solo", "slow", "iops") not in figures
    assert figures["solo", "fast", "disk.bios"] == figures["solo", "fast", "disk.requests"] == 1000


def test_what_an_io_costs_the_processor() -> None:
    """Busy time over I/Os of all roles, without what the sampler took."""
    seen = read_samples(sampled("together", "fast", "slow")["together.samples.json"], "together.samples.json")
    figures = figures_of(files(together=95.0) | sampled("together", "fast", "slow"), null_topology(), LOADS)
    assert figures["together", "fast", PER_IO] == pytest.approx((1 - seen.idle - seen.cost) * 1e9 / (95 + 80))
    assert figures["together", "slow", PER_IO] == figures["together", "fast", PER_IO]
    assert 0 < seen.cost < 0.01 < 1 - seen.idle
    unsampled = {name: data for name, data in files().items() if not name.endswith("samples.json")}
    assert not {PER_IO, IDLE} & {metric for _, _, metric in figures_of(unsampled, null_topology(), LOADS)}


def test_the_cost_of_an_io_is_that_of_all_processors() -> None:
    of = sampled("together", "fast", "slow")
    document = json.loads(of["together.samples.json"])
    document["cpu"]["ticks"] *= 2
    document["cpu"]["idle"] = 0
    of["together.samples.json"] = json.dumps(document).encode()
    seen = read_samples(of["together.samples.json"], "x")
    figures = figures_of(files(together=95.0) | of, null_topology(), (TOGETHER,))
    assert seen.cpus == 2
    assert figures["together", "fast", "cpu.per_io"] == pytest.approx((2 - seen.cost) * 1e9 / 175)


@pytest.mark.parametrize(("resolution", "idle", "known"), [(1, 50, True), (10**7, 5, True), (10**7, 6, False)])
def test_ticks_do_not_tell_what_an_io_costs_an_idle_processor(resolution: int, idle: int, known: bool) -> None:
    of = sampled("together", "fast", "slow")
    document = json.loads(of["together.samples.json"])
    document["cpu"] = {"elapsed": 10**9, "idle": idle * 10**7, "resolution": resolution}
    of["together.samples.json"] = json.dumps(document).encode()
    figures = figures_of(files(together=95.0) | of, null_topology(), LOADS)
    assert (("together", "fast", PER_IO) in figures, ("together", GUEST, IDLE) in figures) == (known, True)


def test_a_role_on_several_disks_has_the_sum_of_their_counters_and_each_counter_has_a_name() -> None:
    both = load("together", role("fast", ("fast", "slow")), role("slow", "slow"))
    figures = figures_of(files(), null_topology(), (both,))
    assert figures["together", "fast", "disk.reads"] == 2000
    assert figures["together", "slow", "disk.reads"] == 1000
    figures = figures_of(files(), null_topology(), LOADS)
    counters = {name for name, figure in FIGURES.items() if name.startswith(("disk.", "members."))}
    assert {metric for _, _, metric in figures if metric in counters} == {
        name for name in counters if FIGURES[name].source is BootFile.COUNTERS
    }


def test_the_busiest_path_is_the_one_with_most_requests() -> None:
    rows = "== /proc/diskstats\n 252 0 nullb0 {} 0 0 0 0 0 0 0 0 0 0\n 252 1 nullb1 {} 0 0 0 0 0 0 0 0 0 0\n"
    measured = files() | {"together.before": rows.format(0, 0).encode(), "together.after": rows.format(30, 10).encode()}
    both = load("together", role("fast", ("fast", "slow")), role("slow", "slow"))
    figures = figures_of(measured, null_topology(), (both,))
    assert figures["together", "fast", "paths.busiest"] == 0.75


@pytest.mark.parametrize(
    ("sectors", "settings", "hits"),
    [
        (200, "", 0.75),
        (0, "", 1.0),
        (900, "", 0.0),
        (200, "queue.iostats[fast]\t/sys/block/nullb0/queue/iostats\t0", None),
    ],
)
def test_hits_are_the_bytes_that_the_device_did_not_read(sectors: int, settings: str, hits: float | None) -> None:
    """The recorded job read 409,600 bytes, which are 800 sectors. Where vol counts nothing, its members do."""
    rows = "".join(f" 252 {n} nullb{n} 9 0 {{}} 0 0 0 0 0 0 0 0\n" for n in range(3))
    stacked = replace(null_topology(), stacks={"vol": Stack("vol", StackKind.STRIPE, ("fast", "slow"), chunk=4096)})
    reader, slow = replace(role("fast", "fast"), direct=False), role("slow", "slow")

    def of(*roles: Role, ramp: int = 0, own: int = 0) -> float | None:
        measured = {name: data for name, data in files().items() if not name.endswith("samples.json")}
        measured["readback"] += f"device\t/lab/vol\tnullb2\n{settings}".encode()
        measured["together.json"] = fio_result({each.name: 95.0 for each in roles})
        for when, counted in (("before", (0, 0, 0)), ("after", (sectors, 0, own))):
            measured[f"together.{when}"] = ("== /proc/diskstats\n" + rows.format(*counted)).encode()
        figures = figures_of(measured, stacked, (replace(load("together", *roles), ramp=ramp),))
        return figures.get(("together", "fast", "page_cache.hits"))

    assert of(reader, slow) == hits
    assert of(replace(reader, disks=("vol",))) == hits
    assert of(replace(reader, disks=("vol",)), own=400) == (None if settings else 0.5)
    assert of(reader, slow, ramp=1) is None
    assert of(reader, role("slow", "vol")) is None
    assert of(replace(reader, direct=True), slow) is None
    assert of(replace(reader, rw="randrw"), slow) is None


EVENT = "fio-129 [000] ..... 66.3397{number}: mm_filemap_add_to_page_cache: dev {dev} ino d pfn=0x313c ofs=0{order}"


def traced(*events: tuple[str, str], kept: int | None = None) -> bytes:
    lines = [EVENT.format(number=number, dev=dev, order=order) for number, (dev, order) in enumerate(events)]
    header = f"# entries-in-buffer/entries-written: {len(events) if kept is None else kept}/{len(events)}   #P:1"
    return gzip.compress("\n".join([header, *lines, ""]).encode(), mtime=0)


def is_folio(metric: str) -> bool:
    return figure_of("fast", metric).source is BootFile.TRACE


def folios(trace: bytes) -> dict[str, float]:
    counted = replace(TOGETHER, folios=True)
    figures = figures_of(files() | {"trace.together.txt.gz": trace}, null_topology(), (counted,))
    return {f"{role}.{metric}": value for (_, role, metric), value in figures.items() if is_folio(metric) and value}


def test_folios_are_counted_by_their_order_for_each_disk() -> None:
    """Device 252:0 is that of fast; a page has 8 sectors."""
    found = folios(traced(("252:0", " order=0"), ("252:0", " order=4"), ("252:0", " order=4"), ("0:5", " order=9")))
    assert found == {"fast.folios": 3, "fast.folios.sectors": 264, "fast.folios.order0": 1, "fast.folios.order4": 2}
    assert folios(traced()) == {}


def test_folios_are_unknown_where_the_kernel_does_not_say_their_order() -> None:
    figures = figures_of(
        files() | {"trace.together.txt.gz": traced(("252:0", ""))}, null_topology(), (replace(TOGETHER, folios=True),)
    )
    assert not {metric for _, _, metric in figures if is_folio(metric)}


@pytest.mark.parametrize(
    "trace",
    [
        traced(("252:0", " order=0"), kept=0),
        b"no gzip",
        traced()[:-9],
        traced()[:10] + b"\x07" * 9,
        gzip.compress(b"", mtime=0),
    ],
)
def test_a_trace_that_lost_events_counts_nothing(trace: bytes) -> None:
    with pytest.raises(MeasurementError, match=r"trace.together.txt.gz: it (lost events|cannot be unpacked)"):
        folios(trace)


def test_a_trace_with_more_text_than_a_guest_can_send_counts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.figures.counters._MOST", 100)
    with pytest.raises(MeasurementError, match="it lost events"):
        folios(traced(("252:0", " order=0")))


@pytest.mark.parametrize("name", [name for name in files() if name != "kmsg" and not name.endswith("samples.json")])
def test_no_file_may_be_missing(name: str) -> None:
    measured = files()
    del measured[name]
    with pytest.raises(MeasurementError, match="the guest did not send it") as caught:
        figures_of(measured, null_topology(), LOADS)
    assert caught.value.file == name


@pytest.mark.parametrize(
    ("name", "was", "now", "says"),
    [
        ("readback", b"/lab/slow", b"/lab/other", "no block device is named for LUN slow"),
        ("readback", b"nullb1", b"sdz", r"no row for sdz \(LUN slow\)"),
        ("together.json", b'"slow"', b'"other"', "no job for role slow"),
        ("together.json", b'"slow"', b'"fast"', "reported 2 times, not 1"),
    ],
)
def test_files_that_do_not_fit_together_are_named(name: str, was: bytes, now: bytes, says: str) -> None:
    measured = files()
    measured[name] = measured[name].replace(was, now)
    with pytest.raises(MeasurementError, match=says):
        figures_of(measured, null_topology(), LOADS)


RR = "0 2097152 multipath 0 0 1 1 round-robin 0 2 1 8:0 1 65:128 1 \n"
WARNING = "[    4.306514] device-mapper: multipath round-robin: repeat_count > 1 is deprecated, using 1 instead\n"
MP = Stack("mp", StackKind.MULTIPATH, ("fast", "slow"), repeat_count=100)
TWO_PATHS = replace(null_topology(), stacks={"mp": MP})


@pytest.mark.parametrize(
    ("table", "counts"),
    [
        (RR, {1}),
        ("0 8 multipath 2 queue_mode bio 1 alua 2 1 round-robin 0 1 1 8:0 50 round-robin 0 1 1 8:16 100", {50, 100}),
        ("0 8 multipath 0 0 1 1 service-time 0 2 2 8:0 7 1 8:16 7 1", {7}),
        ("0 8 multipath 0 0 1 1 historical-service-time 2 x y 2 0 8:0 8:16", set()),
    ],
)
def test_counts_are_read_from_the_table(table: str, counts: set[int]) -> None:
    assert repeat_counts(table, "mp.table") == counts


@pytest.mark.parametrize("table", ["", "0 8 linear 8:0 0", "0 8 multipath 0 0 1 1 round-robin 0 2 1 8:0 1"])
def test_other_tables_are_refused(table: str) -> None:
    with pytest.raises(MeasurementError, match="not a table of a multipath device") as caught:
        repeat_counts(table, "mp.table")
    assert caught.value.file == "mp.table"


def test_an_arm_whose_count_the_kernel_changed_is_skipped_in_its_words(tmp_path: Path) -> None:
    sent = {**files(), "mp.table": RR.encode(), "kmsg": WARNING.encode()}
    arm = Arm("rr-100", TWO_PATHS, {}, {})
    cell = result_of_boot(arm, 1, record(tmp_path, sent), (SOLO, TOGETHER), release="6.1")
    assert cell.status is Status.SKIP
    assert not cell.figures
    # One of two paths has the count that was asked for.
    (reason,) = overridden({**sent, "mp.table": RR.replace("128 1", "128 100").encode()}, TWO_PATHS)
    assert "runs with repeat_count 1, 100, not 100" in reason
    (reason,) = cell.reasons
    assert "round-robin of mp runs with repeat_count 1, not 100" in reason
    assert '"device-mapper: multipath round-robin: repeat_count > 1 is deprecated, using 1 instead"' in reason
    assert RR.strip() in reason
    (torn,) = overridden({**sent, "kmsg": WARNING.encode() + b"\xff"}, TWO_PATHS)
    assert torn == reason


def test_an_arm_whose_count_is_effective_is_measured_and_a_missing_table_is_an_error(tmp_path: Path) -> None:
    sent = {**files(), "mp.table": RR.replace(" 1 65", " 100 65").replace("128 1", "128 100").encode()}
    cell = result_of_boot(Arm("rr-100", TWO_PATHS, {}, {}), 1, record(tmp_path, sent), (SOLO, TOGETHER), release="6.1")
    assert cell.status is Status.PASS
    plain = replace(TWO_PATHS, stacks={"mp": replace(MP, repeat_count=1)})
    assert not list(overridden(files(), plain))
    two = replace(TWO_PATHS, stacks={name: replace(MP, name=name) for name in ("mp", "other")})
    assert len([*overridden({**files(), "mp.table": RR.encode(), "other.table": RR.encode()}, two)]) == 1
    with pytest.raises(MeasurementError, match="did not send it"):
        list(overridden(files(), TWO_PATHS))


def test_a_count_under_try_is_measured_with_what_the_kernel_made_of_it(tmp_path: Path) -> None:
    rig = apply_try(TWO_PATHS, "stack.mp.repeat_count", 50)
    assert rig.stacks["mp"].repeat_count == 50
    for table, accepted, effective in (
        (RR, 0, 1),
        (RR.replace(" 1 65", " 50 65").replace("128 1", "128 50"), 1, 50),
        (RR.replace(" 1 65", " 50 65"), 0, 1),
    ):
        sent = {**files(), "mp.table": table.encode(), "kmsg": WARNING.encode()}
        cell = result_of_boot(Arm("rr", rig, {}, {}), 1, record(tmp_path, sent), (SOLO, TOGETHER), release="6.1")
        told = {key[1]: value for key, value in cell.figures.items() if key[0] == "tried"}
        assert (cell.status, told) == (Status.PASS, {"accepted": accepted, "effective": effective})
    with pytest.raises(MeasurementError, match="round-robin has no repeat count"):
        tried_counts({"mp.table": b"0 8 multipath 0 0 1 1 historical-service-time 0 1 0 8:0"}, rig)
    assert not any("repeat_count" in str(step) for step in devices(rig) if isinstance(step, Try))


def test_a_tried_knob_was_accepted_or_not() -> None:
    assert read_tried(b"knob\t/sys/x\t1\t5\n") == {("tried", "accepted", "knob"): 1, ("tried", "effective", "knob"): 5}
    with pytest.raises(MeasurementError, match="0 or 1"):
        read_tried(b"knob\t/sys/x\t2\t5\n")


def test_each_member_of_a_stack_has_counters_of_its_own() -> None:
    stacked = replace(null_topology(), stacks={"vol": Stack("vol", StackKind.STRIPE, ("fast", "slow"), chunk=4096)})
    measured = {name: data for name, data in files().items() if not name.endswith("samples.json")}
    measured["readback"] += b"device\t/lab/vol\tnullb2\n"
    for when, counted in (("before", (0, 0, 0)), ("after", (30, 10, 40))):
        rows = "".join(f" 252 {n} nullb{n} {reads} 0 0 0 0 0 0 0 0 0 0\n" for n, reads in enumerate(counted))
        measured[f"solo.{when}"] = ("== /proc/diskstats\n" + rows).encode()
    figures = figures_of(measured, stacked, (load("solo", role("fast", "vol")),))
    reads = {key[1:]: value for key, value in figures.items() if key[2].endswith(("disk.reads", "members.reads"))}
    assert reads == {
        ("fast", "disk.reads"): 40,
        ("fast", "members.reads"): 40,
        ("lun", "fast.disk.reads"): 30,
        ("lun", "slow.disk.reads"): 10,
    }
    plain = figures_of(measured, stacked, (load("solo", role("fast", "fast")),))
    assert ("solo", "lun", "fast.disk.reads") not in plain and plain["solo", "fast", "disk.reads"] == 30
