# SPDX-License-Identifier: GPL-2.0-only
"""Guests with four CPUs repeat to the byte: cold and warm, idle and busy, by their script and on a cluster."""

import json
import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from harness.commands.boots import kernel_again
from harness.commands.options import tell
from harness.figures.lines import read_sharing
from harness.profile.cells import ProfiledCell
from harness.record.store import load_run
from harness.run.plan import guest_job
from harness.scenario.load import read_scenario
from harness.sharing.window import window_of_cell
from lab.base.cache import Cache
from lab.base.digest import digest_file
from lab.base.errors import EXIT_PASS
from lab.guest import image
from lab.guest.steps import job_files
from lab.guest.steps.load import Phase, RunLoad
from lab.kernels.resolve import resolve
from lab.observers import counted
from lab.session import Job, open_lab, prepare_job, run_job
from lab.topology.load import load_topology
from lab.topology.model import Processors
from tests.process.dask_cluster import Cluster
from tests.vm.host import CHECKOUT, blklab, kernel_or_skip
from tests.vm.test_determinism import busy_host

pytestmark = [pytest.mark.network, pytest.mark.slow]
KERNEL = "debian:6.1"
FOUR = """\
scenario: four
title: Four jobs on one queue of a null_blk
schema: 1
topology:
  memory: 512M
  machine: {cpus: 4}
  hbas: {nullb: {driver: null_blk, can_queue: 64}}
  disks: {d: {size: 1G, service: 1us}}
  luns: {d: {hba: nullb, disks: [d]}}
queue: {scheduler: none}
window: {ramp: 10ms, runtime: 100ms}
seeds: 1
arms: {n: {}}
loads:
  four:
    r0: {disk: d, rw: randread, bs: 4k, iodepth: 1, ioengine: psync, cpus: 0}
    r1: {disk: d, rw: randread, bs: 4k, iodepth: 1, ioengine: psync, cpus: 1}
    r2: {disk: d, rw: randread, bs: 4k, iodepth: 1, ioengine: psync, cpus: 2}
    r3: {disk: d, rw: randread, bs: 4k, iodepth: 1, ioengine: psync, cpus: 3}
claims:
  - {that: the queue is shared, ratio: n.four.guest.lines.footprint, expect: ">= 1"}
controls:
  - {that: each job has a part, ratio: n.four.r0.lines.footprint / n.four.guest.lines.footprint, expect: "<= 3"}
"""


