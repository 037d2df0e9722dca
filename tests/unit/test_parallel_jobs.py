# SPDX-License-Identifier: GPL-2.0-only
"""Roles of several fio jobs: the job file, their sum and spread, bound and pace."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.figures.boot import MeasurementError
from harness.intake.scaling import expected_rates
from harness.limits.limits import allowed, arm_bound
from harness.scenario.fio import job_file
from harness.scenario.model import Arm
from lab.topology.model import Disk, Driver, Hba, Lun
from tests.unit.test_figures_fio import altered, read_fio, recorded
from tests.unit.test_layers import MIRROR
from tests.unit.test_topology_load import load
from tests.unit.test_workload_fio import TOPOLOGY, VICTIM, sections, window


def test_the_jobs_of_a_role_report_one_by_one_and_take_its_cpus_in_turn() -> None:
    four = replace(VICTIM, numjobs=4, options={"cpus": "0-1"})
    (text,) = [section for name, section in sections(job_file(window(four), TOPOLOGY, 1)).items() if name == "victim"]
    assert (text["numjobs"], text["cpus_allowed"], text["cpus_allowed_policy"]) == ("4", "0-1", "split")
    assert "group_reporting" not in text and "exitall=1" in job_file(window(four), TOPOLOGY, 1)
    several = job_file(window(replace(four, disks=("a", "b"), options={})), TOPOLOGY, 1)
    assert several.count("numjobs=4") == 2 and several.count("group_reporting=1") == 0
    assert "numjobs" not in job_file(window(VICTIM), TOPOLOGY, 1)


def test_jobs_that_share_files_name_each(tmp_path: Path) -> None:
    """Of a pattern fio gives a clone no file whose name another job has, so that it would do no I/O at all."""
    mirrored = load(MIRROR, tmp_path)
    files = {"size": "1M", "files": "shared", "nrfiles": "2"}
    four = replace(VICTIM, disks=("fs",), numjobs=4, options=files)
    shared, own, single = (
        sections(job_file(window(role), mirrored, 1))["victim"]
        for role in (four, replace(four, options={"size": "1M"}), replace(four, numjobs=1))
    )
    assert (shared["filename"], "filename_format" in shared) == ("shared.0:shared.1", False)
    assert (own["filename_format"], "filename" in own) == ("victim-$jobnum.$filenum", False)
    assert (single["filename_format"], "filename" in single) == ("shared.$filenum", False)


def test_the_bound_and_the_pace_of_a_role_are_those_of_all_of_its_jobs() -> None:
    """Four jobs of depth 2 have 8 in flight: of 1 us each that is 8 a microsecond. Each is paced by itself."""
    arm = Arm("x", TOPOLOGY, {}, {})
    four = replace(VICTIM, numjobs=4, iodepth=2)
    (eight,) = (arm_bound(arm, window(role), "victim", "iops") for role in (replace(VICTIM, iodepth=8),))
    assert arm_bound(arm, window(four), "victim", "iops") == eight == 8e6
    assert arm_bound(arm, window(four), "victim", "lat.mean") == pytest.approx(1000)
    paced = replace(four, options={"rate_iops": "100"})
    assert expected_rates(arm, window(paced)) == {"victim": 400 * 4096}


def test_jobs_of_roles_that_share_a_disk_have_equal_parts() -> None:
    """One request of 4 KiB in 4 ms is 250 a second: three jobs have 3/4 of them, one has 1/4."""
    disk = Disk("a", 1 << 30, rate=1_024_000)
    topology = replace(
        TOPOLOGY, disks={"a": disk}, luns={"a": Lun("a", "h", ("a",))}, hbas={"h": Hba("h", Driver.TCMU, 64, 64)}
    )
    three = replace(VICTIM, name="three", disks=("a",), numjobs=3)
    one = replace(VICTIM, name="one", disks=("a",))
    rates = allowed(topology, window(three, one)).rates
    assert {name: rate / 4096 for name, rate in rates.items()} == pytest.approx({"three": 187.5, "one": 62.5})


def test_jobs_of_one_role_are_summed_and_the_slowest_and_the_fastest_are_told() -> None:
    """Three jobs of a window of 2 s: 400, 300 and 0 I/Os are 350, 200, 150 and 0 a second."""

    def cloned(document: Any) -> None:
        (job,) = document["jobs"]
        jobs = [json.loads(json.dumps(job)) for _ in range(3)]
        for each, (count, mean) in zip(jobs, ((400, 3e6), (300, 10e6), (0, 0.0)), strict=True):
            each["read"] |= {"total_ios": count, "runtime": 2000}
            each["read"]["lat_ns"] |= {"N": count, "mean": mean, "max": 2 * mean}
        document["jobs"] = jobs

    data = altered("aio", cloned)
    role = read_fio(data, window=2 * 10**9, numjobs=3)["victim"]
    assert (role["iops"], role["bw"], role["total_ios"]) == (350, 350 * 4096, 700)
    assert (role["job.iops.min"], role["job.iops.max"]) == (0, 200)
    # (400 x 3 ms + 300 x 10 ms) / 700
    assert (role["lat.mean"], role["lat.max"]) == (6e6, 20e6)
    assert "lat.p99" not in role
    with pytest.raises(MeasurementError, match="reported 3 times, not 4"):
        read_fio(data, numjobs=4)
    alone = read_fio(recorded("aio"))["victim"]
    assert "job.iops.min" not in alone
