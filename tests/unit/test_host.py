# SPDX-License-Identifier: GPL-2.0-only
"""What this host has: cores, memory, packages; and what the doctor says of it."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from harness.cli import main
from lab.base import host
from lab.base.errors import EXIT_LAB_BROKEN
from lab.base.host import BUILD_NEEDS, NEEDS, Cgroups, Need
from lab.doctor import (
    HostFinding,
    HostStatus,
    archive_finding,
    builds_finding,
    guests_finding,
    kvm_finding,
    memory_finding,
    program_findings,
    show,
)
from lab.packages import sources, tools
from lab.qemu.probe import Kvm, KvmState
from tests.unit.analysis_samples import null_topology

GIB = 1 << 30


def groups(tmp_path: Path, membership: str, files: dict[str, str]) -> Cgroups:
    (tmp_path / "membership").write_text(membership)
    for name, text in files.items():
        path = tmp_path / "mount" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Cgroups(tmp_path / "membership", tmp_path / "mount")


def test_no_groups_no_limits(tmp_path: Path) -> None:
    nothing = Cgroups(tmp_path / "none", tmp_path / "none")
    assert (nothing.cpu_limit(), nothing.memory_left()) == (None, None)


def test_the_narrowest_of_nested_groups_counts(tmp_path: Path) -> None:
    found = groups(
        tmp_path,
        "0::/outer/inner\n",
        {
            "outer/cpu.max": "150000 100000\n",
            "outer/inner/cpu.max": "max 100000\n",
            "outer/memory.max": f"{2 * GIB}\n",
            "outer/memory.current": f"{GIB}\n",
            "outer/memory.stat": f"anon 1\nactive_file {GIB // 4}\ninactive_file {GIB // 4}\n",
            "outer/inner/memory.max": "max\n",
            "outer/inner/memory.current": "5\n",
        },
    )
    assert found.cpu_limit() == 1.5
    assert found.memory_left() == GIB + GIB // 2


def test_in_a_container_the_mounted_root_counts(tmp_path: Path) -> None:
    files = {"memory.max": "4096\n", "memory.current": "96\n", "cpu.max": "200000 100000\n"}
    found = groups(tmp_path, "0::/the/hosts/path\n", files)
    assert (found.memory_left(), found.cpu_limit()) == (4000, 2.0)


def test_cores_are_at_least_one(tmp_path: Path) -> None:
    tenth = groups(tmp_path, "0::/\n", {"cpu.max": "10000 100000\n"})
    assert host.usable_cores(tenth) == 1
    assert host.usable_cores(Cgroups(tmp_path / "none", tmp_path)) == len(os.sched_getaffinity(0))


@pytest.mark.parametrize("load, crowding", [(0.1, 1.0), (1.0, 1.0), (4.0, 4.0), (400.0, 10.0)])
def test_deadlines_stretch_with_the_load_within_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, load: float, crowding: float
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    one_core = groups(tmp_path, "0::/job\n", {"job/cpu.max": "50000 100000\n"})
    assert host.usable_cores(one_core) == 1
    assert host.crowding(one_core) == crowding


def test_memory_is_the_smaller_of_host_and_group(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:  100 kB\nMemAvailable:    8 kB\n")
    roomy = groups(tmp_path, "0::/\n", {"memory.max": f"{GIB}\n", "memory.current": "0\n"})
    assert host.memory_available(roomy, meminfo) == 8192
    (tmp_path / "mount/memory.max").write_text("4096\n")
    assert host.memory_available(roomy, meminfo) == 4096
    (tmp_path / "mount/memory.current").write_text("5000\n")
    assert host.memory_available(roomy, meminfo) == 0


def test_free_space_of_a_folder_to_come(tmp_path: Path) -> None:
    there, to_come = host.disk_free(tmp_path), host.disk_free(tmp_path / "a/b/c")
    assert abs(there - to_come) < GIB
    assert there > 0


def test_packages_are_installed_by_apt_or_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    needs = (Need("b", "b-pkg", "test"), Need("a", "a-pkg", "test"), Need("c", "a-pkg", "test"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert host.install_line(needs).endswith("distribution gives them: a-pkg b-pkg")
    (tmp_path / "apt-get").touch(0o755)
    assert host.install_line(needs).startswith("apt-get install") and host.install_line(needs).endswith(" a-pkg b-pkg")


def test_patterns_of_files_are_needs_too(tmp_path: Path) -> None:
    need = Need(f"{tmp_path}/keys.*", "k", "test")
    assert need.find() is None
    (tmp_path / "keys.gpg").write_bytes(b"")
    assert need.find() == tmp_path / "keys.gpg"


def test_the_doctor_asks_for_what_set_up_installs() -> None:
    assert Need("dpkg-deb", "dpkg", "unpack packaged kernels") in NEEDS
    # The lab brings these itself.
    assert not {"qemu-system-x86_64", "gcc", "depmod"} & {need.program for need in NEEDS}
    assert {"gcc", "ld", "flex"} <= {need.program for need in BUILD_NEEDS}


@pytest.mark.parametrize(("available", "fit"), [((768 << 20) - 1, 0), (768 << 20, 1), (8 << 30, 10)])
def test_guests_take_their_memory_and_what_qemu_needs(available: int, fit: int) -> None:
    assert host.guests_that_fit(512 << 20, available) == fit


ABSENT = Need("no-such-program", "a-pkg", "test")


def test_a_finding_is_one_line_with_its_remedy() -> None:
    assert show(HostFinding(HostStatus.OK, "cores", "2")) == "ok      cores         2\n"
    line = "missing QEMU          none; remedy: get one\n"
    assert show(HostFinding(HostStatus.MISSING, "QEMU", "none", "get one")) == line


def test_memory_is_weighed_for_the_host_and_for_the_catalogue() -> None:
    assert memory_finding(1 << 29).status is HostStatus.MISSING
    assert memory_finding(1 << 31).status is HostStatus.OK
    small, large = null_topology(), replace(null_topology(), name="large", memory=3 << 30)
    fits = guests_finding(8 << 30, 4, [large, small])
    assert (fits.status, fits.fact) == (HostStatus.OK, "2 at once of the largest topology, large (3G)")
    assert guests_finding(8 << 30, 1, [large, small]).fact.startswith("1 at once")
    too_large = guests_finding(3 << 30, 4, [large, small])
    assert (too_large.status, too_large.fact) == (HostStatus.NOTE, "too large for this memory: large (3G)")


def test_missing_programs_come_with_the_line_to_type_and_those_for_builds_stop_no_scenario() -> None:
    single, together = program_findings((ABSENT,))
    assert (single.status, single.remedy) == (HostStatus.MISSING, together.remedy)
    assert together.remedy == "apt-get install -y --no-install-recommends a-pkg"
    finding = builds_finding((ABSENT,))
    assert finding.status is HostStatus.NOTE
    assert "no-such-program" in finding.fact
    assert finding.remedy == "scripts/host-packages --build, or: apt-get install -y --no-install-recommends a-pkg"
    assert builds_finding(()).status is HostStatus.OK


@pytest.mark.parametrize("state", KvmState)
def test_kvm_never_stops_the_virtual_clock(state: KvmState) -> None:
    finding = kvm_finding(Kvm(state, "seen this"))
    assert finding.status is (HostStatus.OK if state is KvmState.WORKS else HostStatus.NOTE)
    assert finding.fact.startswith(f"{state}")
    assert "TCG" in finding.fact
    assert bool(finding.remedy) is (state is not KvmState.WORKS)


def test_without_qemu_the_exit_code_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BLKLAB_QEMU", str(tmp_path / "none"))
    monkeypatch.setenv("BLKLAB_CACHE", str(tmp_path / "cache"))
    assert main(["doctor"]) == EXIT_LAB_BROKEN
    out = capsys.readouterr().out
    assert "missing QEMU" in out
    assert "remedy: correct it, or unset it" in out


def test_a_qemu_that_is_not_fetched_yet_is_no_fault(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("BLKLAB_QEMU", raising=False)
    monkeypatch.setenv("BLKLAB_CACHE", str(tmp_path / "cache"))
    main(["doctor"])
    out = capsys.readouterr().out
    assert "note    QEMU          the lab's own is not in the cache; remedy: none needed" in out
    # Nothing was downloaded.
    assert not (tmp_path / "cache" / tools.KIND).exists()


def test_a_host_without_a_debian_mirror_gets_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BLKLAB_CACHE", str(tmp_path / "cache"))
    (tmp_path / "debian-archive-keyring.gpg").touch()
    none = sources.debian(tmp_path, tmp_path, {})
    finding = archive_finding(none)
    assert finding.status is HostStatus.MISSING
    assert "BLKLAB_DEBIAN_MIRROR" in finding.remedy
