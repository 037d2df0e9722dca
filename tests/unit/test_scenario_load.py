# SPDX-License-Identifier: GPL-2.0-only
"""The scenario loader: what a file means, and every mistake with its place and its remedy."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from harness.base.plain import identity
from harness.scenario.load import find_scenarios, is_shipped, read_scenario
from harness.scenario.loads import refused
from harness.scenario.model import Operand
from harness.scenario.timing import Clock
from lab.base.errors import MOST_SHOWN, Misuse
from tests.unit.scenario_text import GOOD, RIG, load, mistakes

SCENARIOS = Path(__file__).parents[2] / "scenarios"


def test_what_a_file_means(tmp_path: Path) -> None:
    scenario = load(GOOD, tmp_path)
    assert (scenario.clock, scenario.seeds, scenario.pause) == (Clock.VIRTUAL, 2, 65 * 10**9)
    limited = scenario.arms["limited"]
    assert limited.topology.hbas["twa0"].cmd_per_lun == 16
    assert limited.queue == {"scheduler": "none"}
    assert limited.settings == {"hba.cmd_per_lun": "16"}
    lopsided = scenario.loads["lopsided"]
    assert (lopsided.ramp, lopsided.runtime) == (10**9, 8 * 10**9)
    hog = lopsided.roles["hog"]
    assert (hog.disks, hog.rw, hog.bs, hog.iodepth, hog.ioengine, hog.direct) == (
        ("p0",), "randread", 4096, 256, "libaio", True,
    )  # fmt: skip
    ratio = scenario.claims[0].ratio
    assert ratio.left == Operand("figure", ("limited", "lopsided", "victim", "iops"))
    assert scenario.claims[0].expect.low == 0.9
    assert scenario.controls[0].mutant == ""


def test_a_scenario_of_the_checkout_is_known_by_its_name_and_its_folder() -> None:
    refs = ("shared-queue", "hunt/qos-sleepers", "qos-sleepers", f"{SCENARIOS}/shared-queue", "wall/../flush")
    assert [is_shipped(ref) for ref in refs] == [True, True, False, False, False]


def test_options_of_fio_are_written_as_fio_reads_them(tmp_path: Path) -> None:
    options = "rw: randrw, rwmixread: 70, rate: 1 MB/s, thinktime: 2ms, norandommap: true, size: 64M, offset: 1M"
    scenario = load(GOOD.replace("rw: randread, bs: 4k, iodepth: 256", f"{options}, bs: 4k, iodepth: 8"), tmp_path)
    assert scenario.loads["lopsided"].roles["hog"].options == {
        "rwmixread": "70",
        "rate": "1000000",
        "thinktime": "2000",
        "norandommap": "1",
        "size": str(64 << 20),
        "offset": str(1 << 20),
    }


@pytest.mark.parametrize("disks", ["p0..1", "[p0, p1]", "[p0..1]"])
def test_a_role_may_be_on_several_disks(disks: str, tmp_path: Path) -> None:
    (tmp_path / "rig.yaml").write_text(RIG.replace("rate: 1 MB/s", "service: 1ms"))
    text = GOOD.replace("topology: neighbours", "topology: ./rig.yaml").replace("disk: p0", f"disk: {disks}")
    hog = load(text, tmp_path).loads["lopsided"].roles["hog"]
    assert hog.disks == ("p0", "p1")
    assert [(one.name, one.disk, one.iodepth) for one in hog.apart()] == [("hog.p0", "p0", 256), ("hog.p1", "p1", 256)]
    with pytest.raises(ValueError, match="too many"):
        _ = hog.disk


def test_a_load_has_its_window_an_arm_its_topology_and_a_queue_the_scheduler_first(tmp_path: Path) -> None:
    scenario = load(GOOD.replace("  solo:\n", "  solo:\n    window: {ramp: 0s, runtime: 2s}\n"), tmp_path)
    assert scenario.loads["solo"].runtime == 2 * 10**9
    assert scenario.loads["lopsided"].runtime == 8 * 10**9
    assert set(scenario.loads["solo"].roles) == {"victim"}
    arm = "shared: {queue.nr_requests: 128, queue.iosched.read_expire: 100, queue.scheduler: mq-deadline}"
    scenario = load(GOOD.replace("shared: {hba.cmd_per_lun: 64}", arm), tmp_path)
    assert list(scenario.arms["shared"].queue.items()) == [
        ("scheduler", "mq-deadline"),
        ("nr_requests", "128"),
        ("iosched/read_expire", "100"),
    ]
    text = GOOD.replace("limited: {", "limited: {topology: neighbours-one-queue, ")
    scenario = load(text, tmp_path)
    assert scenario.arms["shared"].topology.name == "neighbours"
    assert scenario.arms["limited"].topology.name == "neighbours-one-queue"
    assert scenario.arms["limited"].settings["topology"] == "neighbours-one-queue"


def test_the_queue_of_a_topology_comes_before_that_of_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "rig.yaml").write_text(RIG + "queue: {scheduler: bfq, nr_requests: 64, read_ahead_kb: 512}\n")
    text = GOOD.replace("topology: neighbours", "topology: ./rig.yaml")
    text = text.replace("queue: {scheduler: none}", "queue: {nr_requests: 128}").replace("iodepth: 256", "iodepth: 8")
    queue = load(text.replace("shared: {", "shared: {queue.read_ahead_kb: 4, "), tmp_path).arms["shared"].queue
    assert queue == {"scheduler": "bfq", "nr_requests": "128", "read_ahead_kb": "4"}


def test_a_topology_is_inline_or_in_a_file_next_to_the_scenario(tmp_path: Path) -> None:
    inline = """\