@pytest.fixture
def four(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    kernel_or_skip(KERNEL)
    path = tmp_path / "four.yaml"
    path.write_text(FOUR.replace("cpus: 4", getattr(request, "param", "cpus: 4")))
    return path


def run(scenario: Path, results: Path, *words: str, command: str = "run", spec: str = KERNEL) -> Path:
    """Folder of the run."""
    of_kernel = ("--kernels" if command == "matrix" else "--kernel", spec)
    done = blklab(command, str(scenario), *of_kernel, "--results", str(results), *words)
    assert done.returncode == EXIT_PASS, done.stdout + done.stderr
    return (results / scenario.stem / "latest").resolve()


def digests(run: Path) -> list[str]:
    return [json.loads(path.read_text())["digest"] for path in sorted(run.glob("boots/*/boot.json"))]


SEE_NODES = """[nodes]
ioengine=null
rw=read
size=4k
exec_prerun=cd /sys/devices/system && cat node/node*/cpulist cpu/cpu*/cache/index3/shared_cpu_list >/out/nodes && true
"""


def test_a_guest_has_nodes_of_consecutive_cpus_that_share_a_cache(tmp_path: Path) -> None:
    """rq_affinity 1 completes a request on a CPU that shares a cache with the one that submitted it."""
    kernel_or_skip(KERNEL)
    lab = open_lab(Cache.default())
    topology = replace(load_topology("io-cost-null-blk", near=CHECKOUT), processors=Processors(8, nodes=4))
    prepared = prepare_job(lab, resolve(KERNEL, lab.cache), topology, Job({}, (), 0, 0, {}))
    steps = (Phase("rest"), RunLoad("nodes", SEE_NODES))
    archive = image.job_archive(job_files(steps, deadline=600))
    record = run_job(lab, replace(prepared, job_archive=archive, steps=steps), tmp_path)
    pairs = ["0-1", "2-3", "4-5", "6-7"]
    assert record.files["nodes"].decode().split() == [*pairs, *(pair for pair in pairs for _ in range(2))]


@pytest.mark.parametrize("four", ["cpus: 4", "cpus: 4, nodes: 2"], indirect=True)
def test_a_restored_guest_and_one_on_a_busy_host_have_the_digest_of_one_that_booted(four: Path, tmp_path: Path) -> None:
    quiet = digests(run(four, tmp_path / "quiet", "--verify"))
    with busy_host():
        busy = digests(run(four, tmp_path / "busy", "--verify"))
    assert len(quiet) == len(busy) == 2
    assert len({*quiet, *busy}) == 1
    run_folder = load_run(tmp_path / "quiet/four/latest")
    lab, kernel = open_lab(Cache.default()), kernel_again(run_folder)
    window = window_of_cell(lab, run_folder, kernel, ProfiledCell("n", "four"), tell)
    remote = [group.remote for group in window.groups]
    assert any(remote) if "nodes" in four.read_text() else remote == [None] * len(remote)


def test_the_ios_of_each_cpu_are_counted(four: Path, tmp_path: Path) -> None:
    """Each read is one bio; one of each CPU may be submitted in the window and complete after it, or the other way."""
    boot = run(four, tmp_path / "results") / "boots" / "000"
    cpus = read_sharing((boot / "window.0").read_bytes(), KERNEL).cpus
    assert len(cpus) == 4
    assert all(cpu.ios > 1000 and abs(cpu.ios - cpu.bios) <= 1 for cpu in cpus.values())


def test_the_counts_of_four_cpus_come_from_the_kit_too(four: Path, tmp_path: Path) -> None:
    boot = run(four, tmp_path / "results") / "boots" / "000"
    kit = tmp_path / "kit"
    assert blklab("store", "kit", str(boot.parents[1]), "--to", str(kit)).returncode == EXIT_PASS
    nowhere = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    again = tmp_path / "again"
    words = ["sh", str(kit / "repeat.sh"), str(again)]
    done = subprocess.run(words, env=nowhere, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the results are identical" in done.stdout
    assert digest_file(again / "window.0") == digest_file(boot / "window.0")


def test_explain_prints_the_model_of_more_cpus_and_no_profile(four: Path, tmp_path: Path) -> None:
    done = blklab("explain", str(run(four, tmp_path / "results")))
    assert done.returncode == EXIT_PASS, done.stderr
    shown = done.stdout
    (says,) = [line for line in shown.splitlines() if line.startswith("n.four: ")]
    # The line that wbt writes for each read, which all CPUs do (docs/why.md).
    assert re.fullmatch(r"n\.four: saturated by \d+ to \d+ CPUs: heap of .*wbt_.*; 4 CPUs reach at most .*", says)
    assert "not measured (curve: blklab sharing" in shown and "blklab profile" not in shown


def test_a_worker_boots_four_cpus(four: Path, cluster: Cluster, tmp_path: Path) -> None:
    here = run(four, tmp_path / "here")
    cluster.work()
    cluster.await_workers(1)
    there = run(four, tmp_path / "there", "--dask", cluster.address, command="matrix")
    assert digests(there) == digests(here)
    assert digest_file(there / "boots" / "000" / "window.0") == digest_file(here / "boots" / "000" / "window.0")


COUNTED = """\
scenario: counted
title: Reads of an array of mirrors on one CPU
schema: 1
topology:
  memory: 512M
  machine: {counted: true}
  hbas: {nullb: {driver: null_blk, can_queue: 64}}
  disks: {d0..3: {size: 1G, service: 1us}}
  luns:
    d0: {hba: nullb, disks: [d0]}
    d1: {hba: nullb, disks: [d1]}
    d2: {hba: nullb, disks: [d2]}
    d3: {hba: nullb, disks: [d3]}
  stacks: {r: {kind: md, level: raid10, over: [d0, d1, d2, d3], chunk: 64k}}
queue: {scheduler: none}
window: {ramp: 20ms, runtime: 100ms}
seeds: 1
arms: {n: {}}
loads: {reads: {io: {disk: r, rw: randread, bs: 4k, iodepth: 1, ioengine: psync, cpus: 0}}}
claims:
  - {that: a read takes locks, ratio: n.reads.io.locks, expect: ">= 1"}
controls:
  - {that: it does not take a hundred, ratio: n.reads.guest.locks, expect: "<= 100"}
"""


@pytest.mark.parametrize("spec, taken", [("debian:5.10", 1), ("debian:6.1", 0)])
def test_one_cpu_has_the_lock_of_a_barrier(spec: str, taken: int, tmp_path: Path) -> None:
    """wait_barrier() of raid10 takes resync_lock for each read before 6.1, where a sequence lock replaces it."""
    path = tmp_path / "counted.yaml"
    path.write_text(COUNTED)
    kernel_or_skip(spec)
    window = read_sharing((run(path, tmp_path / "results", spec=spec) / "boots/000/window.0").read_bytes(), spec)
    (cpu,) = window.cpus.values()
    short = [lock for lock in window.locks if 10 <= lock.held / lock.taken <= 20 and lock.longest < 50]
    assert not window.lines
    assert window.turns == 0
    assert [round(lock.taken / cpu.ios, 2) for lock in short if lock.taken > 0.5 * cpu.ios] == [1.0] * taken


def test_counting_changes_nothing_on_one_cpu(four: Path, tmp_path: Path) -> None:
    """The same guest with the plugin and without."""
    path = tmp_path / "counted.yaml"
    path.write_text(COUNTED)
    scenario, lab = read_scenario(str(path), search=tmp_path), open_lab(Cache.default())
    arm = scenario.arms["n"]
    prepared = prepare_job(lab, resolve(KERNEL, lab.cache), arm.topology, guest_job(scenario, arm, 1))
    (tmp_path / "plain").mkdir()
    (tmp_path / "counted").mkdir()
    plain = run_job(lab, prepared, tmp_path / "plain")
    with_counts = run_job(lab, counted(lab, prepared), tmp_path / "counted")
    assert {**plain.files} == {name: data for name, data in with_counts.files.items() if name != "reads.lines"}
    assert (tmp_path / "plain" / "results.txt").read_bytes() == (tmp_path / "counted" / "results.txt").read_bytes()
