# SPDX-License-Identifier: GPL-2.0-only
"""What ``run --trace`` asks of a guest, and executed functions by load, from addresses that a plugin of QEMU wrote."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from harness.run.plan import guest_job
from harness.run.tracing import parse_events
from lab.base.digest import digest_results
from lab.base.errors import CannotJudge, LabBroken, Misuse
from lab.guest.steps import Step, job_files
from lab.guest.steps.device import Module
from lab.guest.steps.load import RunLoad, Sampling, TraceOff, TraceOn
from lab.native.programs import EXECUTED
from lab.observers import executed
from lab.session import Job, PreparedJob, guest_steps
from lab.symbols import Symbol, Symbols
from lab.topology.emulated import emulated
from lab.topology.load import load_topology
from tests.unit.analysis_samples import claim, null_topology, scenario
from tests.unit.payload_samples import idle_lab, kernel
from tests.unit.store_samples import record
from tools.coverage import executed_functions, loaded_modules

MODEL = scenario([claim()], arms=["none", "red"])


def traced_job(*events: str) -> Job:
    plain = guest_job(MODEL, MODEL.arms["none"], 1)
    return Job(plain.queue, plain.loads, plain.pause, plain.phase, plain.labels, trace=events)


def test_events_are_separated_by_commas() -> None:
    assert parse_events("block:*, scsi,block:block_rq_?omplete") == ("block:*", "scsi", "block:block_rq_?omplete")


@pytest.mark.parametrize("text", ["", ",", "block,", "a b", "$(reboot)", "block:a:b", "!block", "../x", "blöck"])
def test_what_is_no_event_is_refused(text: str) -> None:
    with pytest.raises(Misuse, match="is not an event"):
        parse_events(text)


def test_events_are_on_during_each_load_only() -> None:
    steps = [step for step in guest_steps(null_topology(), traced_job("block:*", "irq")) if _concerned(step)]
    kinds = [type(step).__name__ for step in steps]
    assert kinds == ["TraceOn", "RunLoad", "TraceOff"] * len(MODEL.loads)
    assert [step.load for step in steps if isinstance(step, TraceOff)] == list(MODEL.loads)


def test_the_guest_gets_all_events_as_one_field_and_without_events_nothing_is_traced() -> None:
    script = job_files(guest_steps(null_topology(), traced_job()), deadline=1)["script"]
    assert b"trac" not in script
    script = job_files(guest_steps(null_topology(), traced_job("block:*", "irq")), deadline=1)["script"]
    assert script.count(b"\ntrace/on\tblock:* irq\n") == len(MODEL.loads)
    assert b"\ntrace/off\ttrace.solo.txt.gz\n" in script


def test_a_load_whose_folios_are_counted_is_traced_and_no_other() -> None:
    loads = {**MODEL.loads, "solo": replace(MODEL.loads["solo"], folios=True)}
    job = guest_job(replace(MODEL, loads=loads), MODEL.arms["none"], 1)
    script = job_files(guest_steps(null_topology(), job), deadline=1)["script"]
    event = b"trace/on\tfilemap:mm_filemap_add_to_page_cache\nload\tsolo\n"
    assert (script.count(b"\nmkdir\t/sys/kernel/tracing/instances/blklab\n"), script.count(event)) == (1, 1)
    assert (script.count(b"trace/on"), script.count(b"\ntrace/off\ttrace.solo.txt.gz\n")) == (1, 1)
    both = job_files(guest_steps(null_topology(), replace(job, trace=("irq",))), deadline=1)["script"]
    assert both.count(b"trace/on\tirq filemap:mm_filemap_add_to_page_cache\nload\tsolo\n") == 1


def _concerned(step: object) -> bool:
    return isinstance(step, TraceOn | TraceOff | RunLoad)


SYMBOLS = (
    Symbol(0xFFFFFFFF81000000, "blk_mq_submit_bio"),
    Symbol(0xFFFFFFFF81000100, "dd_insert.isra.0"),
    Symbol(0xFFFFFFFF81000200, "dd_dispatch"),
)
WATCHED = Sampling(10**7, 0, 10**9, {})


def functions_of(text: str, symbols: tuple[Symbol, ...] = SYMBOLS) -> frozenset[str]:
    return executed_functions({"solo": text.encode()}, Symbols(symbols))["solo"]


def test_blocks_are_those_of_the_function_before_their_address() -> None:
    text = "ffffffff81000010\nffffffff81000104\nffffffffc0000000\nffffffff80000000\n"
    assert functions_of(text) == {"blk_mq_submit_bio", "dd_insert"}
    assert functions_of("ffffffff81000200\n") == {"dd_dispatch"}


def test_modules_count_where_their_symbols_are_known() -> None:
    known = (*SYMBOLS, Symbol(0xFFFFFFFFC0000000, "nvme_queue_rq", "nvme_core"))
    assert functions_of("ffffffffc0000010\n", known) == {"nvme_queue_rq"}


def job(folder: Path, *steps: Step) -> PreparedJob:
    return PreparedJob(kernel(folder, {}), load_topology("neighbours", near=folder), folder, b"", steps, 1.0, {})


def test_what_a_load_executes_is_not_noted_on_the_wall_clock(tmp_path: Path) -> None:
    """There QEMU executes each CPU in a thread, and ended with signal 11 in two of six boots."""
    virtual = job(tmp_path, RunLoad("solo", "", WATCHED))
    wall = replace(virtual, topology=emulated(virtual.topology))
    with pytest.raises(CannotJudge, match="noted in virtual time"):
        executed(idle_lab(tmp_path / "cache"), wall)


@pytest.mark.parametrize("version", [(7, 2, 22), (9, 0, 0), (10, 0, 2)])
def test_a_plugin_writes_a_window_for_each_sampled_load(version: tuple[int, int, int], tmp_path: Path) -> None:
    lab = idle_lab(tmp_path / "cache", version)
    loads = (RunLoad("solo", "", WATCHED), RunLoad("short", "", None), RunLoad("both", "", WATCHED))
    observed = executed(lab, job(tmp_path, *loads))
    plugin = observed.plugin
    assert (plugin.argv[0], plugin.argv[-1]) == ("./executed.so", "output=window")
    assert observed.wall_limit == 4.0
    plugin.install(tmp_path)
    names = subprocess.run(
        ["nm", "-D", "--defined-only", str(tmp_path / EXECUTED)], check=True, capture_output=True, text=True
    )
    assert names.stdout.split()[2::3] == ["qemu_plugin_install", "qemu_plugin_version"]
    (tmp_path / "window.0").write_text("one\n")
    with pytest.raises(LabBroken, match="saw no window of load both"):
        plugin.windows(tmp_path)
    (tmp_path / "window.1").write_text("two\n")
    assert plugin.windows(tmp_path) == {"solo": b"one\n", "both": b"two\n"}
    boot = record(tmp_path, {"solo.json": b"{}"})
    assert plugin.completed(boot) == boot
    counts = replace(plugin, window_file="{load}.lines").completed(boot)
    assert counts.files == {"solo.json": b"{}", "solo.lines": b"one\n", "both.lines": b"two\n"}
    assert counts.digest == digest_results(counts.files) != boot.digest
    with pytest.raises(CannotJudge, match="no load of this cell has a sampled window"):
        executed(lab, job(tmp_path, loads[1]))
    lab.cache.close()


def test_built_in_modules_are_not_loaded(tmp_path: Path) -> None:
    (tmp_path / "kernel").mkdir()
    (tmp_path / "kernel" / "null_blk.ko.xz").touch()
    assert loaded_modules(job(tmp_path, Module("null_blk"), Module("dm-mod"))) == {"null_blk"}