topology:
  memory: 512M
  disks: {p0: {size: 1G, service: 1ms}, p1: {size: 1G, service: 1ms}}
  hbas: {h: {driver: tcm_loop, can_queue: 64}}
  luns: {p0: {hba: h, disks: [p0]}, p1: {hba: h, disks: [p1]}}
"""
    text = GOOD.replace("topology: neighbours\n", inline)
    assert load(text, tmp_path).arms["shared"].topology.name == "inline"
    assert "t.yaml:7:22: size: expected a size" in mistakes(text.replace("p0: {size: 1G", "p0: {size: x"), tmp_path)
    (tmp_path / "mine.yaml").write_text(RIG.replace("rate: 1 MB/s", "rate: 9 MB/s"))
    text = GOOD.replace("topology: neighbours", "topology: ./mine.yaml")
    assert load(text, tmp_path).arms["shared"].topology.disks["p0"].rate == 9 * 10**6


def test_the_digest_covers_what_is_measured_and_judged_the_order_of_loads_and_the_topology_but_not_text(
    tmp_path: Path,
) -> None:
    first = load(GOOD, tmp_path)
    other_words = GOOD.replace(f"title: {first.title}", "title: Another") + "# more\nteaches: much\n"
    assert (load(other_words, tmp_path).title, load(other_words, tmp_path).digest) == ("Another", first.digest)
    renamed = GOOD.replace(first.claims[0].that, "another name of it", 1)
    assert (load(renamed, tmp_path).claims[0].that, load(renamed, tmp_path).digest) == (
        "another name of it",
        first.digest,
    )
    for old, new in (
        ("iodepth: 256", "iodepth: 255"),
        (first.claims[0].expect.text, ">= 0.123"),
        ("seeds: 2", "seeds: 3"),
    ):
        assert load(GOOD.replace(old, new, 1), tmp_path).digest != first.digest, old
    first = load(GOOD, tmp_path)
    turned = replace(first, loads=dict(reversed(list(first.loads.items()))))
    assert identity(first) == first.digest != identity(turned)
    text = GOOD.replace("topology: neighbours", "topology: ./mine.yaml")
    (tmp_path / "mine.yaml").write_text(RIG)
    before = load(text, tmp_path).digest
    (tmp_path / "mine.yaml").write_text(RIG.replace("rate: 1 MB/s", "rate: 2 MB/s"))
    assert load(text, tmp_path).digest != before


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ("iodepth: 256", 'iodepth: "32"', 't.yaml:16:52: iodepth: expected an integer, got "32" (remove the quotes)'),
        ("iodepth: 256", "iodpeth: 256", "t.yaml:16:43: iodpeth: unknown key, did you mean iodepth?"),
        ("iodepth: 256", "iodepth: 0", "iodepth: expected an integer from 1 to 4096, got 0"),
        ("iodepth: 256", "iodepth: 1, iodepth: 2", "t.yaml:16:55: iodepth: duplicate key, first in line 16"),
        ("title: A test", "title: A test\nfrom: {report: x, kernel: 6.10}", 'a number in YAML (quote it: "6.10")'),
        (
            "title: A test",
            "title: A test\nfrom: {report: x, on: 2006-03-14, by: y}\nextra: 1",
            "t.yaml:4:1: extra: unknown key",
        ),
        ("schema: 1\n", "", "scenario: schema is missing (write schema: 1)"),
        ("schema: 1", "schema: 2", "t.yaml:4:9: schema: expected an integer from 1 to 1, got 2"),
        ("clock: virtual", "clock: wall", "t.yaml:7:8: seeds: the wall clock has boots"),
        ("clock: virtual", "clock: wall\nboots: 5", "boots: expected an integer from 6 to 64, got 5"),
        ("clock: virtual", "clock: vitual", "(did you mean virtual?)"),
        ("seeds: 2", "boots: 12", "t.yaml:7:8: boots: the virtual clock repeats every boot"),
        ("seeds: 2", "windows: 2", "t.yaml:7:10: windows: the virtual clock repeats every boot"),
        ("{scheduler: none}", "{scheduler: none, io_timeout: 40000}", "pause: expected more than 80 s, twice the"),
        ("seeds: 2", "seeds: 65", "seeds: expected an integer from 1 to 64, got 65"),
        ("seeds: 2", "pause: 60s", "t.yaml:7:8: pause: expected more than 60 s"),
        ("scenario: t", "scenario: u", "scenario: expected t, the name of the file, got u"),
        ("scenario: t", "scenario: T_x", "scenario: expected a name of at most 40 characters a-z, 0-9 and -"),
        (
            "topology: neighbours",
            "topology: neighbour",
            "topology: no topology neighbour in the catalogue, did you mean",
        ),
        ("topology: neighbours", "topology: ./none.yaml", "t.yaml:5:11: topology: topology none.yaml does not exist"),
        ("topology: neighbours\n", "", "t.yaml:9:11: topology is missing"),
        ("queue: {scheduler: none}\n", "", "t.yaml:9:11: arm shared: queue.scheduler is missing"),
        (
            "scheduler: none",
            "scheduler: as",
            "scheduler: expected one of none, mq-deadline, kyber, bfq, noop, deadline",
        ),
        ("scheduler: none", "scheduler: none, nr_requests: 65", "nr_requests 65 exceeds 64"),
        ("scheduler: none", "scheduler: bfq, nr_requests: 2049", "nr_requests 2049 exceeds 2048"),
        ("scheduler: none", "scheduler: none, iosched.low_latency: 0", "queue.iosched needs an elevator"),
        ("scheduler: none", "scheduler: none, async_depth: 8", "queue.async_depth needs an elevator"),
        ("scheduler: none", "scheduler: none, throttle.read_iops: 0", "throttle.read_iops: expected an integer from 1"),
        ("scheduler: none", "scheduler: none, throttle.iops: 9", "throttle.iops: unknown key"),
        ("window: {ramp: 1s, runtime: 8s}\n", "", "load solo: window is missing"),
        ("runtime: 8s}", "runtime: 8s, of: 0s}", "of: expected at least 1 us"),
        ("ramp: 1s, runtime: 8s", "ramp: 1s, runtime: 49ms", 'runtime: expected at least 50 ms, got "49ms"'),
        ("ramp: 1s, runtime: 8s", "ramp: 1, runtime: 8s", "ramp: expected a time such as 400ms or 20s, got 1"),
        ("hba.cmd_per_lun: 64", "hba.cmd_per_lun: 65", "t.yaml:10:11: arm shared: hba twa0: cmd_per_lun 65 exceeds"),
        ("hba.cmd_per_lun: 64", "hba.cmd_per_lum: 64", "hba.cmd_per_lum: unknown key, did you mean hba.cmd_per_lun?"),
        ("hba.cmd_per_lun: 64", "hba.cmd_perlun: 64", "hba.cmd_perlun: unknown key, did you mean hba.cmd_per_lun?"),
        ("hba.cmd_per_lun: 64", "disk.d0.rates: 1 MB/s", "unknown key, did you mean disk.NAME.rate?"),
        ("hba.cmd_per_lun: 64", "hba.twa9.can_queue: 64", "hba.twa9.can_queue: no HBA twa9"),
        ("hba.cmd_per_lun: 64", "disk.p0.rate: 1500 kB/s", "arm shared: disk p0: 1.5 MB/s is not a whole number"),
        ("  shared: {", "  bound: {", "arm bound: the name is reserved"),
        ("disk: p0", "disk: p2", "t.yaml:16:17: disk: no disk p2 in topology neighbours of arm shared"),
        ("disk: p0", "disk: [p0, p2]", "t.yaml:16:17: disk: no disk p2 in topology neighbours of arm shared"),
        ("disk: p0", "disk: [p0, p0]", 't.yaml:16:17: disk: "p0" is listed twice'),
        ("disk: p0", "disk: []", "disk: expected 1 to"),
        ("disk: p0", "disk: [p0, p1], stagger: 2s", "t.yaml:16:10: stagger: the last disk of hog starts 2 s late"),
        ("rw: randread, bs: 4k, iodepth: 256", "rw: read, bs: 4k, iodepth: 1, zero_buffers: true", "does not write"),
        ("disk: p0", "disk: {p0: 1}", "t.yaml:16:17: disk: expected a name"),
        ("disk: p0", "disk: p2..9", "t.yaml:16:17: disk: no disk p2 in topology neighbours of arm shared"),
        ("rw: randread, bs: 4k, iodepth: 256", "rw: randread, bs: 64k, iodepth: 1", "would wait forever"),
        ("rw: randread, bs: 4k, iodepth: 256", "rw: read, bs: 4k, iodepth: 8", "sequential requests in flight"),
        ("bs: 4k, iodepth: 256", "bs: 4k, iodepth: 1, direct: false", "direct: the page cache makes requests of any"),
        ("bs: 4k, iodepth: 256", "bs: 1000, iodepth: 1", "bs: 1000 is not a multiple of 512"),
        ("bs: 4k, iodepth: 256", "bs: 4k, iodepth: 2, ioengine: psync", "iodepth: psync has one request in flight"),
        ("bs: 4k, iodepth: 256", "bs: 4k, iodepth: 2, rwmixread: 5", "rwmixread: rw: randread does not mix"),
        ("bs: 4k, iodepth: 256", "bs: 4k, iodepth: 2, fsync: 5", "fsync: rw: randread does not write"),
        ("bs: 4k, iodepth: 256", "bs: 4k, iodepth: 2, fixedbufs: true", "fixedbufs: libaio does not have it"),
        ("bs: 4k, iodepth: 256", "bs: 4k, iodepth: 2, force_async: 1", "force_async: libaio does not have it"),
        ("bs: 4k, iodepth: 256", "bs: 4k, iodepth: 2, iodepth_batch: 4", "iodepth_batch: more than the iodepth of 2"),
        ("bs: 4k, iodepth: 256", "bs: 4k, iodepth: 2, size: 2G", "p0 of 1G is too small"),
        ("rw: randread, bs: 4k, iodepth: 256", "rw: trim, bs: 4k, iodepth: 2", "fio discards one block at a time"),
        ("rw: randread, bs: 4k, iodepth: 256", "rw: trim, bs: 4k, iodepth: 1", "rw: p0 takes no discards"),
        ("bs: 4k, iodepth: 256", "bs: 4k, iodepth: 2, offset: 1G", "p0 of 1G is too small"),
        (
            "bs: 4k, iodepth: 256",
            "bs: 4k, iodepth: 2, random_distribution: zipf:1.0",
            "a distribution such as zipf:1.2",
        ),
        ("bs: 4k, iodepth: 256", "bs: 4k, iodepth: 2, filename: /dev/sda", "filename: unknown key"),
        ("    hog:", "    Hog:", "Hog: unknown key"),
        (
            "    ratio: limited.lopsided",
            "    ratio: limited.lopsidde",
            "t.yaml:20:20: ratio, character 9: no load lopsidde, did",
        ),
        ("ratio: shared.lopsided.hog.iops", "ratio: shared.lopsided.hog.iosp", "no metric iosp, did you mean iops?"),
        ('expect: ">= 0.9"', 'expect: "=> 0.9"', "t.yaml:21:13: expect: expected a bound such as"),
        ('expect: ">= 0.9"', "expect: 0.9", "expect: expected a bound"),
        ('expect: ">= 0.9"', 'expect: ">= 0"', 'expect, character 1: ">= 0" always holds'),
        ("  - that: it can fail", "  - mutant: X Y\n    that: it can fail", "mutant: expected a name"),
        ("    hog: {disk", "    hog: [disk", "t.yaml:16:"),
        ("arms:\n", "arms: none\narm:\n", "arms: expected a mapping from names to arms"),
    ],
)
def test_mistakes(old: str, new: str, wanted: str, tmp_path: Path) -> None:
    assert old in GOOD
    found = mistakes(GOOD.replace(old, new), tmp_path)
    assert wanted in found, found


def test_all_mistakes_come_at_once_and_each_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    for old, new in [("iodepth: 256", "iodpeth: 256"), ("disk: p0", "disk: p2"), ("size: 1G", "")]:
        found = mistakes(GOOD.replace(old, new), tmp_path) if old in GOOD else "-"
        places = [line.split(": ")[0] for line in found.splitlines()]
        assert len(set(found.splitlines())) == len(places)
    assert len(mistakes(GOOD.replace("iodepth: 256", 'iodepth: "256"'), tmp_path).splitlines()) == 1
    text = GOOD.replace("iodepth: 256", 'iodepth: "32"').replace("seeds: 2", "seeds: two")
    text = text.replace("limited.solo", "limited.sol").replace("schema: 1", "schema: 1\nschema: 1")
    lines = mistakes(text, tmp_path).splitlines()
    assert [int(line.split(":")[1]) for line in lines] == [5, 8, 17, 21]


def test_a_scenario_may_only_measure_but_claims_and_controls_go_together(tmp_path: Path) -> None:
    before, both = GOOD.split("claims:")
    assert load(before, tmp_path).claims == ()
    claims, controls = both.split("controls:")
    assert "t.yaml:1:1: scenario: controls is missing (negative controls" in mistakes(
        GOOD.split("controls:")[0], tmp_path
    )
    assert "scenario: claims is missing (add a claim" in mistakes(f"{before}controls:{controls}", tmp_path)
    # A misspelt key is the only mistake.
    assert len(mistakes(f"{before}claimz:{claims}controls:{controls}", tmp_path).splitlines()) == 1


def test_a_scenario_has_controls_and_a_bounded_number_of_roles(tmp_path: Path) -> None:
    assert "controls: expected 1 to" in mistakes(GOOD.split("controls:")[0] + "controls: []\n", tmp_path)
    many = "".join(f"    r{i}: {{disk: p1, rw: randread, bs: 4k, iodepth: 1}}\n" for i in range(128))
    found = mistakes(GOOD.replace("  solo:\n", "  solo:\n" + many), tmp_path)
    assert "load solo: expected at most 128 roles" in found
    cloned = GOOD.replace("bs: 4k, iodepth: 256", "bs: 4k, iodepth: 1, numjobs: 256")
    assert "load lopsided: expected at most 256 jobs, got 257" in mistakes(cloned, tmp_path)
    load(cloned.replace("256", "255"), tmp_path)


def test_commands_that_would_time_out_are_refused(tmp_path: Path) -> None:
    scenario = load(GOOD.replace("bs: 4k, iodepth: 256", "bs: 20k, iodepth: 4096"), tmp_path)
    arm, roles = scenario.arms["shared"], scenario.loads["lopsided"].roles
    # 50 requests of 20 KiB a second: 64 in flight wait for 1.3 s, 2,000 would wait for 40 s.
    assert not list(refused(roles["hog"], roles.values(), arm))
    deep = replace(arm.topology.hbas["twa0"], can_queue=2000, cmd_per_lun=2000)
    arm = replace(arm, topology=replace(arm.topology, hbas={"twa0": deep}))
    (reason,) = refused(roles["hog"], roles.values(), arm)
    assert reason[0] == "iodepth"
    assert "serves 2000 requests in 40 s, the command timeout is 30 s" in reason[1]


def test_a_mix_of_reads_and_writes_has_no_percentiles_and_one_of_clocks_is_refused(tmp_path: Path) -> None:
    text = GOOD.replace("shared.lopsided.hog.iops", "shared.lopsided.hog.clat.p99")
    load(text, tmp_path)
    found = mistakes(text.replace("disk: p0, rw: randread", "disk: p0, rw: randrw"), tmp_path)
    assert "role hog of load lopsided has no clat.p99: fio counts its reads and writes apart" in found
    (tmp_path / "mine.yaml").write_text(RIG.replace("driver: tcm_loop", "driver: megasas"))
    found = mistakes(GOOD.replace("topology: neighbours", "topology: ./mine.yaml"), tmp_path)
    assert "topology rig: megasas: QEMU devices complete in host time" in found


HITS = """\
scenario: t
title: A test
schema: 1
topology: ./mine.yaml
queue: {scheduler: none}
window: {ramp: 0s, runtime: 8s}
arms: {one: {}}
loads:
  both:
    reader: {disk: p0, rw: randread, bs: 4k, iodepth: 1, ioengine: psync, direct: false}
    other: {disk: p1, rw: randread, bs: 4k, iodepth: 1}
claims:
  - {that: much is cached, ratio: one.both.reader.page_cache.hits, expect: ">= 0.5"}
controls:
  - {that: it can fail, ratio: one.both.other.iops, expect: "<= 9"}
"""


@pytest.mark.parametrize(
    ("was", "now"),
    [("direct: false", "direct: true"), ("randread", "randwrite"), ("ramp: 0s", "ramp: 1s"), ("p1", "p0")],
)
def test_hits_in_the_page_cache_are_told_by_readers_whose_disk_reads_for_them_alone(
    was: str, now: str, tmp_path: Path
) -> None:
    (tmp_path / "mine.yaml").write_text(RIG.replace("rate: 1 MB/s", "service: 1ms"))
    load(HITS, tmp_path)
    found = mistakes(HITS.replace(was, now, 1), tmp_path)
    assert "role reader of load both has no page_cache.hits: it is known of a buffered role" in found


def test_folios_are_counted_in_loads_that_say_so_on_filesystems_with_a_device_number(tmp_path: Path) -> None:
    text = HITS.replace("reader.page_cache.hits", "reader.folios.order0").replace("disk: p0", "disk: fs, size: 1M")
    text = text.replace("    other: {disk: p1, rw: randread, bs: 4k, iodepth: 1}\n", "").replace("other", "reader")
    fs = "stacks: {fs: {kind: filesystem, type: ext4, over: [p0]}}\n"
    rig = RIG.replace("rate: 1 MB/s", "service: 1ms").replace("size: 1G", "size: 512M").replace("tcm_loop", "null_blk")
    (tmp_path / "mine.yaml").write_text(rig + fs)
    assert "has no folios.order0: they are counted in a load with folios: true" in mistakes(text, tmp_path)
    text = text.replace("  both:\n", "  both:\n    folios: true\n")
    assert load(text, tmp_path).loads["both"].folios
    btrfs = text.replace("{one: {}}", "{one: {}, two: {stack.fs.type: btrfs}}")
    assert "the folios of fs are not counted" in mistakes(btrfs, tmp_path)
    assert "the folios of p1 are not counted" in mistakes(text.replace("disk: fs", "disk: p1"), tmp_path)


def test_a_long_list_of_mistakes_is_cut_and_counted(tmp_path: Path) -> None:
    anchors = ", ".join(f"&a{number} x" for number in range(10_000))
    lines = mistakes(GOOD.replace("  shared: {", f"  many: [{anchors}]\n  shared: {{"), tmp_path).splitlines()
    assert len(lines) == MOST_SHOWN + 1
    assert "anchors and aliases are refused" in lines[1]
    assert lines[-1] == f"... and {10_001 - MOST_SHOWN} more mistakes"


def test_a_cause_is_listed_before_its_symptoms(tmp_path: Path) -> None:
    rig = RIG.replace("p1: {hba: twa0", "p1: {hba: twa1").replace("p0: {hba: twa0", "p0: {hba: twa1")
    inline = "topology:\n" + "".join(f"  {line}\n" for line in rig.replace("topology: rig\n", "").splitlines())
    lines = mistakes(GOOD.replace("topology: neighbours\n", inline), tmp_path).splitlines()
    assert [line.split(": ", 1)[1].split(",")[0] for line in lines] == [
        "lun p0: no HBA twa1",
        "lun p1: no HBA twa1",
        "hba twa0: no LUN uses it (remove it or name it under luns)",
    ]
    lines = mistakes(GOOD.replace("\nloads:", "\nloadz:"), tmp_path).splitlines()
    assert lines[0].endswith("loadz: unknown key, did you mean loads?")
    misnamed = GOOD.replace("topology: neighbours\n", inline.replace("twa1", "Twa0").replace("twa0", "Twa0"))
    assert 'HBA "Twa0": expected a name' in mistakes(misnamed, tmp_path).splitlines()[0]


@pytest.mark.parametrize(
    ("line", "count"),
    [
        *((line, 4000) for line in ("a{}: 1", "- {}", "  h{}: {{disk: p0}}", "a{}: {{b: [1, 2]}}")),
        ("    hba.unknown{}: 1", 40_000),  # keys of an arm
    ],
)
def test_mistakes_in_a_huge_file_are_reported_in_bounded_time(line: str, count: int, tmp_path: Path) -> None:
    text = "\n".join(line.format(number) for number in range(count))
    if line.startswith("    "):
        text = GOOD.replace("  shared: {", f"  many:\n{text}\n  shared: {{")
    started = time.process_time()
    mistakes(text, tmp_path)
    assert time.process_time() - started < 20


def test_an_unknown_scenario_gets_a_suggestion() -> None:
    with pytest.raises(Misuse, match="did you mean shared-queue") as caught:
        read_scenario("shared-qeue")
    assert "null-shared-tags" in caught.value.remedy
    with pytest.raises(Misuse, match="does not exist"):
        read_scenario("./none.yaml")
    with pytest.raises(Misuse, match="no scenario"):
        read_scenario("")


def test_a_scenario_from_any_path(tmp_path: Path) -> None:
    path = tmp_path / "other-name.yaml"
    path.write_text(GOOD)
    assert read_scenario(str(path)).name == "t"


def test_scenarios_of_a_folder_are_found_by_name(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yaml", "Bad Name.yaml", "c.txt"):
        (tmp_path / name).write_text("")
    assert list(find_scenarios(tmp_path)) == ["a", "b"]
    assert find_scenarios(tmp_path / "none") == {}


@pytest.mark.parametrize("name", find_scenarios(SCENARIOS / "wall"))
def test_scenarios_of_the_wall_clock_load_on_qemus_controllers(name: str) -> None:
    scenario = read_scenario(f"wall/{name}")
    assert scenario.clock is Clock.WALL
    assert all(arm.topology.emulated for arm in scenario.arms.values())
    assert scenario.teaches


def test_the_clock_selects_the_devices(tmp_path: Path) -> None:
    wall = GOOD.replace("clock: virtual", "clock: wall").replace("seeds: 2\n", "")
    assert {arm.topology.emulated for arm in load(wall, tmp_path).arms.values()} == {True}
    assert {arm.topology.emulated for arm in load(GOOD, tmp_path).arms.values()} == {False}
    text = wall.replace("hba.cmd_per_lun: 16", "hba.cmd_per_lun: 16, hba.can_queue: 63")
    assert "arm limited: hba twa0: can_queue 63: virtio-scsi always has 1024" in mistakes(text, tmp_path)
    few = wall.replace("hba.cmd_per_lun: 16", "disk.p0.rate: 50 kB/s").replace(
        "bs: 4k, iodepth: 256", "bs: 64k, iodepth: 4"
    )
    assert "bs: the throttle of disk p0 passes 6 requests in a window of 8 s" in mistakes(few, tmp_path)
    interrupts = GOOD.replace("hba.cmd_per_lun: 16", "hba.interrupts: 1")
    assert "interrupts: tcm_loop raises none" in mistakes(interrupts, tmp_path)


def test_a_topology_that_does_not_load_is_the_only_error(tmp_path: Path) -> None:
    text = GOOD.replace("seeds: 2", "pause: 5s").replace("{scheduler: none}", "{scheduler: none, io_timeout: 2000}")
    load(text, tmp_path)
    topology = next(line for line in text.splitlines() if line.startswith("topology:"))
    assert "pause" not in mistakes(text.replace(topology, "topology: nosuch"), tmp_path)
